"""What is asked before a request is let in, and who is told when it has ended. Both at once, in memory: no waiting."""

from __future__ import annotations

from typing import Protocol

from corral.domain.access import Allowance, Principal
from corral.domain.answered import Answered


class Limiter(Protocol):
    def admit(self, principal: Principal, model: str) -> None:
        """Count one request of this key for this model. `LimitReached` (429) with the time to wait, if it is one too
        many; then it is not counted."""
        ...

    def allowance(self, principal: Principal, model: str) -> Allowance:
        """What is left. Asked only for a key that has limits."""
        ...


class Listener(Protocol):
    def answered(self, *records: Answered) -> None:
        """These requests have ended. Told exactly once of each, before its last byte goes out. It must not raise."""
        ...


class NoLimits:
    def admit(self, principal: Principal, model: str) -> None:
        del principal, model

    def allowance(self, principal: Principal, model: str) -> Allowance:
        del principal, model
        return Allowance()
