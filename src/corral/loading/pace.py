"""How often to look for work that is announced anyway: at every pass while there is some, seldom after a quiet time.

Guarantee: a lost announcement costs `SELDOM` passes and no more.
"""

from __future__ import annotations

# So many passes in a row that found nothing are a quiet time; then every so many-th one looks.
QUIET = 30
SELDOM = 10


class Pace:
    def __init__(self) -> None:
        self._in_vain = 0

    def is_due(self) -> bool:
        """Whether this pass is to look."""
        if self._in_vain < QUIET or self._in_vain % SELDOM == 0:
            return True
        self._in_vain += 1
        return False

    def looked(self, *, found: bool) -> None:
        self._in_vain = 0 if found else self._in_vain + 1

    def wake(self) -> None:
        """Something was announced."""
        self._in_vain = 0
