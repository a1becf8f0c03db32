"""What the dispatcher counts, for whoever keeps the numbers. The words are few and fixed: each is a series."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class StepOutcome(StrEnum):
    DONE = "done"
    # PostgreSQL was away or somebody got in between: it is tried again.
    LATER = "later"
    # Another frontend has it by now.
    LOST = "lost"
    FAILED = "failed"


class CommandOutcome(StrEnum):
    ANSWERED = "answered"
    REFUSED = "refused"
    NO_ANSWER = "no_answer"
    NOBODY_LISTENS = "nobody_listens"
    # This frontend is off the bus itself.
    OFF_BUS = "off_bus"


class EventOutcome(StrEnum):
    # Kept for the next write.
    TAKEN = "taken"
    # There were too many; its worker is asked later.
    DROPPED = "dropped"
    # It could not be read.
    ODD = "odd"


class Numbers(Protocol):
    def stepped(self, outcome: StepOutcome, seconds: float) -> None: ...

    def commanded(self, command: str, outcome: CommandOutcome) -> None:
        """`command` is send, ask or stop."""
        ...

    def heard(self, outcome: EventOutcome) -> None: ...


class Uncounted:
    """Where nobody looks."""

    def stepped(self, outcome: StepOutcome, seconds: float) -> None:
        del outcome, seconds

    def commanded(self, command: str, outcome: CommandOutcome) -> None:
        del command, outcome

    def heard(self, outcome: EventOutcome) -> None:
        del outcome
