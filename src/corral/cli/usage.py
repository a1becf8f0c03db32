"""`corral usage`: requests, errors and tokens by key, model, user, call, node or time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import CommandSession, add_session
from corral.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.wire.usage import UsageOut, UsageRowOut, UsageSumsOut

BAR_CELLS = 12
# Bars grow in steps of an eighth of a character.
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_NUMBERS = ("REQUESTS", "ERRORS", "PROMPT", "CACHED", "COMPLETION", "TOKENS")
_TIMES = {"day": "%Y-%m-%d", "hour": "%Y-%m-%d %H:%M"}


async def _show_usage(
    session: CommandSession,
    *,
    by: Annotated[
        str,
        typer.Option(
            "--by", metavar="WHAT", help="Group by one or more of key, model, user, call, node, and day or hour."
        ),
    ] = "model",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Start: 7d, 24h, or a day such as 2026-11-01 (UTC).")
    ] = "30d",
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="End, in the same form; not included.", show_default="now"),
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only the usage of your own key.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all rows as CSV.")] = False,
) -> None:
    """Show usage: requests, errors and tokens by key, model, user, call, node or time."""
    if as_csv and session.as_json:
        raise InvalidRequest("--csv and --json cannot be combined.", hint="Give only one of them.")
    now, words = session.read_time(), [word.strip() for word in by.split(",") if word.strip()]
    begin, end = parse_moment(since, now), parse_moment(until, now) if until else None
    calls = session.client.usage
    if as_csv:
        render.print_data((await calls.get_csv(words, begin, end, is_mine=mine)).decode())
        return
    found = await calls.get_report(words, begin, end, is_mine=mine)
    if session.as_json:
        render.print_json(found.model_dump(mode="json", exclude_none=True))
    elif not found.total.requests:
        render.print_notice(f"There was no usage {_describe_span(found)}.")
    else:
        render.print_data(_format_usage(found))
        _print_notes(found)


usage = add_session(_show_usage)


def parse_moment(text: str, now: datetime) -> datetime:
    """Parse a duration before `now`, or a day, as `--since` takes them."""
    # The settings' own grammar, so that a duration is written in one way everywhere.
    from corral.domain.duration import parse_duration_s

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return now - timedelta(seconds=parse_duration_s(text))
        except (ValueError, OverflowError) as error:
            hint = "7d, 24h, or a day such as 2026-11-01."
            raise InvalidRequest(f"{text!r} is neither a duration nor a time.", hint=hint) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _format_usage(found: UsageOut) -> str:
    names = [name.upper() for name in found.by]
    cells = [[*(_format_key(row, by) for by in found.by), *_format_numbers(row)] for row in _sort_rows(found)]
    cells.append([*(["total", *[""] * len(names)][: len(names)]), *_format_numbers(found.total)])
    shares = [_render_bar(_compute_share(sums, found.total)) for sums in (*_sort_rows(found), found.total)]
    headers = [*names, *_NUMBERS]
    # Numbers are right-aligned, so that their digits line up.
    widths = [max(len(row[column]) for row in (headers, *cells)) for column in range(len(headers))]
    rows = [
        [cell.rjust(widths[column]) if column >= len(names) else cell for column, cell in enumerate(row)]
        for row in (headers, *cells)
    ]
    return render.format_table(
        [*rows[0], "SHARE"], [[*row, share] for row, share in zip(rows[1:], shares, strict=True)]
    )


def _sort_rows(found: UsageOut) -> Sequence[UsageRowOut]:
    """Sort rows by time if they are grouped by time, otherwise by the largest number first."""
    if any(by in _TIMES for by in found.by):
        return found.rows
    return sorted(found.rows, key=lambda row: (-row.tokens, -row.requests))


def _format_key(row: UsageRowOut, by: str) -> str:
    if by in _TIMES:
        return row.at.astimezone(UTC).strftime(_TIMES[by]) if row.at else ""
    if by == "key":
        return row.key or row.key_id or ""
    return str(getattr(row, by) or "")


def _format_numbers(sums: UsageSumsOut) -> list[str]:
    numbers = (sums.requests, sums.errors, sums.prompt_tokens, sums.cached_tokens, sums.completion_tokens, sums.tokens)
    return [f"{number:,}" for number in numbers]


def _compute_share(row: UsageSumsOut, total: UsageSumsOut) -> float:
    """Return the share of a row: of the tokens, or of the requests if there are no tokens."""
    return row.tokens / total.tokens if total.tokens else row.requests / total.requests


def _render_bar(share: float) -> str:
    eighths = round(share * BAR_CELLS * 8)
    full, rest = divmod(eighths, 8)
    percent = "<1%" if 0 < share < 0.005 else f"{share:.0%}"
    return f"{'█' * full}{_EIGHTHS[rest].strip()}".ljust(BAR_CELLS) + percent.rjust(5)


def _describe_span(found: UsageOut) -> str:
    end = "now" if found.until is None else f"{found.until:%Y-%m-%d %H:%M}"
    return f"from {found.since:%Y-%m-%d %H:%M} until {end} (UTC)"


def _print_notes(found: UsageOut) -> None:
    render.print_notice(f"\nUsage {_describe_span(found)}, by the hour.")
    if found.total.estimated_tokens:
        render.print_notice(
            f"{found.total.estimated_tokens:,} output tokens are estimates: the engines did not report them."
        )
    if found.is_cut:
        render.print_notice("There are more rows. `--csv` prints all of them.")
