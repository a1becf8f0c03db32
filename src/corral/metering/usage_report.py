"""Reports usage for people and programs: a bounded response, or all rows page by page.

Each page is a transaction of its own, so a slow reader holds no connection. The sums of the current hour may grow
between two pages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from corral.domain.errors import InvalidRequest
from corral.domain.usage import UsageGrouping, UsageQuery, UsageRow, UsageSums
from corral.store import usage as store
from corral.store.database import Database

PAGE_ROWS = 1000
# A JSON response is made and read as a whole.
ROWS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Rows and total of one usage report: requests and tokens of a time."""

    rows: list[UsageRow]
    total: UsageSums
    # Whether there are more rows than the report has.
    is_cut: bool


async def make_report(database: Database, query: UsageQuery, *, limit: int = ROWS_MAX) -> UsageReport:
    async with database.transaction() as tx:
        rows = await store.list_usage(tx, query, limit=limit + 1) if query.by else []
        total = await store.read_total(tx, query)
    return UsageReport(rows=rows[:limit], total=total, is_cut=len(rows) > limit)


async def iter_pages(database: Database, query: UsageQuery) -> AsyncIterator[list[UsageRow]]:
    """Yield all rows in pages. The first page is yielded even if it is empty."""
    last: UsageRow | None = None
    while True:
        async with database.transaction() as tx:
            rows = await store.list_usage(tx, query, after=last, limit=PAGE_ROWS)
        if rows or last is None:
            yield rows
        if len(rows) < PAGE_ROWS:
            return
        last = rows[-1]


def parse_by(text: str) -> tuple[UsageGrouping, ...]:
    """Parse a list such as `model,day`; each word once."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in frozenset(UsageGrouping):
            raise InvalidRequest(
                f"Usage cannot be grouped by {word!r}.", hint=f"One or more of: {', '.join(UsageGrouping)}."
            )
    by = tuple(dict.fromkeys(UsageGrouping(word) for word in words))
    if UsageGrouping.DAY in by and UsageGrouping.HOUR in by:
        raise InvalidRequest("Usage can be grouped by day or by hour, not by both.", hint="Leave one of them out.")
    return by


def to_utc(moment: datetime) -> datetime:
    """Return the time in UTC. A time without a zone is taken as UTC."""
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidRequest(f"{moment} is outside of the range that Corral supports.") from error


def check_span(query: UsageQuery) -> None:
    if query.until is not None and query.until <= query.since:
        raise InvalidRequest("The time range begins after it ends.", hint="`from` has to be before `to`.")
