"""What a node costs, in one currency: expected seconds until the model is ready there, and seconds of regret.

The terms are kept, so that a plan can show them. The numbers are orders of magnitude of ordinary machines: they decide
only where nothing was measured, and being wrong by half moves no model that moving 10 GiB would not.
"""

from __future__ import annotations

from typing import NamedTuple

from corral.policy.placing.filters import Ask, uses_gpu
from corral.policy.placing.fleet import Room

# A gigabit network, less what it does not deliver.
BANDWIDTH_BYTES_S = 100e6
# From a disk of today into memory.
LOAD_BYTES_S = 1e9
LOAD_BASE_S = 1.0
LOAD_UNKNOWN_S = 10.0
# An engine that is not there yet, beside its bytes: unpacking, the first start.
INSTALL_S = 15.0
INSTALL_UNKNOWN_BYTES = 500e6
# Another load on the node shares disk and network with this one.
LOAD_BESIDE_S = 10.0
# Regret: a request that is slowed down, a model that shares the machine, a replica that falls with the same machine.
IN_FLIGHT_S = 1.0
NEIGHBOUR_S = 0.5
SAME_MODEL_S = 5.0
# All processor threads are handed out: whoever is asked at the same time shares them.
NO_THREADS_S = 5.0


class Terms(NamedTuple):
    """Seconds. The first four pass before it is ready, the others are what it does to its neighbours."""

    fetch_s: float
    install_s: float
    load_s: float
    evict_s: float
    queue_s: float
    busy_s: float
    crowd_s: float

    @property
    def ready_s(self) -> float:
        return self.fetch_s + self.install_s + self.load_s + self.queue_s

    @property
    def total_s(self) -> float:
        return sum(self)


_NOTHING = Terms(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def terms(ask: Ask, room: Room, evict_s: float = 0.0) -> Terms:
    demand, node_id = ask.demand, room.node.id
    if node_id in demand.returning and not ask.is_taken(node_id):
        return _NOTHING
    bandwidth = demand.bandwidths.get(node_id) or BANDWIDTH_BYTES_S
    engine = None if demand.engines is None else demand.engines.get(node_id)
    install_s = 0.0
    if engine is not None and not engine.is_installed:
        size = INSTALL_UNKNOWN_BYTES if engine.fetch_bytes is None else engine.fetch_bytes
        install_s = INSTALL_S + size / bandwidth
    shares_threads = room.threads is not None and room.threads < 1 and not uses_gpu(room, ask.need(room))
    own = ask.taken(node_id).standing if ask.is_taken(node_id) else 0
    return Terms(
        fetch_s=(ask.missing(room) or 0) / bandwidth,
        install_s=install_s,
        load_s=load_seconds(ask.payload(room)) if demand.load_s is None else demand.load_s,
        evict_s=evict_s,
        queue_s=room.loads * LOAD_BESIDE_S,
        busy_s=room.in_flight * IN_FLIGHT_S,
        crowd_s=room.loaded * NEIGHBOUR_S + own * SAME_MODEL_S + (NO_THREADS_S if shares_threads else 0.0),
    )


def load_seconds(payload_bytes: int | None) -> float:
    """From files on the disk to an engine that answers."""
    return LOAD_UNKNOWN_S if payload_bytes is None else LOAD_BASE_S + payload_bytes / LOAD_BYTES_S
