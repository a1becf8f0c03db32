"""What was used, for people and programs: a bounded answer, or all of it page by page.

Each page is a transaction of its own: whoever reads slowly holds no connection. The sums of the hour that is going on
may grow between two pages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from corral.domain.errors import InvalidRequest
from corral.domain.usage import By, Sums, UsageQuestion, UsageRow
from corral.store import usage as store
from corral.store.database import Database

PAGE_ROWS = 1000
# An answer as JSON is made and read as a whole.
ROWS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    rows: list[UsageRow]
    total: Sums
    # There are more rows than are told.
    is_cut: bool


async def report(database: Database, question: UsageQuestion, *, limit: int = ROWS_MAX) -> Report:
    async with database.transaction() as tx:
        rows = await store.list_usage(tx, question, limit=limit + 1) if question.by else []
        total = await store.total(tx, question)
    return Report(rows=rows[:limit], total=total, is_cut=len(rows) > limit)


async def pages(database: Database, question: UsageQuestion) -> AsyncIterator[list[UsageRow]]:
    """All rows. The first page comes also if it is empty."""
    last: UsageRow | None = None
    while True:
        async with database.transaction() as tx:
            rows = await store.list_usage(tx, question, after=last, limit=PAGE_ROWS)
        if rows or last is None:
            yield rows
        if len(rows) < PAGE_ROWS:
            return
        last = rows[-1]


def parse_by(text: str) -> tuple[By, ...]:
    """`model,day`; each once."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in frozenset(By):
            raise InvalidRequest(f"Usage is not told by {word!r}.", hint=f"One or more of: {', '.join(By)}.")
    by = tuple(dict.fromkeys(By(word) for word in words))
    if By.DAY in by and By.HOUR in by:
        raise InvalidRequest("Usage is told by the day or by the hour, not by both.", hint="Leave one of them out.")
    return by


def in_utc(moment: datetime) -> datetime:
    """A time that does not say where it holds is one of UTC."""
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidRequest(f"{moment} is not a time that Corral can have counted in.") from error


def check_span(question: UsageQuestion) -> None:
    if question.until is not None and question.until <= question.since:
        raise InvalidRequest("The time begins after it ends.", hint="`from` has to be before `to`.")
