"""Routes for galleries of models, variants, memory estimates and capabilities of models."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, BackgroundTasks, Query
from pydantic import Field, StringConstraints

from corral.api.backends.catalog import gallery_to_wire
from corral.api.deps import AnyCallerIn, ApiDeps, DepsIn, OperatorIn
from corral.api.models.request_bodies import EntryIn, list_served_calls
from corral.api.operations import TASK_TYPES
from corral.domain.access import can_use_model
from corral.domain.errors import CorralError, StoreUnavailable
from corral.domain.model import Model, ModelConfig
from corral.domain.node import Node
from corral.domain.operation import ACTIVE, Operation
from corral.models import gallery as listings
from corral.models.gallery import GalleryModelRequest, list_target_nodes
from corral.policy.models.estimate import estimate_need, parse_observed
from corral.policy.models.gallery import ModelGalleryEntry, make_config
from corral.policy.placing.placement import format_size
from corral.policy.status import compute_status
from corral.runtime.attempt import attempt
from corral.store import galleries as gallery_store
from corral.store import loads as load_store
from corral.store import models as store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.wire.backends import GalleryOut, GalleryRefreshOut
from corral.wire.base import LenientModel, make_clamp
from corral.wire.models import (
    GalleryModelOut,
    GalleryPageOut,
    MemoryEstimateOut,
    ModelCapabilitiesListOut,
    ModelCapabilitiesOut,
    ModelNodeOut,
    VariantOut,
    VariantsOut,
)

router = APIRouter(tags=["models"])
Word = Annotated[str, StringConstraints(max_length=200)]
ItemsIn = Annotated[
    int,
    Field(ge=1, description=f"Entries on a page; at most {listings.ITEMS_MAX}."),
    make_clamp(listings.ITEMS_MAX),
]
ESTIMATE_LIMIT_S = 10.0
CONTEXTS_MAX = 20
_NO_NODE_CONTEXTS = (8192,)


class GalleryPageQuery(LenientModel):
    """Query parameters of `GET /api/models`, which lists the models of the galleries: search, filters, page, order."""

    term: Word = ""
    tag: Word = ""
    backend: Word = ""
    capability: Word = Field(default="", description="chat, completions, embeddings, transcriptions, speech, rerank …")
    page: Annotated[int, Field(ge=1, le=100_000)] = 1
    items: ItemsIn = listings.ITEMS_DEFAULT
    sort: Literal["name", "repository", "license", "status", "backend", "size"] = "name"
    order: Literal["asc", "desc"] = "asc"
    collapse_variants: bool = Field(default=False, description="Show variants behind the entry that names them.")


@router.get("/api/models", response_model_exclude_none=True)
async def list_gallery_models(
    deps: DepsIn, _: OperatorIn, page: Annotated[GalleryPageQuery, Query()]
) -> GalleryPageOut:
    """List a page of the galleries, with the models made from each entry. While PostgreSQL is away, without the
    models."""
    try:
        async with deps.database.transaction() as tx:
            models = await store.list_models(tx)
            live = await operation_store.list_live(tx)
    except StoreUnavailable:
        models, live = [], []
    query = listings.ModelListingQuery(
        term=page.term,
        tag=page.tag,
        backend=page.backend,
        capability=page.capability,
        page=page.page,
        items=page.items,
        sort=page.sort,
        is_descending=page.order == "desc",
        folds_variants=page.collapse_variants,
    )
    found = listings.build_listing(
        deps.model_gallery.list_entries(), models, query, lambda backend: list_served_calls(deps, backend)
    )
    busy = {one.subject: one for one in live if one.state in ACTIVE and not one.kind.is_backend}
    return GalleryPageOut(
        models=[_entry_to_wire(row, busy) for row in found.items],
        processing_models={name: operation.id for name, operation in busy.items()},
        task_types={name: TASK_TYPES[operation.kind] for name, operation in busy.items()},
        available_models=found.available,
        installed_models=len(models),
        all_tags=list(found.all_tags),
        all_backends=list(found.all_backends),
        current_page=found.page,
        total_pages=found.pages,
    )


@router.get("/models/available", response_model_exclude_none=True)
async def list_available_models(deps: DepsIn, _: OperatorIn) -> list[GalleryModelOut]:
    """List all entries of the galleries by name."""
    async with deps.database.transaction() as tx:
        models = await store.list_models(tx)
    query = listings.ModelListingQuery(items=listings.ITEMS_MAX)
    found = listings.build_listing(
        deps.model_gallery.list_entries(), models, query, lambda backend: list_served_calls(deps, backend)
    )
    return [_entry_to_wire(row, {}) for row in found.items]


def _entry_to_wire(row: listings.ListedModelEntry, busy: Mapping[str, Operation]) -> GalleryModelOut:
    entry = row.entry
    operation = next((busy[name] for name in (*row.models, entry.name) if name in busy), None)
    return GalleryModelOut(
        id=entry.id,
        name=entry.name,
        gallery=entry.gallery,
        description=entry.description,
        icon=entry.icon,
        license=entry.license,
        urls=list(entry.urls),
        tags=list(entry.tags),
        backend=entry.backend,
        size=format_size(entry.size_bytes) if entry.size_bytes else "",
        size_bytes=entry.size_bytes,
        serves=list(row.serves),
        is_unverified=entry.is_unverified,
        installed=bool(row.models),
        models=list(row.models),
        processing=operation is not None,
        job_id=operation.id if operation else None,
        is_deletion=operation is not None and operation.kind.is_deletion,
        has_variants=True if entry.variants else None,
        variants=list(entry.variants),
    )


@router.get("/api/models/capabilities")
async def list_capabilities(deps: DepsIn, principal: AnyCallerIn) -> ModelCapabilitiesListOut:
    """List the models that this key may use, with their capabilities and nodes. Any key may call this."""
    async with deps.database.transaction() as tx:
        models = {model.name: model for model in await store.list_models(tx)}
        replicas = await replica_store.list_replicas(tx)
        nodes = {node.id: node for node in await node_store.list_nodes(tx)}
        failures = await load_store.list_load_failures(tx)
    nodes_by_capability: dict[str, list[ModelNodeOut]] = {}
    for replica in replicas:
        node = nodes.get(replica.node_id)
        if node is not None:
            place = ModelNodeOut(
                node_id=node.id, node_name=node.name, state=replica.state, node_status=compute_status(node)
            )
            nodes_by_capability.setdefault(replica.model, []).append(place)
    known = [
        _capabilities_to_wire(
            deps,
            model,
            nodes_by_capability.get(name, []),
            load_failed=name in failures and name not in nodes_by_capability,
        )
        for name, model in models.items()
        if can_use_model(principal, name, model.config.aliases)
    ]
    strays = [
        ModelCapabilitiesOut(id=name, name=name, capabilities=[], loaded_on=found, source="registry-only")
        for name, found in nodes_by_capability.items()
        if name not in models and can_use_model(principal, name)
    ]
    return ModelCapabilitiesListOut(data=sorted(known + strays, key=lambda one: one.name))


def _capabilities_to_wire(
    deps: ApiDeps, model: Model, loaded_nodes: list[ModelNodeOut], *, load_failed: bool
) -> ModelCapabilitiesOut:
    config = model.config
    return ModelCapabilitiesOut(
        id=model.name,
        name=model.name,
        capabilities=list(config.serves) or list_served_calls(deps, config.backend),
        backend=config.backend,
        disabled=not config.is_enabled,
        pinned=config.is_pinned,
        loaded_on=loaded_nodes,
        load_failed=load_failed,
    )


@router.get("/api/models/variants/{name:path}")
async def list_variants(deps: DepsIn, _: OperatorIn, name: EntryIn) -> VariantsOut:
    """List the variants of an entry, which of them fit the suitable nodes, and which one would be picked."""
    entry, nodes = await _find_entry_and_nodes(deps, name)
    chosen = deps.model_gallery.choose(GalleryModelRequest(entry=entry.id), nodes, deps.catalog)[1]
    return VariantsOut(
        auto_selected=chosen.variant.model,
        variants=[
            VariantOut(
                model=one.variant.model,
                backend=one.variant.backend,
                memory_bytes=one.variant.memory_bytes,
                fits=one.fits,
                fits_on=list(one.fits_on),
                is_base=one.variant.is_base,
                reason=one.sentence,
            )
            for one in chosen.verdicts
        ],
        warnings=list(chosen.warnings),
    )


async def _find_entry_and_nodes(deps: ApiDeps, name: str) -> tuple[ModelGalleryEntry, Sequence[Node]]:
    async with deps.database.transaction() as tx:
        model = await store.find_model(tx, name)
        rule = await rule_store.find_rule(tx, model.name if model else name)
        nodes = list_target_nodes(await node_store.list_nodes(tx), rule.selector if rule else None)
    # A model that was created from an entry is resolved to this entry.
    entry_name = (
        model.config.gallery if model and model.config.gallery and deps.model_gallery.get(name) is None else name
    )
    return deps.model_gallery.find(entry_name), nodes


@router.get("/api/models/estimate/{name:path}", response_model_exclude_none=True)
async def estimate_model(
    deps: DepsIn,
    _: OperatorIn,
    name: EntryIn,
    contexts: Annotated[str, Query(max_length=200, description="Context sizes: 8192,32768.")] = "",
) -> MemoryEstimateOut:
    """Estimate the memory of a replica of a model or an entry, on the node with the most memory. Empty if it is not
    known."""
    sizes = [int(word) for word in contexts.split(",") if word.strip().isdecimal()][:CONTEXTS_MAX] or None
    try:
        async with asyncio.timeout(ESTIMATE_LIMIT_S):
            return await _estimate_memory(deps, name, sizes)
    except (CorralError, TimeoutError):
        return MemoryEstimateOut()


async def _estimate_memory(deps: ApiDeps, name: str, sizes: list[int] | None) -> MemoryEstimateOut:
    async with deps.database.transaction() as tx:
        model = await store.find_model(tx, name)
        nodes = list_target_nodes(await node_store.list_nodes(tx))
        observed = parse_observed(await load_store.find_observed(tx, model.name), model.run_hash) if model else None
    if model is not None:
        config, facts, payload = model.config, model.facts, model.payload_bytes
    else:
        entry = deps.model_gallery.find(name)
        config, facts, payload = make_config(entry), None, entry.size_bytes
    node = max(nodes, key=lambda one: (one.hardware.total_vram or 0, one.hardware.total_ram or 0), default=None)
    if node is None:
        return MemoryEstimateOut(size_bytes=payload)
    found = {}
    for size in sizes or _NO_NODE_CONTEXTS:
        need = estimate_need(_with_context(config, size) if sizes else config, facts, payload, node, observed)
        memory = need.vram_bytes or need.ram_bytes
        if memory is not None:
            found[str(size) if sizes else "default"] = memory
    return MemoryEstimateOut(size_bytes=payload, context=found, is_observed=observed is not None)


def _with_context(config: ModelConfig, size: int) -> ModelConfig:
    return replace(config, options={**config.options, "context_size": str(size)})


async def _list_galleries(deps: DepsIn, _: OperatorIn) -> list[GalleryOut]:
    """List the galleries of models with the time and the error of their last fetch."""
    return await _read_galleries(deps)


for _path, _name in (
    ("/api/models/galleries", "model_galleries"),
    ("/models/galleries", "model_galleries_for_localai"),
):
    router.get(_path, name=_name)(_list_galleries)


async def _refresh_galleries(deps: DepsIn, _: OperatorIn, background: BackgroundTasks) -> GalleryRefreshOut:
    """Fetch all galleries of models again, including those that failed recently. Returns the galleries as known now."""

    async def fetch() -> None:
        await attempt(deps.model_refresher.refresh_once)

    background.add_task(fetch)
    return GalleryRefreshOut(message="The galleries are being fetched.", galleries=await _read_galleries(deps))


for _path, _name in (
    ("/api/models/galleries/refresh", "refresh_model_galleries"),
    ("/models/reload", "reload_models_for_localai"),
):
    router.post(_path, name=_name, status_code=202)(_refresh_galleries)


async def _read_galleries(deps: ApiDeps) -> list[GalleryOut]:
    try:
        async with deps.database.transaction() as tx:
            stamps = {(one.name, one.url): one for one in await gallery_store.list_stamps(tx, gallery_store.MODELS)}
    except StoreUnavailable:
        stamps = {}
    return [gallery_to_wire(state, stamps.get((state.name, state.url))) for state in deps.model_gallery.states]
