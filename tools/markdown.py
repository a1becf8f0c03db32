"""The few shapes that the generated pages are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NOTICE = "<!-- Written by `make docs` from the code. Do not edit by hand. -->"


def page(title: str, *blocks: str) -> str:
    return "\n\n".join([f"# {title}", NOTICE, *(block.strip("\n") for block in blocks)]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row(head), _row(["---"] * len(head))]
    lines += [_row([cell(text) for text in row]) for row in rows]
    return "\n".join(lines)


def cell(text: str) -> str:
    """One line, and no bar that would end the cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def anchor(heading: str) -> str:
    """The address of a heading, as GitHub makes it."""
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -_")
    return "#" + kept.replace(" ", "-")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
