"""Load tickets: the proof that a node was asked to run one replica of a model.

The frontend signs a ticket for each load command, the worker keeps it with the process and gives it back when it
reports the process. Guarantee: a process without a valid ticket for its node, model, index and run hash is never
adopted, so a worker cannot bring itself into the service of a model. Limit: a ticket is not taken back. A node that
once ran a replica can run the same one again, as long as the model is unchanged and its rule allows the node.
"""

from __future__ import annotations

from dataclasses import dataclass

from corral.bus.messages import RunningProcess
from corral.domain.node import NodeId
from corral.ports.credentials import FRONTENDS, BusCredentials, runs_model

# Engines run for months. One that is older and whose row is lost is loaded anew.
LOAD_TICKET_S = 365 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTickets:
    """Issues load tickets and checks them. Without credentials it issues none, and none is valid."""

    credentials: BusCredentials | None = None

    def issue(self, node_id: NodeId, model: str, index: int, run_hash: str) -> str:
        if self.credentials is None:
            return ""
        scope = runs_model(model, index, run_hash)
        return self.credentials.ticket(node_id, scope, audience=FRONTENDS, ttl_s=LOAD_TICKET_S)

    def is_valid(self, node_id: NodeId, process: RunningProcess) -> bool:
        """Whether this node was asked to run this process."""
        if self.credentials is None or not process.ticket:
            return False
        scope = runs_model(process.model, process.replica, process.revision)
        return self.credentials.is_valid_ticket(process.ticket, reader=node_id, scope=scope, audience=FRONTENDS)
