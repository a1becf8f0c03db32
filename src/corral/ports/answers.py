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

    def check_requests(self, principal: Principal) -> None:
        """`LimitReached` (429) if a limit on the requests of this key is used up. Nothing is counted."""
        ...

    def charge(self, principal: Principal) -> None:
        """Count one request whose body was refused, so that nobody knows its model, against every limit on the requests
        of this key. `LimitReached` (429) if one of them is used up; then it is not counted."""
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

    def check_requests(self, principal: Principal) -> None:
        del principal

    def charge(self, principal: Principal) -> None:
        del principal

    def allowance(self, principal: Principal, model: str) -> Allowance:
        del principal, model
        return Allowance()
