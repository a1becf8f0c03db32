"""What runs on a home, seen from outside: the lock, the state file, the processes and the frontend's own answer.

`ready` is said only when every part has been asked and answers. Nothing here changes anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from corral.embedded.files import read_secret
from corral.embedded.home import Home, find_holder
from corral.embedded.leftovers import find_leftovers
from corral.embedded.ports import accepts
from corral.embedded.probe import LIVE_STATUSES, get, is_ready
from corral.embedded.processes import is_alive
from corral.embedded.state import ChildState, Phase, Snapshot, read_snapshot
from corral.embedded.talk import describe_refused_key

_DEFAULT_PORTS = {"postgres": 5432, "nats": 4222}


class ClusterState(StrEnum):
    READY = "ready"
    STARTING = "starting"
    DEGRADED = "degraded"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """`parts` by name, each as it is shown: state, and where there is one: pid, port, restarts, address."""

    state: ClusterState
    home: Path
    url: str
    supervisor_pid: int | None
    parts: dict[str, dict[str, Any]]
    frontends: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    leftovers: list[int]
    reason: str
    # What the frontend says that does not work now.
    degraded: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "state": self.state.value,
            "reason": self.reason,
            "url": self.url,
            "home": str(self.home),
            "pid": self.supervisor_pid,
            **self.parts,
            "frontends": self.frontends,
            "nodes": self.nodes,
            "degraded": self.degraded,
            "leftovers": self.leftovers,
        }


def read_status(home: Home) -> Status:
    """Blocks while it asks: some milliseconds if all is well, some seconds if not."""
    holder = find_holder(home)
    snapshot = read_snapshot(home.state)
    if holder is None:
        return _without_supervisor(home, snapshot)
    parts = {name: _part(snapshot, name) for name in ("postgres", "nats", "frontend", "worker")}
    told, is_refused = _ask(home, snapshot.url)
    frontends, nodes = _objects(told.get("frontends")), _objects(told.get("nodes"))
    degraded = [str(sentence) for sentence in told.get("degraded") or ()]
    if is_refused:
        degraded.append(describe_refused_key(home))
    state, reason = _judge(snapshot, parts, nodes, degraded)
    return Status(
        state=state,
        home=home.root,
        url=snapshot.url,
        supervisor_pid=holder.pid,
        parts=parts,
        frontends=frontends,
        nodes=nodes,
        leftovers=[],
        reason=reason,
        degraded=degraded,
    )


def _without_supervisor(home: Home, snapshot: Snapshot) -> Status:
    leftovers = [one.process.pid for one in find_leftovers(home)]
    reason = "Nothing runs."
    if leftovers:
        cause = "The supervisor was killed" if home.run.is_dir() else f"{home.root} was deleted while Corral ran on it"
        reason = f"{cause} and its processes still run. `corral up` or `corral down` ends them."
    return Status(
        state=ClusterState.DEGRADED if leftovers else ClusterState.STOPPED,
        home=home.root,
        url=snapshot.url,
        supervisor_pid=None,
        parts={name: {"state": "stopped"} for name in ("postgres", "nats", "frontend", "worker")},
        frontends=[],
        nodes=[],
        leftovers=leftovers,
        reason=reason,
    )


def _part(snapshot: Snapshot, name: str) -> dict[str, Any]:
    if name in snapshot.external:
        return _external_part(snapshot.external[name], name)
    record = snapshot.children.get(name)
    if record is None:
        return {"state": ChildState.WAITING.value}
    lives = record.process is not None and is_alive(record.process)
    state = record.state
    if state is ChildState.READY and not lives:
        state = ChildState.RESTARTING
    part: dict[str, Any] = {"state": state.value, "pid": record.pid if lives else None, "restarts": record.restarts}
    if name in snapshot.ports:
        part["port"] = snapshot.ports[name]
    return part


def _external_part(address: str, name: str) -> dict[str, Any]:
    place = urlsplit(f"//{address.rpartition('//')[2]}")
    try:
        is_up = accepts(place.hostname or "", place.port or _DEFAULT_PORTS[name])
    except ValueError:
        is_up = False
    return {"state": "ready" if is_up else "unreachable", "address": address, "external": True}


def _ask(home: Home, url: str) -> tuple[dict[str, Any], bool]:
    """Return what the frontend says of the cluster, nothing if it does not answer; and whether it refuses the key."""
    key = read_secret(home.admin_key)
    answer = get(url, "/api/cluster", key=key) if url and key else None
    if answer is None:
        return {}, False
    return answer.json() if answer.status == 200 else {}, answer.status == 401


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _judge(
    snapshot: Snapshot, parts: dict[str, dict[str, Any]], nodes: list[dict[str, Any]], degraded: list[str]
) -> tuple[ClusterState, str]:
    if snapshot.phase is Phase.STARTING:
        return ClusterState.STARTING, "It is starting."
    if snapshot.phase is not Phase.READY:
        return ClusterState.STOPPING, "It is stopping."
    down = [name for name, part in parts.items() if part["state"] != "ready"]
    if down:
        return ClusterState.DEGRADED, f"Not ready: {', '.join(down)}."
    if not is_ready(snapshot.url):
        return ClusterState.DEGRADED, "The frontend does not answer that it is ready."
    if not degraded and nodes and not any(node.get("status") in LIVE_STATUSES for node in nodes):
        degraded = ["No node is live."]
    return (ClusterState.DEGRADED, degraded[0]) if degraded else (ClusterState.READY, "All is well.")
