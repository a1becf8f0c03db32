"""`/api/usage` and `/api/me/usage`: who has used how much of what."""

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

from corral.api.parts import AnybodyIn, OperateIn, Parts, PartsIn
from corral.domain.usage import By, Sums, UsageQuestion, UsageRow
from corral.metering.report import check_span, in_utc, pages, parse_by, report
from corral.wire.usage import SumsOut, UsageOut, UsageRowOut

router = APIRouter(prefix="/api", tags=["usage"])

DEFAULT_SPAN = timedelta(days=30)
_CSV = {"Content-Disposition": 'attachment; filename="usage.csv"', "Cache-Control": "no-store"}
_FIELDS = {
    By.KEY: ("key_id", "key_name", "user_name"),
    By.MODEL: ("model",),
    By.USER: ("user_name",),
    By.CALL: ("call",),
    By.NODE: ("node",),
    By.DAY: ("at",),
    By.HOUR: ("at",),
}
# Those that JSON calls otherwise.
_NAMES = {"key_name": "key", "user_name": "user"}
# A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Format(StrEnum):
    JSON = "json"
    CSV = "csv"


async def _question(
    parts: PartsIn,
    since: Annotated[
        datetime | None,
        Query(alias="from", description="A day or a time; without a zone it is UTC. Default: 30 days ago."),
    ] = None,
    until: Annotated[datetime | None, Query(alias="to", description="Not included. Default: now.")] = None,
    by: Annotated[
        str, Query(max_length=100, description="One or more of key, model, user, call, node, and day or hour.")
    ] = "model",
) -> UsageQuestion:
    question = UsageQuestion(
        since=in_utc(since) if since else parts.clock.wall() - DEFAULT_SPAN,
        until=in_utc(until) if until else None,
        by=parse_by(by),
    )
    check_span(question)
    return question


QuestionIn = Annotated[UsageQuestion, Depends(_question)]
FormatIn = Annotated[Format, Query(alias="format", description="csv tells all rows, json the first 10,000.")]
_ANSWERS: dict[int | str, dict[str, object]] = {
    200: {"model": UsageOut, "content": {"text/csv": {"schema": {"type": "string"}}}}
}


@router.get("/usage", responses=_ANSWERS, response_class=Response)
async def usage(parts: PartsIn, _: OperateIn, question: QuestionIn, form: FormatIn = Format.JSON) -> Response:
    """Requests, errors and tokens, summed by what is asked for. Usage is kept by the hour: times are rounded down."""
    return await _answer(parts, question, form)


@router.get("/me/usage", responses=_ANSWERS, response_class=Response)
async def my_usage(
    parts: PartsIn, principal: AnybodyIn, question: QuestionIn, form: FormatIn = Format.JSON
) -> Response:
    """The same of the key that asks; of a user's session, all that is the user's."""
    if principal.is_session:
        mine = replace(question, user_name=principal.name)
    else:
        mine = replace(question, key_id=principal.key_id)
    return await _answer(parts, mine, form)


async def _answer(parts: Parts, question: UsageQuestion, form: Format) -> Response:
    if form is Format.CSV:
        return StreamingResponse(await _begun(_csv(parts, question)), media_type="text/csv", headers=_CSV)
    found, columns = await report(parts.database, question), _columns(question)
    told = UsageOut(
        since=question.since,
        until=question.until,
        by=list(question.by),
        rows=[_row_out(row, columns) for row in found.rows],
        total=SumsOut(**asdict(found.total)),
        is_cut=found.is_cut,
    )
    return JSONResponse(told.model_dump(mode="json", exclude_none=True))


def _columns(question: UsageQuestion) -> list[str]:
    """The fields of a row that say what it is about."""
    return list(dict.fromkeys(name for by in question.by for name in _FIELDS[by]))


def _row_out(row: UsageRow, columns: list[str]) -> UsageRowOut:
    told = {_NAMES.get(name, name): getattr(row, name) for name in columns}
    return UsageRowOut.model_validate(told | asdict(row.sums))


async def _begun(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """With the first piece in hand: what is wrong by then can still be told with a status."""
    first = await anext(lines)

    async def all_of_it() -> AsyncIterator[str]:
        yield first
        async for line in lines:
            yield line

    return all_of_it()


async def _csv(parts: Parts, question: UsageQuestion) -> AsyncIterator[str]:
    columns = _columns(question)
    head = [_NAMES.get(name, name) for name in columns] + list(Sums.__dataclass_fields__)
    async for rows in pages(parts.database, question):
        yield _lines([head] if head else [], rows, columns)
        head = []


def _lines(head: list[list[str]], rows: list[UsageRow], columns: list[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(head)
    writer.writerows([*(_cell(getattr(row, name)) for name in columns), *asdict(row.sums).values()] for row in rows)
    return text.getvalue()


def _cell(value: str | datetime | None) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    text = value or ""
    return f"'{text}" if text.startswith(_FORMULA) else text
