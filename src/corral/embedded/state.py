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

from corral.embedded.files import write_private
from corral.embedded.processes import ProcessId


class Phase(StrEnum):
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


class ChildState(StrEnum):
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRecord:
    state: ChildState = ChildState.WAITING
    pid: int | None = None
    born_s: float | None = None
    restarts: int = 0

    @property
    def process(self) -> ProcessId | None:
        if self.pid is None or self.born_s is None:
            return None
        return ProcessId(pid=self.pid, born_s=self.born_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What the file holds."""

    phase: Phase = Phase.STOPPED
    url: str = ""
    # Addresses of parts that we do not run ourselves, without their passwords.
    external: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    children: Mapping[str, ChildRecord] = field(default_factory=dict)


class StateFile:
    """The snapshot of the running supervisor, written at every change as long as `may_write` says that the home is its
    own. Into the home of another supervisor nothing is written."""

    def __init__(self, path: Path, may_write: Callable[[], bool] = lambda: True) -> None:
        self._path = path
        self._may_write = may_write
        before = read_snapshot(path)
        # The ports of last time are wanted again; what ran then is none of our children.
        self._now = Snapshot(ports=before.ports)

    @property
    def now(self) -> Snapshot:
        return self._now

    def begin(self, *, url: str, external: Mapping[str, str]) -> None:
        self._write(replace(self._now, phase=Phase.STARTING, url=url, external=dict(external), children={}))

    def enter(self, phase: Phase) -> None:
        self._write(replace(self._now, phase=phase))

    def port(self, name: str) -> int | None:
        return self._now.ports.get(name)

    def set_port(self, name: str, port: int) -> None:
        self._write(replace(self._now, ports={**self._now.ports, name: port}))

    def set_child(self, name: str, record: ChildRecord) -> None:
        self._write(replace(self._now, children={**self._now.children, name: record}))

    def _write(self, snapshot: Snapshot) -> None:
        self._now = snapshot
        if not self._may_write():
            return
        try:
            # After a power cut none of these processes lives: there is nothing to keep, so nobody waits for the disk.
            write_private(self._path, json.dumps(asdict(snapshot), indent=1) + "\n", durable=False)
        except FileNotFoundError:
            # The home may have been deleted between the look and the write.
            if self._may_write():
                raise


def read_snapshot(path: Path) -> Snapshot:
    try:
        return _parse(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Snapshot()


def _parse(known: dict[str, Any]) -> Snapshot:
    children = {
        str(name): ChildRecord(
            state=ChildState(one["state"]), pid=one["pid"], born_s=one["born_s"], restarts=int(one["restarts"])
        )
        for name, one in known["children"].items()
    }
    return Snapshot(
        phase=Phase(known["phase"]),
        url=str(known["url"]),
        external={str(name): str(url) for name, url in known["external"].items()},
        ports={str(name): int(port) for name, port in known["ports"].items()},
        children=children,
    )
