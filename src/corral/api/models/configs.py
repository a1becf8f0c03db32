"""Routes for configurations of models and their revisions, with the LocalAI-compatible ones.

A change takes effect at this frontend before the response is sent, and at the others a moment later. A body is YAML or
JSON. A client that sends `If-Match` with the revision that it has read gets 409 if there is a newer one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

import structlog
from fastapi import APIRouter, Query, Request, Response

from corral.api.deps import ApiDeps, DepsIn, OperatorIn
from corral.api.idempotency import run_once
from corral.api.models.request_bodies import (
    NameIn,
    check_adapter_engine,
    check_sources,
    list_warnings,
    open_model_change,
    parse_document,
    refresh_served_models,
)
from corral.api.revisions import IfMatch, IfNoneMatch, parse_expected_revision
from corral.domain.errors import InvalidRequest
from corral.domain.model import Model, ModelConfig, ModelProvenance, ModelRevision
from corral.domain.node import Node, NodeId
from corral.domain.operation import OperationKind
from corral.domain.replica import Replica
from corral.loading.admission import ModelOperationSpec
from corral.models import adapters, catalog
from corral.models.catalog import ModelSaveResult
from corral.policy.models.configuration import apply_patch, diff, from_mapping, to_mapping
from corral.policy.status import compute_status
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import loads as load_store
from corral.store import models as store
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.store.database import Transaction
from corral.store.loads import LoadFailure
from corral.wire.models import (
    ModelOut,
    ModelProvenanceOut,
    ModelReplicaOut,
    RenameIn,
    RevisionDiffOut,
    RevisionOut,
    RollbackIn,
    SavedModelOut,
    StoredFileOut,
)

log = structlog.get_logger(__name__)
router = APIRouter(tags=["models"])
_NUMBER_MAX = 2**31 - 1
Revision = Annotated[int, Query(ge=1, le=_NUMBER_MAX)]
_BODY: dict[str, Any] = {
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"type": "object"}}, "application/yaml": {"schema": {}}},
        }
    }
}
Nodes = Mapping[NodeId, Node]


@router.get("/api/models/configs")
async def list_models(deps: DepsIn, _: OperatorIn) -> list[ModelOut]:
    """List the models with their configurations and replicas."""
    async with deps.database.transaction() as tx:
        models = await store.list_models(tx)
        replicas = await replica_store.list_replicas(tx)
        nodes = {node.id: node for node in await node_store.list_nodes(tx)}
        ruled = {rule.model for rule in await rule_store.list_rules(tx)}
        failures = await load_store.list_load_failures(tx)
    replicas_of_model: dict[str, list[Any]] = {}
    for replica in replicas:
        replicas_of_model.setdefault(replica.model, []).append(replica)
    return [
        model_to_wire(
            one, replicas_of_model.get(one.name, ()), nodes, has_rule=one.name in ruled, failure=failures.get(one.name)
        )
        for one in models
    ]


@router.get("/api/models/config/{name:path}")
async def show_model(deps: DepsIn, _: OperatorIn, name: NameIn, response: Response) -> ModelOut:
    """Show one model by its name or an alias. `ETag` is its revision."""
    async with deps.database.transaction() as tx:
        model = await store.get_model(tx, name)
        replicas = await replica_store.list_replicas(tx, model=model.name)
        nodes = {node.id: node for node in await node_store.list_nodes(tx, only=[one.node_id for one in replicas])}
        rule = await rule_store.find_rule(tx, model.name)
        failures = await load_store.list_load_failures(tx, model.name)
    response.headers["ETag"] = f'"{model.revision}"'
    return model_to_wire(model, replicas, nodes, has_rule=rule is not None, failure=failures.get(model.name))


@router.get("/api/models/config-json/{name:path}", response_model=dict[str, Any])
async def show_model_config(deps: DepsIn, _: OperatorIn, name: NameIn, response: Response) -> dict[str, Any]:
    """Show the configuration of one model, as LocalAI's page reads it. `ETag` is its revision."""
    async with deps.database.transaction() as tx:
        model = await store.get_model(tx, name)
    response.headers["ETag"] = f'"{model.revision}"'
    return to_mapping(model.config)


@router.put("/api/models/config/{name:path}", **_BODY)
async def put_model(
    request: Request,
    deps: DepsIn,
    operator: OperatorIn,
    name: NameIn,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> SavedModelOut:
    """Create a model, or replace its configuration. Settings that are not in the body get their defaults."""
    expects = parse_expected_revision(if_match, if_none_match)
    document = await parse_document(request, deps)
    async with deps.database.transaction() as tx:
        # An alias is resolved to its model.
        own = await store.find_own_name(tx, name) or name
    config = _parse_config(deps, _drop_name(document, name) if own != name else document, own)
    facts = await deps.library.check_uploads(config.files, config.entry)
    async with open_model_change(deps, config.name) as tx:
        if config.base and facts is not None:
            await adapters.check_facts(tx, config, facts)
        saved = await catalog.put(tx, config, operator.name, expects=expects, is_admin=operator.is_admin)
        check_adapter_engine(deps, saved.model)
        if facts is None:
            await request_adapter_files(deps, tx, saved.model, operator.name)
    if facts is not None and saved.model.files is None:
        saved = replace(saved, model=await register_uploads(deps, saved.model))
    return _saved_to_wire(deps, saved)


async def request_adapter_files(deps: ApiDeps, tx: Transaction, model: Model, actor: str) -> None:
    """Have the files of an adapter fetched, in the transaction that has saved it: until they are known, no engine of
    its base takes it."""
    if model.config.base and model.files is None and model.config.is_enabled:
        spec = ModelOperationSpec(kind=OperationKind.MODEL_INSTALL, model=model.name, reason="a new adapter")
        await deps.model_operations.admission.admit_in(tx, spec, actor)


async def register_uploads(deps: ApiDeps, model: Model) -> Model:
    """Record size and facts of a model's uploaded files, so that plans know its size before its first load.

    Returns the model with these values. Best effort: the first load does the same.
    """
    outcome = await attempt(
        lambda: deps.library.ensure_files(model.name, model.config.files, _NullFetchProgressListener())
    )
    if isinstance(outcome, AttemptFailure):
        log.info("uploaded files are registered by the first load", model=model.name, problem=outcome.sentence)
        return model
    async with deps.database.transaction() as tx:
        return await store.get_model(tx, model.name)


class _NullFetchProgressListener:
    """A `FetchProgressListener` that ignores progress, for files that are in the library already."""

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        pass


def _drop_name(document: Any, name: str) -> Any:
    if isinstance(document, dict) and document.get("name") == name:
        return {key: value for key, value in document.items() if key != "name"}
    return document


def _check_mapping(document: Any) -> None:
    if not isinstance(document, dict):
        raise InvalidRequest("The body is not a mapping of names to values.", code="bad_model")


async def _patch_model(
    request: Request, deps: DepsIn, operator: OperatorIn, name: NameIn, if_match: IfMatch = None
) -> SavedModelOut:
    """Merge a change into a model's configuration: mappings key by key, null removes a key. The name stays."""
    change = await parse_document(request, deps)
    _check_mapping(change)
    async with open_model_change(deps, name) as tx:
        previous = await store.lock_model(tx, name)
        config = apply_patch(previous.config, change)
        check_sources(deps, config)
        expects = parse_expected_revision(if_match)
        saved = await catalog.replace_config(
            tx, previous.name, config, operator.name, expects=expects, is_admin=operator.is_admin
        )
        check_adapter_engine(deps, saved.model)
        return _saved_to_wire(deps, saved)


for _path, _name in (
    ("/api/models/config/{name:path}", "patch_model"),
    ("/api/models/config-json/{name:path}", "patch_model_for_localai"),
):
    router.patch(_path, name=_name, **_BODY)(_patch_model)


@router.delete("/api/models/config/{name:path}")
async def delete_model(deps: DepsIn, operator: OperatorIn, name: NameIn, if_match: IfMatch = None) -> SavedModelOut:
    """Delete a model at once: its replicas are stopped, and nodes delete its files, offline nodes when they are
    back."""
    async with open_model_change(deps, name) as tx:
        saved = await catalog.delete_model(tx, name, operator.name, expects=parse_expected_revision(if_match))
    return saved_to_wire(saved, f"Deleted model {saved.model.name}; {describe_ended_replicas(saved.stopped)}.")


@router.get("/api/models/revisions/{name:path}")
async def list_revisions(deps: DepsIn, _: OperatorIn, name: NameIn) -> list[RevisionOut]:
    """List the revisions of a model, newest first, each with its changes."""
    async with deps.database.transaction() as tx:
        model = await store.get_model(tx, name)
        return revisions_to_wire(await store.list_revisions(tx, model.name))


@router.get("/api/models/diff/{name:path}")
async def compare_revisions(
    deps: DepsIn, _: OperatorIn, name: NameIn, old: Revision | None = None, new: Revision | None = None
) -> RevisionDiffOut:
    """Compare two revisions of a model. `new` defaults to the current one, `old` to the one before `new`."""
    async with deps.database.transaction() as tx:
        model = await store.get_model(tx, name)
        later = model.revision if new is None else new
        earlier = max(1, later - 1) if old is None else old
        one = await store.get_revision(tx, model.name, earlier)
        other = await store.get_revision(tx, model.name, later)
    # A rename is not shown as a difference.
    lines = diff(replace(one.config, name=model.name), replace(other.config, name=model.name))
    return RevisionDiffOut(model=model.name, old=earlier, new=later, changes=lines)


@router.post("/api/models/rollback/{name:path}")
async def roll_back_model(
    deps: DepsIn, operator: OperatorIn, name: NameIn, body: RollbackIn, if_match: IfMatch = None
) -> SavedModelOut:
    """Go back to an earlier revision: the model gets a new revision with its content."""
    async with open_model_change(deps, name) as tx:
        expects = parse_expected_revision(if_match)
        saved = await catalog.roll_back(
            tx, name, body.revision, operator.name, expects=expects, is_admin=operator.is_admin
        )
        check_adapter_engine(deps, saved.model)
        return _saved_to_wire(deps, saved)


@router.post("/api/models/rename")
async def rename_models(deps: DepsIn, operator: OperatorIn, body: RenameIn) -> list[SavedModelOut]:
    """Rename models, all or none; two may swap names. Engines that run under an old name are stopped."""
    async with open_model_change(deps, *body.names, *body.names.values()) as tx:
        return [saved_to_wire(one) for one in await catalog.rename(tx, body.names, operator.name)]


@router.put("/models/toggle-state/{name:path}/{action}")
async def toggle_model_state(
    deps: DepsIn, operator: OperatorIn, name: NameIn, action: Literal["enable", "disable"]
) -> SavedModelOut:
    """Enable or disable a model. A disabled model takes no requests, and its replicas are stopped."""
    async with open_model_change(deps, name) as tx:
        return saved_to_wire(await catalog.set_enabled(tx, name, operator.name, enabled=action == "enable"))


@router.put("/models/toggle-pinned/{name:path}/{action}")
async def toggle_model_pinned(
    deps: DepsIn, operator: OperatorIn, name: NameIn, action: Literal["pin", "unpin"]
) -> SavedModelOut:
    """Pin or unpin a model. A pinned model is never evicted and never scaled to zero."""
    async with open_model_change(deps, name) as tx:
        return saved_to_wire(await catalog.set_pinned(tx, name, operator.name, pinned=action == "pin"))


@router.post("/models/edit/{name:path}", **_BODY)
async def edit_model(
    request: Request, deps: DepsIn, operator: OperatorIn, name: NameIn, if_match: IfMatch = None
) -> SavedModelOut:
    """Replace a configuration (LocalAI-compatible); another name in it renames the model in the same step."""
    written = await parse_document(request, deps)
    _check_mapping(written)
    new_name = written.get("name")
    async with open_model_change(deps, name, *([new_name] if isinstance(new_name, str) else [])) as tx:
        previous = await store.lock_model(tx, name)
        expects = parse_expected_revision(if_match)
        new = new_name if isinstance(new_name, str) and new_name != name else previous.name
        config = _parse_config(deps, written if new_name != name else _drop_name(written, name), new)
        if new == previous.name:
            saved = await catalog.replace_config(
                tx, new, config, operator.name, expects=expects, is_admin=operator.is_admin
            )
            check_adapter_engine(deps, saved.model)
            return _saved_to_wire(deps, saved)
        if expects is not None:
            await catalog.patch(tx, previous.name, {}, operator.name, expects=expects)
        (renamed,) = await catalog.rename(tx, {previous.name: new}, operator.name)
        saved = await catalog.replace_config(tx, new, config, operator.name, is_admin=operator.is_admin)
        check_adapter_engine(deps, saved.model)
        return _saved_to_wire(deps, replace(saved, stopped=saved.stopped + renamed.stopped))


@router.post("/models/import", **_BODY, response_model=SavedModelOut)
async def import_model(request: Request, deps: DepsIn, operator: OperatorIn) -> Response:
    """Create or replace a model from a configuration (LocalAI-compatible)."""
    config = _parse_config(deps, await parse_document(request, deps))

    async def work(tx: Transaction) -> tuple[int, bytes]:
        saved = await catalog.put(tx, config, operator.name, note="imported", is_admin=operator.is_admin)
        check_adapter_engine(deps, saved.model)
        await request_adapter_files(deps, tx, saved.model, operator.name)
        return 201 if saved.is_new else 200, _saved_to_wire(deps, saved).model_dump_json().encode()

    answer = await run_once(request, deps.database, operator, work)
    await refresh_served_models(deps, [config.name])
    return answer


def _parse_config(deps: ApiDeps, document: Any, name: str = "") -> ModelConfig:
    if not isinstance(document, dict):
        raise InvalidRequest("The body is not a configuration: a mapping of names to values.", code="bad_model")
    config = from_mapping(document, name=name)
    check_sources(deps, config)
    return config


def _saved_to_wire(deps: ApiDeps, saved: catalog.ModelSaveResult) -> SavedModelOut:
    return saved_to_wire(saved, warnings=list_warnings(deps, saved.model.config))


def model_to_wire(
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
        provenance=provenance_to_wire(find_provenance(model)),
        replicas=[replica_to_wire(replica, nodes, model) for replica in replicas],
        base=config.base,
        adapters=[one.model for one in model.adapters],
        has_rule=has_rule,
        load_error=failure.sentence if failure else "",
        load_failed_at=failure.at if failure else None,
        created_at=model.created_at,
        updated_at=model.updated_at,
    )


def find_provenance(model: Model) -> ModelProvenance | None:
    """Return what a model was made from; None once it has been given other files."""
    provenance = model.provenance
    known = {file.sha256 for file in model.config.files}
    return provenance if provenance is not None and provenance.sha256 in known else None


def provenance_to_wire(provenance: ModelProvenance | None) -> ModelProvenanceOut | None:
    return None if provenance is None else ModelProvenanceOut(**asdict(provenance))


def replica_to_wire(replica: Replica, nodes: Nodes, model: Model) -> ModelReplicaOut:
    node = nodes.get(replica.node_id)
    return ModelReplicaOut(
        node_id=replica.node_id,
        node_name=node.name if node else "",
        node_status=compute_status(node) if node else "",
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


def saved_to_wire(saved: ModelSaveResult, message: str = "", warnings: Sequence[str] = ()) -> SavedModelOut:
    return SavedModelOut(
        name=saved.model.name,
        revision=saved.model.revision,
        config_revision=saved.model.run_hash,
        pending_cleanup=saved.stopped > 0,
        stopped=saved.stopped,
        created=saved.is_new,
        changes=list(saved.lines),
        warnings=list(warnings),
        message=message or _describe_save(saved),
    )


def describe_ended_replicas(replicas: int) -> str:
    return "1 replica is being stopped" if replicas == 1 else f"{replicas} replicas are being stopped"


def _describe_save(saved: ModelSaveResult) -> str:
    model = saved.model
    if saved.is_new:
        return f"Added model {model.name}."
    if not saved.lines:
        return f"Model {model.name} is unchanged, at revision {model.revision}."
    ended = f" {describe_ended_replicas(saved.stopped)}." if saved.stopped else ""
    return f"Updated model {model.name} to revision {model.revision}.{ended}"


def revisions_to_wire(revisions: Sequence[ModelRevision]) -> list[RevisionOut]:
    """Return the revisions, newest first, each with its changes."""
    older = [*revisions[1:], None]
    return [
        RevisionOut(
            number=one.number,
            run_hash=one.run_hash,
            config=to_mapping(one.config),
            created_by=one.created_by,
            created_at=one.created_at,
            note=one.note,
            changes=diff(previous.config, one.config) if previous is not None else [],
        )
        for one, previous in zip(revisions, older, strict=True)
    ]
