"""What nodes are told about models: the messages, and where they get the files from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from corral.bus.messages import BlobPlace, FileItem, LoadModel, StageModel
from corral.domain.model import Model
from corral.domain.node import Node, NodeId
from corral.domain.operation import Target
from corral.loading.kinds.view import plan_of
from corral.policy.models.estimate import context_size
from corral.ports.credentials import READS_BLOBS, BusCredentials
from corral.ports.library import ModelLibrary
from corral.runtime.guard import Failed, attempt

# A ticket lasts as long as a large transfer may.
TICKET_S = 6 * 3600.0
LIBRARY = BlobPlace(kind="library")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Makes addresses. Without credentials nobody lets anybody in, and the library is all there is."""

    library: ModelLibrary
    credentials: BusCredentials | None = None

    async def of(
        self, reader: NodeId, sources: Iterable[str], nodes: Mapping[NodeId, Node], model: Model
    ) -> tuple[BlobPlace, ...]:
        """Other nodes first, then shared storage, then the frontends that the node knows, then those that hold it: it
        may not know them, and may not reach what they call their address. Never inside a transaction."""
        sha256s = {file.sha256 for file in model.files or ()}
        if not sha256s:
            return ()
        known = [nodes.get(NodeId(one)) for one in sources if one != reader]
        peers = [peer for peer in known if peer is not None and peer.http_address]
        direct = await attempt(lambda: self.library.places_for(sha256s))
        told = () if isinstance(direct, Failed) else direct.value
        return (
            *(self._peer(reader, peer) for peer in peers),
            *(place for place in told if place.kind != LIBRARY.kind),
            LIBRARY,
            *(place for place in told if place.kind == LIBRARY.kind),
        )

    def _peer(self, reader: NodeId, peer: Node) -> BlobPlace:
        ticket = ""
        if self.credentials is not None:
            ticket = self.credentials.ticket(reader, READS_BLOBS, audience=peer.id, ttl_s=TICKET_S)
        return BlobPlace(kind="node", url=f"http://{peer.http_address}", ticket=ticket, node=peer.id)


def files_of(model: Model) -> tuple[FileItem, ...]:
    return tuple(FileItem(path=file.path, sha256=file.sha256, size_bytes=file.size_bytes) for file in model.files or ())


def load_command(target: Target, model: Model, places: tuple[BlobPlace, ...], ticket: str = "") -> LoadModel:
    plan, config = plan_of(target), model.config
    return LoadModel(
        job_id=target.job_id,
        model=model.name,
        replica=int(plan["index"]),
        revision=str(plan["revision"]),
        backend=str(plan["backend"]),
        build=plan.get("build"),
        files=files_of(model),
        places=places,
        entry=entry_of(model),
        options=dict(config.options),
        # What was reckoned with when the place was chosen; engines would take the model's whole context.
        defaults={"context_size": str(context_size(config, model.facts))},
        threads=plan.get("threads") or None,
        ready_s=plan.get("budget_s"),
        operation_id=target.operation_id,
        ticket=ticket,
    )


def stage_command(target: Target, model: Model, places: tuple[BlobPlace, ...]) -> StageModel:
    return StageModel(
        job_id=target.job_id,
        model=model.name,
        revision=str(plan_of(target).get("revision", model.run_hash)),
        files=files_of(model),
        places=places,
        operation_id=target.operation_id,
    )


def entry_of(model: Model) -> str:
    """What the engine is given: what the admin says, else the only file, else the folder."""
    if model.config.entry:
        return model.config.entry
    return model.files[0].path if model.files is not None and len(model.files) == 1 else ""
