"""Builds the commands to nodes about models, and lists the sources of their files.

A load ticket is the proof that a node was commanded to run one replica of a model. The frontend signs one for each load
command, the worker keeps it with the process and gives it back when it reports the process. Guarantee: a process
without a valid ticket for its node, model, index and run hash is never adopted, so a worker cannot bring itself into
the service of a model. Limit: a ticket is not taken back. A node that once ran a replica can run the same one again, as
long as the model is unchanged and its rule allows the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from corral.bus.messages import BlobSource, LoadModel, ModelFileItem, RunningProcess, StageModel
from corral.domain.model import Model
from corral.domain.node import Node, NodeId
from corral.domain.operation import Target
from corral.loading.kinds.view import read_target_plan
from corral.policy.models.adapters import render_adapters_option
from corral.policy.models.configuration import ADAPTERS_OPTION
from corral.policy.models.estimate import read_context_size
from corral.ports.credentials import BLOB_READ_SCOPE, FRONTENDS_AUDIENCE, BusCredentialIssuer
from corral.ports.library import ModelLibrary
from corral.runtime.attempt import AttemptFailure, attempt

# A ticket lasts as long as a large transfer may take.
TICKET_S = 6 * 3600.0
LIBRARY = BlobSource(kind="library")
# Engines run for months. A process with an older ticket whose row is lost is loaded again.
LOAD_TICKET_S = 365 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTicketIssuer:
    """Issues and checks tickets by which a frontend recognises that a load of a model was requested.

    Without credentials it issues none, and none is valid.
    """

    credentials: BusCredentialIssuer | None = None

    def issue(self, node_id: NodeId, model: str, index: int, run_hash: str) -> str:
        if self.credentials is None:
            return ""
        scope = _make_run_scope(model, index, run_hash)
        return self.credentials.issue_ticket(node_id, scope, audience=FRONTENDS_AUDIENCE, ttl_s=LOAD_TICKET_S)

    def is_valid(self, node_id: NodeId, process: RunningProcess) -> bool:
        """Return whether this node was commanded to run this process."""
        if self.credentials is None or not process.ticket:
            return False
        scope = _make_run_scope(process.model, process.replica, process.revision)
        return self.credentials.is_valid_ticket(
            process.ticket, reader=node_id, scope=scope, audience=FRONTENDS_AUDIENCE
        )


def _make_run_scope(model: str, index: int, run_hash: str) -> str:
    """Return the right to run one replica of a model as it is with this run hash."""
    return f"models:run:{index}:{run_hash}:{model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobSourceResolver:
    """Lists the addresses from which a node can fetch a model's files: other nodes, shared storage, frontends."""

    library: ModelLibrary
    credentials: BusCredentialIssuer | None = None

    async def resolve(
        self, reader: NodeId, sources: Iterable[str], nodes: Mapping[NodeId, Node], model: Model
    ) -> tuple[BlobSource, ...]:
        """Return the sources in order: other nodes, shared storage, the frontends that the node knows, then those
        that hold the files: the node may not know them, and may not reach the address that they advertise. Never
        call it inside a transaction."""
        sha256s = {file.sha256 for file in model.engine_files or ()}
        if not sha256s:
            return ()
        known = [nodes.get(NodeId(one)) for one in sources if one != reader]
        peers = [peer for peer in known if peer is not None and peer.http_address]
        direct = await attempt(lambda: self.library.list_blob_sources(sha256s))
        direct_sources = () if isinstance(direct, AttemptFailure) else direct.value
        return (
            *(self._make_peer_source(reader, peer) for peer in peers),
            *(source for source in direct_sources if source.kind != LIBRARY.kind),
            LIBRARY,
            *(source for source in direct_sources if source.kind == LIBRARY.kind),
        )

    def _make_peer_source(self, reader: NodeId, peer: Node) -> BlobSource:
        ticket = ""
        if self.credentials is not None:
            ticket = self.credentials.issue_ticket(reader, BLOB_READ_SCOPE, audience=peer.id, ttl_s=TICKET_S)
        return BlobSource(kind="node", url=f"http://{peer.http_address}", ticket=ticket, node=peer.id)


def list_file_items(model: Model) -> tuple[ModelFileItem, ...]:
    return tuple(
        ModelFileItem(path=file.path, sha256=file.sha256, size_bytes=file.size_bytes)
        for file in model.engine_files or ()
    )


def make_load_command(target: Target, model: Model, sources: tuple[BlobSource, ...], ticket: str = "") -> LoadModel:
    plan, config = read_target_plan(target), model.config
    return LoadModel(
        job_id=target.job_id,
        model=model.name,
        replica=int(plan["index"]),
        revision=str(plan["revision"]),
        backend=str(plan["backend"]),
        build=plan.get("build"),
        files=list_file_items(model),
        places=sources,
        entry=find_entry(model),
        options=dict(config.options) | _make_adapters_option(model),
        # The context that was reserved when the node was chosen; engines would take the model's whole context.
        defaults={"context_size": str(read_context_size(config, model.facts))},
        threads=plan.get("threads") or None,
        ready_s=plan.get("budget_s"),
        operation_id=target.operation_id,
        ticket=ticket,
    )


def _make_adapters_option(model: Model) -> dict[str, str]:
    """Return the adapters as an option, so that a worker that does not know of adapters refuses the load."""
    return {ADAPTERS_OPTION: render_adapters_option(model.adapters)} if model.adapters else {}


def make_stage_command(target: Target, model: Model, sources: tuple[BlobSource, ...]) -> StageModel:
    return StageModel(
        job_id=target.job_id,
        model=model.name,
        revision=str(read_target_plan(target).get("revision", model.run_hash)),
        files=list_file_items(model),
        places=sources,
        operation_id=target.operation_id,
    )


def find_entry(model: Model) -> str:
    """Return the path that the engine is given: the admin's choice, else the only file, else the folder."""
    if model.config.entry:
        return model.config.entry
    return model.files[0].path if model.files is not None and len(model.files) == 1 else ""
