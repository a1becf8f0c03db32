"""Models from the domain's values to JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from corral.domain.model import Model, ModelRevision
from corral.domain.node import Node, NodeId
from corral.domain.replica import Replica
from corral.models.catalog import Saved
from corral.policy.models.configuration import diff, to_mapping
from corral.policy.status import status_of
from corral.store.loads import LoadFailure
from corral.wire.models import ModelOut, PlaceOut, RevisionOut, SavedOut, StoredFileOut

Nodes = Mapping[NodeId, Node]


def model_out(
    model: Model,
    replicas: Iterable[Replica],
    nodes: Nodes,
    *,
    has_rule: bool = False,
    failure: LoadFailure | None = None,
) -> ModelOut:
    config = model.config
    return ModelOut(
        name=model.name,
        revision=model.revision,
        run_hash=model.run_hash,
        backend=config.backend,
        aliases=list(config.aliases),
        description=config.description,
        enabled=config.is_enabled,
        pinned=config.is_pinned,
        gallery=config.gallery,
        variant=config.variant,
        config=to_mapping(config),
        files=None if model.files is None else [StoredFileOut(**asdict(file)) for file in model.files],
        payload_bytes=model.payload_bytes,
        facts=None if model.facts is None else asdict(model.facts),
        replicas=[place_out(replica, nodes, model) for replica in replicas],
        has_rule=has_rule,
        load_error=failure.sentence if failure else "",
        load_failed_at=failure.at if failure else None,
        created_at=model.created_at,
        updated_at=model.updated_at,
    )


def place_out(replica: Replica, nodes: Nodes, model: Model) -> PlaceOut:
    node = nodes.get(replica.node_id)
    return PlaceOut(
        node_id=replica.node_id,
        node_name=node.name if node else "",
        node_status=status_of(node) if node else "",
        index=replica.index,
        state=replica.state,
        address=replica.address,
        in_flight=replica.in_flight,
        version=replica.version,
        is_current=replica.revision == model.run_hash,
        loaded_at=replica.loaded_at,
        last_used_at=replica.last_used_at,
        vram_bytes=replica.vram_bytes,
        ram_bytes=replica.ram_bytes,
        stop_reason=replica.stop_reason,
        stop_problem=replica.stop_problem,
    )


def saved_out(saved: Saved, message: str = "", warnings: Sequence[str] = ()) -> SavedOut:
    return SavedOut(
        name=saved.model.name,
        revision=saved.model.revision,
        config_revision=saved.model.run_hash,
        pending_cleanup=saved.stopped > 0,
        stopped=saved.stopped,
        created=saved.is_new,
        changes=list(saved.lines),
        warnings=list(warnings),
        message=message or _sentence(saved),
    )


def counted(replicas: int) -> str:
    return "1 replica of it ends" if replicas == 1 else f"{replicas} replicas of it end"


def _sentence(saved: Saved) -> str:
    model = saved.model
    if saved.is_new:
        return f"Model {model.name} is there."
    if not saved.lines:
        return f"Model {model.name} is like that already, at revision {model.revision}."
    ended = f" {counted(saved.stopped)}." if saved.stopped else ""
    return f"Model {model.name} is at revision {model.revision}.{ended}"


def revisions_out(revisions: Sequence[ModelRevision]) -> list[RevisionOut]:
    """Newest first, each with what it changed."""
    older = [*revisions[1:], None]
    return [
        RevisionOut(
            number=one.number,
            run_hash=one.run_hash,
            config=to_mapping(one.config),
            created_by=one.created_by,
            created_at=one.created_at,
            note=one.note,
            changes=diff(before.config, one.config) if before is not None else [],
        )
        for one, before in zip(revisions, older, strict=True)
    ]
