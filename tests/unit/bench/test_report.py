"""The tables of benchmarks."""

from __future__ import annotations

from bench.report import ReportRow, format_table


def test_table_has_a_column_for_each_value_that_any_row_has() -> None:
    rows = [ReportRow("ours", {"whole ms": 3.0}), ReportRow("added", {"whole ms": 2.0, "each further step ms": 1.0})]
    assert format_table("Turns", rows).splitlines()[2:] == [
        "| | whole ms | each further step ms |",
        "|---|---|---|",
        "| ours | 3 |  |",
        "| added | 2 | 1 |",
    ]
