"""What the settings of all processes share: how they are read, and rules between them.

Imports nothing of the other models: a command of the client does not wait for what only a frontend needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRule:
    """Settings that are right one by one, and wrong together."""

    fields: tuple[str, ...]
    sentence: str
    hint: str


class RulesBroken(ValueError):
    def __init__(self, rules: list[BrokenRule]) -> None:
        self.rules = rules
        super().__init__("; ".join(rule.sentence for rule in rules))


def shown_default(text: str) -> dict[str, Any]:
    """What the reference page prints where the real default depends on the machine."""
    return {"shown_default": text}


class ProcessSettings(BaseModel):
    """What all models share. `process` is the table in the file and the word in `corral config`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)
    process: ClassVar[str]

    @model_validator(mode="after")
    def _keep_rules(self) -> Self:
        broken = list(self.broken_rules())
        if broken:
            raise RulesBroken(broken)
        return self

    def broken_rules(self) -> Iterator[BrokenRule]:
        yield from ()

    def must_go_together(self, one: str, other: str, *, why: str) -> Iterator[BrokenRule]:
        if (getattr(self, one) is None) != (getattr(self, other) is None):
            given, missing = (one, other) if getattr(self, other) is None else (other, one)
            yield BrokenRule(
                fields=(given, missing),
                sentence=f"{{0}} is set and {{1}} is not: {why}",
                hint="Set both, or neither.",
            )
