"""run/state.json: what the supervisor of this home runs, for `corral status`, `corral down` and the next `corral up`.

It is a report, not a truth: who holds the lock is decided by the lock, and which processes are ours by their marker.
A file that cannot be read is the same as none. It also remembers the last ports, so that addresses stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from corral.embedded.private_files import write_private
from corral.runtime.processes import ProcessBirth


class SupervisorPhase(StrEnum):
    """Names the phase of `corral up`: starting, ready, stopping, stopped or failed."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


class ChildState(StrEnum):
    """Names the state of a child process of `corral up`: waiting, starting, ready, restarting, stopping or stopped."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRecord:
    """One child process in the state file of `corral up`: its state, process and restarts. Field names are stored."""

    state: ChildState = ChildState.WAITING
    pid: int | None = None
    born_s: float | None = None
    restarts: int = 0

    @property
    def process(self) -> ProcessBirth | None:
        if self.pid is None or self.born_s is None:
            return None
        return ProcessBirth(pid=self.pid, born_s=self.born_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSnapshot:
    """Contents of the state file of `corral up` (run/state.json): phase, addresses, ports and children.

    Field names are stored.
    """

    phase: SupervisorPhase = SupervisorPhase.STOPPED
    url: str = ""
    # Addresses of external parts, without their passwords.
    external: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    children: Mapping[str, ChildRecord] = field(default_factory=dict)


class SupervisorStateFile:
    """Writes the state of the running `corral up` to run/state.json at every change.

    It writes only while the home is its own.
    """

    def __init__(self, path: Path, can_write: Callable[[], bool] = lambda: True) -> None:
        self._path = path
        self._can_write = can_write
        previous = read_snapshot(path)
        # The ports of the last run are used again; its processes are none of our children.
        self._snapshot = SupervisorSnapshot(ports=previous.ports)

    @property
    def snapshot(self) -> SupervisorSnapshot:
        return self._snapshot

    def begin(self, *, url: str, external: Mapping[str, str]) -> None:
        self._write(
            replace(self._snapshot, phase=SupervisorPhase.STARTING, url=url, external=dict(external), children={})
        )

    def enter_phase(self, phase: SupervisorPhase) -> None:
        self._write(replace(self._snapshot, phase=phase))

    def find_port(self, name: str) -> int | None:
        return self._snapshot.ports.get(name)

    def set_port(self, name: str, port: int) -> None:
        self._write(replace(self._snapshot, ports={**self._snapshot.ports, name: port}))

    def set_child(self, name: str, record: ChildRecord) -> None:
        self._write(replace(self._snapshot, children={**self._snapshot.children, name: record}))

    def _write(self, snapshot: SupervisorSnapshot) -> None:
        self._snapshot = snapshot
        if not self._can_write():
            return
        try:
            # After a power cut none of these processes lives: there is nothing to keep, so no fsync is needed.
            write_private(self._path, json.dumps(asdict(snapshot), indent=1) + "\n", durable=False)
        except FileNotFoundError:
            # The home may have been deleted between the check and the write.
            if self._can_write():
                raise


def read_snapshot(path: Path) -> SupervisorSnapshot:
    try:
        return _parse_snapshot(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return SupervisorSnapshot()


def _parse_snapshot(known: dict[str, Any]) -> SupervisorSnapshot:
    children = {
        str(name): ChildRecord(
            state=ChildState(one["state"]), pid=one["pid"], born_s=one["born_s"], restarts=int(one["restarts"])
        )
        for name, one in known["children"].items()
    }
    return SupervisorSnapshot(
        phase=SupervisorPhase(known["phase"]),
        url=str(known["url"]),
        external={str(name): str(url) for name, url in known["external"].items()},
        ports={str(name): int(port) for name, port in known["ports"].items()},
        children=children,
    )
