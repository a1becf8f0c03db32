"""Reads what runs on a home, from outside: the lock, the state file, the processes and the frontend's own answer.

`ready` is reported only when every part was probed and answers. Nothing here changes anything. A frontend is read over
HTTP with the standard library alone; no answer, a slow answer and a broken answer are all `None`: the caller retries.
"""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from corral.embedded.home import HomeLayout, find_lock_holder
from corral.embedded.owned_processes import find_leftovers
from corral.embedded.private_files import read_secret
from corral.embedded.supervisor_state import ChildState, SupervisorPhase, SupervisorSnapshot, read_snapshot
from corral.embedded.tcp_ports import is_accepting
from corral.embedded.up_terminal import describe_refused_key
from corral.runtime.processes import is_alive

TIMEOUT_S = 3.0
_MAX_BODY_BYTES = 8 * 1024 * 1024
# The API's name for a node whose heartbeats arrive.
LIVE_STATUSES = frozenset({"healthy", "draining"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResponse:
    """Status and body of a frontend's HTTP response to a probe by `corral status`."""

    status: int
    body: bytes

    def parse_json(self) -> dict[str, Any]:
        """Return the body as an object; anything else is an empty one."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


def fetch_response(url: str, path: str, *, key: str | None = None) -> ProbeResponse | None:
    """Send one GET on a fresh connection. Blocks: run it in a thread."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port or 80, timeout=TIMEOUT_S)
    headers = {"Connection": "close", "Accept": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return ProbeResponse(status=response.status, body=response.read(_MAX_BODY_BYTES))
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def is_ready(url: str) -> bool:
    """Return whether a frontend or a worker reports that it is ready."""
    answer = fetch_response(url, "/readyz")
    return answer is not None and answer.status == 200


class NodeProbeResult(StrEnum):
    """Names what a frontend tells `corral status` about nodes: one is live, none is, or the key was refused."""

    LIVE = "live"
    NONE_LIVE = "none_live"
    # Unknown, because the key was rotated, was revoked or has expired.
    KEY_REFUSED = "key_refused"


def probe_nodes(url: str, key: str) -> NodeProbeResult:
    """Ask whether a worker's heartbeat has arrived. A frontend that cannot tell (404) counts as yes."""
    answer = fetch_response(url, "/api/cluster", key=key)
    if answer is None:
        return NodeProbeResult.NONE_LIVE
    if answer.status == 404:
        return NodeProbeResult.LIVE
    if answer.status == 401:
        return NodeProbeResult.KEY_REFUSED
    nodes = answer.parse_json().get("nodes") if answer.status == 200 else None
    is_live = any(node.get("status") in LIVE_STATUSES for node in nodes or () if isinstance(node, dict))
    return NodeProbeResult.LIVE if is_live else NodeProbeResult.NONE_LIVE


_DEFAULT_PORTS = {"postgres": 5432, "nats": 4222}


class ClusterState(StrEnum):
    """Names the state of a local cluster for `corral status`: ready, starting, degraded, stopping or stopped."""

    READY = "ready"
    STARTING = "starting"
    DEGRADED = "degraded"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeStatus:
    """What runs on a home folder, as `corral status` shows it: state, reason, parts, frontends, nodes, leftovers."""

    state: ClusterState
    home: Path
    url: str
    supervisor_pid: int | None
    parts: dict[str, dict[str, Any]]
    frontends: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    leftovers: list[int]
    reason: str
    # The parts that the frontend reports as not working now.
    degraded: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
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


def read_status(home: HomeLayout) -> HomeStatus:
    """Return the status. Blocks for some milliseconds if everything is healthy, some seconds if not."""
    holder = find_lock_holder(home)
    snapshot = read_snapshot(home.state)
    if holder is None:
        return _make_stopped_status(home, snapshot)
    parts = {name: _read_part(snapshot, name) for name in _list_parts(snapshot)}
    cluster, is_refused = _fetch_cluster(home, snapshot.url)
    frontends, nodes = _filter_objects(cluster.get("frontends")), _filter_objects(cluster.get("nodes"))
    degraded = [str(sentence) for sentence in cluster.get("degraded") or ()]
    if is_refused:
        degraded.append(describe_refused_key(home))
    state, reason = _judge(snapshot, parts, nodes, degraded)
    return HomeStatus(
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


def _make_stopped_status(home: HomeLayout, snapshot: SupervisorSnapshot) -> HomeStatus:
    leftovers = [one.process.pid for one in find_leftovers(home)]
    reason = "Nothing runs."
    if leftovers:
        cause = "The supervisor was killed" if home.run.is_dir() else f"{home.root} was deleted while Corral ran on it"
        reason = f"{cause} and its processes still run. `corral up` or `corral down` ends them."
    return HomeStatus(
        state=ClusterState.DEGRADED if leftovers else ClusterState.STOPPED,
        home=home.root,
        url=snapshot.url,
        supervisor_pid=None,
        parts={name: {"state": "stopped"} for name in _list_parts(snapshot)},
        frontends=[],
        nodes=[],
        leftovers=leftovers,
        reason=reason,
    )


def _list_parts(snapshot: SupervisorSnapshot) -> tuple[str, ...]:
    """Return the parts of a cluster. The agent worker is one if it was started."""
    return ("postgres", "nats", "frontend", "worker", *(("agent",) if "agent" in snapshot.children else ()))


def _read_part(snapshot: SupervisorSnapshot, name: str) -> dict[str, Any]:
    if name in snapshot.external:
        return _read_external_part(snapshot.external[name], name)
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


def _read_external_part(address: str, name: str) -> dict[str, Any]:
    address_parts = urlsplit(f"//{address.rpartition('//')[2]}")
    try:
        is_up = is_accepting(address_parts.hostname or "", address_parts.port or _DEFAULT_PORTS[name])
    except ValueError:
        is_up = False
    return {"state": "ready" if is_up else "unreachable", "address": address, "external": True}


def _fetch_cluster(home: HomeLayout, url: str) -> tuple[dict[str, Any], bool]:
    """Return the frontend's view of the cluster, empty if it does not respond; and whether it refuses the key."""
    key = read_secret(home.admin_key)
    answer = fetch_response(url, "/api/cluster", key=key) if url and key else None
    if answer is None:
        return {}, False
    return answer.parse_json() if answer.status == 200 else {}, answer.status == 401


def _filter_objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _judge(
    snapshot: SupervisorSnapshot, parts: dict[str, dict[str, Any]], nodes: list[dict[str, Any]], degraded: list[str]
) -> tuple[ClusterState, str]:
    if snapshot.phase is SupervisorPhase.STARTING:
        return ClusterState.STARTING, "Starting."
    if snapshot.phase is not SupervisorPhase.READY:
        return ClusterState.STOPPING, "Stopping."
    down = [name for name, part in parts.items() if part["state"] != "ready"]
    if down:
        return ClusterState.DEGRADED, f"Not ready: {', '.join(down)}."
    if not is_ready(snapshot.url):
        return ClusterState.DEGRADED, "The frontend does not report that it is ready."
    if not degraded and nodes and not any(node.get("status") in LIVE_STATUSES for node in nodes):
        degraded = ["No node is live."]
    return (ClusterState.DEGRADED, degraded[0]) if degraded else (ClusterState.READY, "Everything is healthy.")
