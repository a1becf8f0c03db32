"""Configurations of models: reading, writing, revisions, and the ancestor's ways to the same.

A change is served by this frontend before its answer, and by the others a moment later. A body is YAML or JSON. Who
sends `If-Match` with the revision that was seen gets 409 if there is a newer one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import structlog
from fastapi import APIRouter, Query, Request, Response

from corral.api.idempotency import once_as
from corral.api.models.bodies import (
    IfMatch,
    IfNoneMatch,
    NameIn,
    check_sources,
    document_of,
    model_change,
    seen_revision,
    serve_as_changed,
    warnings_of,
)
from corral.api.models.views import counted, model_out, revisions_out, saved_out
from corral.api.parts import OperateIn, Parts, PartsIn
from corral.domain.errors import InvalidRequest
from corral.domain.model import Model, ModelConfig
from corral.models import catalog
from corral.policy.models.configuration import diff, from_mapping, patched, to_mapping
from corral.runtime.guard import Failed, attempt
from corral.store import loads as load_store
from corral.store import models as store
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.store.database import Transaction
from corral.wire.models import DiffOut, ModelOut, RenameIn, RevisionOut, RollbackIn, SavedOut

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


@router.get("/api/models/configs")
async def list_models(parts: PartsIn, _: OperateIn) -> list[ModelOut]:
    """Every model of this cluster with its configuration and its replicas."""
    async with parts.database.transaction() as tx:
        models = await store.list_models(tx)
        replicas = await replica_store.list_replicas(tx)
        nodes = {node.id: node for node in await node_store.list_nodes(tx)}
        ruled = {rule.model for rule in await rule_store.list_rules(tx)}
        failures = await load_store.list_load_failures(tx)
    mine: dict[str, list[Any]] = {}
    for replica in replicas:
        mine.setdefault(replica.model, []).append(replica)
    return [
        model_out(one, mine.get(one.name, ()), nodes, has_rule=one.name in ruled, failure=failures.get(one.name))
        for one in models
    ]


@router.get("/api/models/config/{name:path}")
async def get_model(parts: PartsIn, _: OperateIn, name: NameIn, response: Response) -> ModelOut:
    """One model by its name or an alias. `ETag` is its revision."""
    async with parts.database.transaction() as tx:
        model = await store.get_model(tx, name)
        replicas = await replica_store.list_replicas(tx, model=model.name)
        nodes = {node.id: node for node in await node_store.list_nodes(tx, only=[one.node_id for one in replicas])}
        rule = await rule_store.find_rule(tx, model.name)
        failures = await load_store.list_load_failures(tx, model.name)
    response.headers["ETag"] = f'"{model.revision}"'
    return model_out(model, replicas, nodes, has_rule=rule is not None, failure=failures.get(model.name))


@router.get("/api/models/config-json/{name:path}", response_model=dict[str, Any])
async def get_model_config(parts: PartsIn, _: OperateIn, name: NameIn, response: Response) -> dict[str, Any]:
    """The configuration of one model alone, as LocalAI's page reads it. `ETag` is its revision."""
    async with parts.database.transaction() as tx:
        model = await store.get_model(tx, name)
    response.headers["ETag"] = f'"{model.revision}"'
    return to_mapping(model.config)


@router.put("/api/models/config/{name:path}", **_BODY)
async def put_model(
    request: Request,
    parts: PartsIn,
    operator: OperateIn,
    name: NameIn,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> SavedOut:
    """Make a model, or make it so. What the body does not say is as it would be without it."""
    expects = seen_revision(if_match, if_none_match)
    written = await document_of(request)
    async with parts.database.transaction() as tx:
        # An alias means the model that it leads to.
        own = await store.find_owner(tx, name) or name
    config = _read(parts, _without_name(written, name) if own != name else written, own)
    is_here = await parts.library.check_uploads(config.files, config.entry)
    async with model_change(parts, config.name) as tx:
        saved = await catalog.put(tx, config, operator.name, expects=expects)
    if is_here and saved.model.files is None:
        saved = replace(saved, model=await _register_uploads(parts, saved.model))
    return _out(parts, saved)


async def _register_uploads(parts: Parts, model: Model) -> Model:
    """Write down what the uploaded files of a model are, so that plans know its size before its first load.

    Returns the model with them. Best effort: the first load does the same.
    """
    outcome = await attempt(lambda: parts.library.enter(model.name, model.config.files, _NoReport()))
    if isinstance(outcome, Failed):
        log.info("uploaded files are registered by the first load", model=model.name, problem=outcome.sentence)
        return model
    async with parts.database.transaction() as tx:
        return await store.get_model(tx, model.name)


class _NoReport:
    """A `FetchReport` for files that are in the library already."""

    def moved(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        pass


def _without_name(written: Any, name: str) -> Any:
    if isinstance(written, dict) and written.get("name") == name:
        return {key: value for key, value in written.items() if key != "name"}
    return written


def _check_mapping(written: Any) -> None:
    if not isinstance(written, dict):
        raise InvalidRequest("The body is not a mapping of names to values.", code="bad_model")


async def _patch(
    request: Request, parts: PartsIn, operator: OperateIn, name: NameIn, if_match: IfMatch = None
) -> SavedOut:
    """Lay a change over a model's configuration: mappings key by key, null takes a key away. The name stays."""
    change = await document_of(request)
    _check_mapping(change)
    async with model_change(parts, name) as tx:
        before = await store.lock_model(tx, name)
        check_sources(parts, patched(before.config, change))
        return _out(parts, await catalog.patch(tx, name, change, operator.name, expects=seen_revision(if_match)))


for _path, _name in (
    ("/api/models/config/{name:path}", "patch_model"),
    ("/api/models/config-json/{name:path}", "patch_model_as_ancestor"),
):
    router.patch(_path, name=_name, **_BODY)(_patch)


@router.delete("/api/models/config/{name:path}")
async def delete_model(parts: PartsIn, operator: OperateIn, name: NameIn, if_match: IfMatch = None) -> SavedOut:
    """Forget a model at once: its replicas end, and every node that has its files removes them, when it is there."""
    async with model_change(parts, name) as tx:
        saved = await catalog.forget(tx, name, operator.name, expects=seen_revision(if_match))
    return saved_out(saved, f"Model {saved.model.name} is gone; {counted(saved.stopped)}.")


@router.get("/api/models/revisions/{name:path}")
async def list_revisions(parts: PartsIn, _: OperateIn, name: NameIn) -> list[RevisionOut]:
    """Newest first, each with what it changed."""
    async with parts.database.transaction() as tx:
        model = await store.get_model(tx, name)
        return revisions_out(await store.list_revisions(tx, model.name))


@router.get("/api/models/diff/{name:path}")
async def compare(
    parts: PartsIn, _: OperateIn, name: NameIn, old: Revision | None = None, new: Revision | None = None
) -> DiffOut:
    """What is different between two revisions. Without `new`: the present one; without `old`: the one before it."""
    async with parts.database.transaction() as tx:
        model = await store.get_model(tx, name)
        later = model.revision if new is None else new
        earlier = max(1, later - 1) if old is None else old
        one = await store.get_revision(tx, model.name, earlier)
        other = await store.get_revision(tx, model.name, later)
    # A rename is no difference of settings.
    lines = diff(replace(one.config, name=model.name), replace(other.config, name=model.name))
    return DiffOut(model=model.name, old=earlier, new=later, changes=lines)


@router.post("/api/models/rollback/{name:path}")
async def roll_back(
    parts: PartsIn, operator: OperateIn, name: NameIn, body: RollbackIn, if_match: IfMatch = None
) -> SavedOut:
    """A new revision with the content of an old one."""
    async with model_change(parts, name) as tx:
        expects = seen_revision(if_match)
        return _out(parts, await catalog.roll_back(tx, name, body.revision, operator.name, expects=expects))


@router.post("/api/models/rename")
async def rename(parts: PartsIn, operator: OperateIn, body: RenameIn) -> list[SavedOut]:
    """Give models other names, all or none; two may swap. Engines that answer to an old name end."""
    async with model_change(parts, *body.names, *body.names.values()) as tx:
        return [saved_out(one) for one in await catalog.rename(tx, body.names, operator.name)]


@router.put("/models/toggle-state/{name:path}/{action}")
async def toggle_state(
    parts: PartsIn, operator: OperateIn, name: NameIn, action: Literal["enable", "disable"]
) -> SavedOut:
    """A disabled model takes no requests, and its replicas end."""
    async with model_change(parts, name) as tx:
        return saved_out(await catalog.set_enabled(tx, name, operator.name, enabled=action == "enable"))


@router.put("/models/toggle-pinned/{name:path}/{action}")
async def toggle_pinned(parts: PartsIn, operator: OperateIn, name: NameIn, action: Literal["pin", "unpin"]) -> SavedOut:
    """A pinned model is never evicted and never scaled to zero."""
    async with model_change(parts, name) as tx:
        return saved_out(await catalog.set_pinned(tx, name, operator.name, pinned=action == "pin"))


@router.post("/models/edit/{name:path}", **_BODY)
async def edit(
    request: Request, parts: PartsIn, operator: OperateIn, name: NameIn, if_match: IfMatch = None
) -> SavedOut:
    """The ancestor's way to replace a configuration; another name in it renames the model in the same step."""
    written = await document_of(request)
    _check_mapping(written)
    said = written.get("name")
    async with model_change(parts, name, *([said] if isinstance(said, str) else [])) as tx:
        before = await store.lock_model(tx, name)
        expects = seen_revision(if_match)
        new = said if isinstance(said, str) and said != name else before.name
        config = _read(parts, written if said != name else _without_name(written, name), new)
        if new == before.name:
            return _out(parts, await catalog.replace_config(tx, new, config, operator.name, expects=expects))
        if expects is not None:
            await catalog.patch(tx, before.name, {}, operator.name, expects=expects)
        (renamed,) = await catalog.rename(tx, {before.name: new}, operator.name)
        saved = await catalog.replace_config(tx, new, config, operator.name)
        return _out(parts, replace(saved, stopped=saved.stopped + renamed.stopped))


@router.post("/models/import", **_BODY, response_model=SavedOut)
async def import_model(request: Request, parts: PartsIn, operator: OperateIn) -> Response:
    """The ancestor's way to make a model of a configuration; one that is there is made so."""
    config = _read(parts, await document_of(request))

    async def work(tx: Transaction) -> tuple[int, bytes]:
        saved = await catalog.put(tx, config, operator.name, note="imported")
        return 201 if saved.is_new else 200, _out(parts, saved).model_dump_json().encode()

    answer = await once_as(request, parts.database, operator, work)
    await serve_as_changed(parts, [config.name])
    return answer


def _read(parts: Parts, written: Any, name: str = "") -> ModelConfig:
    if not isinstance(written, dict):
        raise InvalidRequest("The body is not a configuration: a mapping of names to values.", code="bad_model")
    config = from_mapping(written, name=name)
    check_sources(parts, config)
    return config


def _out(parts: Parts, saved: catalog.Saved) -> SavedOut:
    return saved_out(saved, warnings=warnings_of(parts, saved.model.config))
