"""Tables in Markdown, with the ratio to the baseline, which is always the last row."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

_began = time.monotonic()


def quiet_logs() -> None:
    """Warnings only, and none of them between the tables."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(30), logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )


def say(words: str) -> None:
    """Where the run is, for whoever waits."""
    print(f"{time.monotonic() - _began:6.1f} s  {words}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Row:
    name: str
    values: dict[str, float]


def table(title: str, rows: Sequence[Row], *, ratio_of: Sequence[str] = ()) -> str:
    """Without `ratio_of` there is no line of ratios."""
    columns = list(rows[0].values)
    lines = [f"### {title}", "", f"| | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    lines += [f"| {row.name} | {' | '.join(_shown(row, column) for column in columns)} |" for row in rows]
    if not ratio_of:
        return "\n".join(lines) + "\n"
    baseline = rows[-1]
    ratios = [
        _number(rows[0].values[column] / baseline.values[column]) + " ×" if column in ratio_of else ""
        for column in columns
    ]
    lines.append(f"| **{rows[0].name} : {baseline.name}** | {' | '.join(ratios)} |")
    return "\n".join(lines) + "\n"


def _shown(row: Row, column: str) -> str:
    """What was not measured is left empty."""
    return _number(row.values[column]) if column in row.values else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
