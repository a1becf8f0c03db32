"""The messages of the bus, as plain values.

Unknown fields are ignored when a message is read, so that a newer sender can add some; a field without a default
is required. A field is never renamed or given another meaning: old workers meet new frontends. No reply has a field
called `error`: that word is how a handler says that it failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """Who are you?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDescription:
    """What a worker says of itself and of its machine."""

    node_id: str
    boot_id: str
    name: str
    version: str
    uptime_s: float
    hardware: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeNode:
    """Something about you has changed: send a heartbeat now and read your state again."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopNode:
    """Finish and end the worker process."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAnswer:
    """Whether the worker will stop, and which process of it has answered."""

    accepted: bool
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A worker is on the bus, after a start or after a broken connection."""

    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeFrontends:
    """The outbox has moved: read it now."""
