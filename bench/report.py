"""Tables in Markdown, with the ratio to the baseline, which is always the last row."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

_began = time.monotonic()


def silence_logs() -> None:
    """Log warnings only, and none of them between the tables."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(30), logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )


def print_progress(words: str) -> None:
    """Print how far the run is."""
    print(f"{time.monotonic() - _began:6.1f} s  {words}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class ReportRow:
    """Holds one row of a result table."""

    name: str
    values: dict[str, float]


def format_table(title: str, rows: Sequence[ReportRow], *, ratio_of: Sequence[str] = ()) -> str:
    """Format a table with a column for each value that any row has. Without `ratio_of` there is no line of ratios."""
    columns = list(dict.fromkeys(column for row in rows for column in row.values))
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


def _shown(row: ReportRow, column: str) -> str:
    """Return the text of a cell; empty if the value was not measured."""
    return _number(row.values[column]) if column in row.values else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
