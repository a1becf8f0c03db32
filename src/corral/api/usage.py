"""`/api/usage` and `/api/me/usage`: usage reports."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse

from corral.api.deps import AnyCallerIn, ApiDeps, DepsIn, OperatorIn
from corral.domain.usage import UsageGrouping, UsageQuery, UsageRow, UsageSums
from corral.metering.usage_report import check_span, iter_pages, make_report, parse_by, to_utc
from corral.wire.usage import UsageOut, UsageRowOut, UsageSumsOut

router = APIRouter(prefix="/api", tags=["usage"])

DEFAULT_SPAN = timedelta(days=30)
_CSV = {"Content-Disposition": 'attachment; filename="usage.csv"', "Cache-Control": "no-store"}
_FIELDS = {
    UsageGrouping.KEY: ("key_id", "key_name", "user_name"),
    UsageGrouping.MODEL: ("model",),
    UsageGrouping.USER: ("user_name",),
    UsageGrouping.CALL: ("call",),
    UsageGrouping.NODE: ("node",),
    UsageGrouping.DAY: ("at",),
    UsageGrouping.HOUR: ("at",),
}
# Columns that have another name in JSON.
_NAMES = {"key_name": "key", "user_name": "user"}
# A spreadsheet takes a cell that begins with one of these for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class UsageFormat(StrEnum):
    """Names the formats in which `GET /api/usage` returns a usage report."""

    JSON = "json"
    CSV = "csv"


async def _parse_query(
    deps: DepsIn,
    since: Annotated[
        datetime | None,
        Query(alias="from", description="Start, as a day or a time; UTC without a zone. Default: 30 days ago."),
    ] = None,
    until: Annotated[datetime | None, Query(alias="to", description="End, not included. Default: now.")] = None,
    by: Annotated[
        str, Query(max_length=100, description="Group by one or more of key, model, user, call, node, and day or hour.")
    ] = "model",
) -> UsageQuery:
    question = UsageQuery(
        since=to_utc(since) if since else deps.clock.wall() - DEFAULT_SPAN,
        until=to_utc(until) if until else None,
        by=parse_by(by),
    )
    check_span(question)
    return question


UsageQueryIn = Annotated[UsageQuery, Depends(_parse_query)]
UsageFormatIn = Annotated[
    UsageFormat, Query(alias="format", description="csv returns all rows, json the first 10,000.")
]
_RESPONSES: dict[int | str, dict[str, object]] = {
    200: {"model": UsageOut, "content": {"text/csv": {"schema": {"type": "string"}}}}
}


@router.get("/usage", responses=_RESPONSES, response_class=Response)
async def show_usage(
    deps: DepsIn, _: OperatorIn, query: UsageQueryIn, form: UsageFormatIn = UsageFormat.JSON
) -> Response:
    """Show requests, errors and tokens, grouped as requested. Usage is stored by the hour: times are rounded down."""
    return await _make_response(deps, query, form)


@router.get("/me/usage", responses=_RESPONSES, response_class=Response)
async def show_own_usage(
    deps: DepsIn, principal: AnyCallerIn, query: UsageQueryIn, form: UsageFormatIn = UsageFormat.JSON
) -> Response:
    """Show the usage of the calling key; for a session of a user, that of the user."""
    is_session, name, key_id = principal.is_session, principal.name, principal.key_id
    own_query = replace(query, user_name=name) if is_session else replace(query, key_id=key_id)
    return await _make_response(deps, own_query, form)


async def _make_response(deps: ApiDeps, query: UsageQuery, form: UsageFormat) -> Response:
    if form is UsageFormat.CSV:
        return StreamingResponse(await _begin_stream(_iter_csv(deps, query)), media_type="text/csv", headers=_CSV)
    found, columns = await make_report(deps.database, query), _list_columns(query)
    report = UsageOut(
        since=query.since,
        until=query.until,
        by=list(query.by),
        rows=[_row_to_wire(row, columns) for row in found.rows],
        total=UsageSumsOut(**asdict(found.total)),
        is_cut=found.is_cut,
    )
    return JSONResponse(report.model_dump(mode="json", exclude_none=True))


def _list_columns(query: UsageQuery) -> list[str]:
    """Return the fields by which the rows are grouped."""
    return list(dict.fromkeys(name for by in query.by for name in _FIELDS[by]))


def _row_to_wire(row: UsageRow, columns: list[str]) -> UsageRowOut:
    fields = {_NAMES.get(name, name): getattr(row, name) for name in columns}
    return UsageRowOut.model_validate(fields | asdict(row.sums))


async def _begin_stream(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """Read the first piece before the response starts, so that an error can still set the status."""
    first = await anext(lines)

    async def iter_all() -> AsyncIterator[str]:
        yield first
        async for line in lines:
            yield line

    return iter_all()


async def _iter_csv(deps: ApiDeps, query: UsageQuery) -> AsyncIterator[str]:
    columns = _list_columns(query)
    head = [_NAMES.get(name, name) for name in columns] + list(UsageSums.__dataclass_fields__)
    async for rows in iter_pages(deps.database, query):
        yield _render_csv([head] if head else [], rows, columns)
        head = []


def _render_csv(head: list[list[str]], rows: list[UsageRow], columns: list[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(head)
    writer.writerows(
        [*(_format_cell(getattr(row, name)) for name in columns), *asdict(row.sums).values()] for row in rows
    )
    return text.getvalue()


def _format_cell(value: str | datetime | None) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    text = value or ""
    return f"'{text}" if text.startswith(_FORMULA) else text
