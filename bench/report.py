"""Tables in Markdown, with the ratio to the baseline, which is always the last row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    name: str
    values: dict[str, float]


def table(title: str, rows: Sequence[Row], *, ratio_of: Sequence[str]) -> str:
    columns = list(rows[0].values)
    lines = [f"### {title}", "", f"| | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    lines += [f"| {row.name} | {' | '.join(_number(row.values[column]) for column in columns)} |" for row in rows]
    baseline = rows[-1]
    ratios = [
        _number(rows[0].values[column] / baseline.values[column]) + " ×" if column in ratio_of else ""
        for column in columns
    ]
    lines.append(f"| **{rows[0].name} : {baseline.name}** | {' | '.join(ratios)} |")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
