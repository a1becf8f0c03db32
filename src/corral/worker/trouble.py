"""Says each trouble once. An outage repeats one sentence at every attempt; an operator needs it one time."""

from __future__ import annotations

import structlog

log = structlog.get_logger(__name__)

# Sentences may hold addresses or names, so their number is not bounded by itself.
MAX_REMEMBERED = 64


class Trouble:
    def __init__(self, what: str) -> None:
        self._what = what
        self._said: set[str] = set()
        self.latest: str | None = None

    def tell(self, error: Exception) -> None:
        sentence = str(error) or type(error).__name__
        self.latest = sentence
        if sentence in self._said:
            return
        if len(self._said) >= MAX_REMEMBERED:
            self._said.clear()
        self._said.add(sentence)
        log.warning("failed", what=self._what, problem=sentence, hint=getattr(error, "hint", None))

    def over(self) -> None:
        """It works again: the same trouble would be news."""
        if self._said:
            log.info("works again", what=self._what)
        self._said.clear()
        self.latest = None
