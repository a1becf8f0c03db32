"""Base of the settings of all processes: how they are read, and rules between settings. Also the settings of the
commands that talk to a cluster; such a command reads no other settings.

Imports none of the other models, so that a client command does not import modules that only a frontend needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from corral.app.settings.values import Directory, FrontendUrl


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenSettingsRule:
    """Describes settings of a process that are valid one by one and contradict each other."""

    fields: tuple[str, ...]
    sentence: str
    hint: str


class BrokenSettingsRules(ValueError):
    """Raised when settings of a process contradict each other; lists every broken rule."""

    def __init__(self, rules: list[BrokenSettingsRule]) -> None:
        self.rules = rules
        super().__init__("; ".join(rule.sentence for rule in rules))


def make_shown_default(text: str) -> dict[str, Any]:
    """Return the extra that makes the reference page print this text as the default, where it depends on the
    machine."""
    return {"shown_default": text}


class ProcessSettings(BaseModel):
    """Base class of the settings of all processes of Corral: frontend, worker, `corral up` and command line.

    `process` is the name of the table in the file and of the process in `corral config`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)
    process: ClassVar[str]

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        broken = list(self.find_broken_rules())
        if broken:
            raise BrokenSettingsRules(broken)
        return self

    def find_broken_rules(self) -> Iterator[BrokenSettingsRule]:
        yield from ()

    def find_unpaired(self, one: str, other: str, *, why: str) -> Iterator[BrokenSettingsRule]:
        if (getattr(self, one) is None) != (getattr(self, other) is None):
            given, missing = (one, other) if getattr(self, other) is None else (other, one)
            yield BrokenSettingsRule(
                fields=(given, missing),
                sentence=f"{{0}} is set and {{1}} is not: {why}",
                hint="Set both, or neither.",
            )


class ClientSettings(ProcessSettings):
    """Settings of the CLI commands that talk to a cluster: its address and API key."""

    process: ClassVar[str] = "client"

    url: FrontendUrl | None = Field(
        default=None,
        description="Address of a frontend: http://host:8080.",
        json_schema_extra=make_shown_default("the one of `corral login`, else the cluster of `corral up`"),
    )
    key: SecretStr | None = Field(
        default=None,
        description="API key.",
        json_schema_extra=make_shown_default("the one of `corral login`, else the one of `corral up`"),
    )
    home: Directory = Field(
        default_factory=lambda: Path("~/.corral").expanduser(),
        description="Directory of the local cluster of `corral up`.",
        json_schema_extra=make_shown_default("~/.corral"),
    )
