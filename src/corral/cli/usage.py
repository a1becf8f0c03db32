"""`corral usage`: who has used how much of what."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import Session, with_session
from corral.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.wire.usage import SumsOut, UsageOut, UsageRowOut

BAR_CELLS = 12
# A bar grows by eighths of a character.
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_NUMBERS = ("REQUESTS", "ERRORS", "PROMPTS", "CACHED", "ANSWERS", "TOKENS")
_TIMES = {"day": "%Y-%m-%d", "hour": "%Y-%m-%d %H:%M"}


async def _show_usage(
    session: Session,
    *,
    by: Annotated[
        str, typer.Option("--by", metavar="WHAT", help="One or more of key, model, user, call, node, and day or hour.")
    ] = "model",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="7d, 24h, or a day such as 2026-11-01 (UTC).")
    ] = "30d",
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="The same; not included.", show_default="now")
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Of my own key alone.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV: every row, for a spreadsheet.")] = False,
) -> None:
    """Show who has used how much of what: requests, errors and tokens."""
    if as_csv and session.as_json:
        raise InvalidRequest("--csv and --json are two answers to one question.", hint="Leave one of them out.")
    now, words = session.now(), [word.strip() for word in by.split(",") if word.strip()]
    begin, end = parse_moment(since, now), parse_moment(until, now) if until else None
    calls = session.client.usage
    if as_csv:
        render.write((await calls.csv(words, begin, end, is_mine=mine)).decode())
        return
    found = await calls.report(words, begin, end, is_mine=mine)
    if session.as_json:
        render.write_json(found.model_dump(mode="json", exclude_none=True))
    elif not found.total.requests:
        render.say(f"Nothing was used {_span(found)}.")
    else:
        render.write(_table(found))
        _say_more(found)


usage = with_session(_show_usage)


def parse_moment(text: str, now: datetime) -> datetime:
    """Parse a duration before `now`, or a day, as `--since` takes them."""
    # The settings' own grammar, so that a duration is written in one way everywhere.
    from corral.app.settings.values import parse_duration_s

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return now - timedelta(seconds=parse_duration_s(text))
        except (ValueError, OverflowError) as error:
            hint = "7d, 24h, or a day such as 2026-11-01."
            raise InvalidRequest(f"{text!r} is neither a duration nor a time.", hint=hint) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _table(found: UsageOut) -> str:
    names = [name.upper() for name in found.by]
    cells = [[*(_named(row, by) for by in found.by), *_numbers(row)] for row in _ordered(found)]
    cells.append([*(["total", *[""] * len(names)][: len(names)]), *_numbers(found.total)])
    shares = [_bar(_share(sums, found.total)) for sums in (*_ordered(found), found.total)]
    headers = [*names, *_NUMBERS]
    # Numbers are compared by their last digits: they stand to the right.
    widths = [max(len(row[column]) for row in (headers, *cells)) for column in range(len(headers))]
    rows = [
        [cell.rjust(widths[column]) if column >= len(names) else cell for column, cell in enumerate(row)]
        for row in (headers, *cells)
    ]
    return render.table([*rows[0], "SHARE"], [[*row, share] for row, share in zip(rows[1:], shares, strict=True)])


def _ordered(found: UsageOut) -> Sequence[UsageRowOut]:
    """What takes time goes on in time; otherwise the most comes first."""
    if any(by in _TIMES for by in found.by):
        return found.rows
    return sorted(found.rows, key=lambda row: (-row.tokens, -row.requests))


def _named(row: UsageRowOut, by: str) -> str:
    if by in _TIMES:
        return row.at.astimezone(UTC).strftime(_TIMES[by]) if row.at else ""
    if by == "key":
        return row.key or row.key_id or ""
    return str(getattr(row, by) or "")


def _numbers(sums: SumsOut) -> list[str]:
    numbers = (sums.requests, sums.errors, sums.prompt_tokens, sums.cached_tokens, sums.completion_tokens, sums.tokens)
    return [f"{number:,}" for number in numbers]


def _share(row: SumsOut, total: SumsOut) -> float:
    """Of the tokens; of the requests, where nothing has tokens."""
    return row.tokens / total.tokens if total.tokens else row.requests / total.requests


def _bar(share: float) -> str:
    eighths = round(share * BAR_CELLS * 8)
    full, rest = divmod(eighths, 8)
    percent = "<1%" if 0 < share < 0.005 else f"{share:.0%}"
    return f"{'█' * full}{_EIGHTHS[rest].strip()}".ljust(BAR_CELLS) + percent.rjust(5)


def _span(found: UsageOut) -> str:
    end = "now" if found.until is None else f"{found.until:%Y-%m-%d %H:%M}"
    return f"from {found.since:%Y-%m-%d %H:%M} until {end} (UTC)"


def _say_more(found: UsageOut) -> None:
    render.say(f"\nUsage {_span(found)}, by the hour.")
    if found.total.estimated_tokens:
        render.say(f"{found.total.estimated_tokens:,} tokens of answers are estimates: their engines did not tell.")
    if found.is_cut:
        render.say("There are more rows. `--csv` prints all of them.")
