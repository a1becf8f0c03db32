"""Builds the few Markdown shapes that the generated pages are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NOTICE = "<!-- Written by `make docs` from the code. Do not edit by hand. -->"


def format_page(title: str, *blocks: str) -> str:
    return "\n\n".join([f"# {title}", NOTICE, *(block.strip("\n") for block in blocks)]) + "\n"


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row(head), _row(["---"] * len(head))]
    lines += [_row([format_cell(text) for text in row]) for row in rows]
    return "\n".join(lines)


def format_cell(text: str) -> str:
    """Return a text as one line without a bar that would end the table cell."""
    return " ".join(text.split()).replace("|", "\\|")


def format_code(text: str) -> str:
    return f"`{text}`" if text else ""


def make_anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -_")
    return "#" + kept.replace(" ", "-")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
