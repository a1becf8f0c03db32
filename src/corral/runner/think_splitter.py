"""Separates the reasoning of a model from its answer in streamed text: `<think>…</think>`, `<thinking>…</thinking>`.

A tag may be split over any number of pieces; what may be the beginning of a tag is held back until it is known. Blank
text before the answer, such as the empty lines after `</think>`, is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_OPENING = ("<think>", "<thinking>")
_CLOSING = ("</think>", "</thinking>")


@dataclass(frozen=True, slots=True)
class TextPiece:
    """One piece of a model's streamed text, and whether it is reasoning or a part of the answer."""

    text: str
    is_reasoning: bool = False


class ThinkSplitter:
    """Separates a model's reasoning (`<think>`) from its answer in one stream.

    Call `feed` with each piece, then `finish` once.
    """

    def __init__(self) -> None:
        self._is_reasoning = False
        self._held = ""
        self._has_answer = False

    def feed(self, text: str) -> Iterator[TextPiece]:
        """Yield the text that is known to be reasoning or answer after this piece."""
        rest = self._held + text
        while True:
            tags = _CLOSING if self._is_reasoning else _OPENING
            position, tag = _find_first(rest, tags)
            if tag is None:
                break
            yield from self._make_piece(rest[:position])
            self._is_reasoning = not self._is_reasoning
            rest = rest[position + len(tag) :]
        self._held = _find_tag_beginning(rest, tags)
        yield from self._make_piece(rest[: len(rest) - len(self._held)])

    def finish(self) -> Iterator[TextPiece]:
        """Yield the text that was held back because it could have become a tag."""
        held, self._held = self._held, ""
        yield from self._make_piece(held)

    def _make_piece(self, text: str) -> Iterator[TextPiece]:
        if not self._is_reasoning and not self._has_answer:
            text = text.lstrip()
            self._has_answer = bool(text)
        if text:
            yield TextPiece(text, is_reasoning=self._is_reasoning)


def _find_first(text: str, tags: tuple[str, ...]) -> tuple[int, str | None]:
    found = [(position, tag) for tag in tags if (position := text.find(tag)) >= 0]
    return min(found) if found else (-1, None)


def _find_tag_beginning(text: str, tags: tuple[str, ...]) -> str:
    """Return the longest end of the text that may be the beginning of one of the tags."""
    longest = max(map(len, tags)) - 1
    for size in range(min(longest, len(text)), 0, -1):
        end = text[-size:]
        if any(tag.startswith(end) for tag in tags):
            return end
    return ""
