"""What models there are to have, and what those of this cluster can do. Reading only, except for fetching indexes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, BackgroundTasks, Query
from pydantic import Field, StringConstraints

from corral.access.allowed import may_ask
from corral.api.backends.galleries import gallery_out
from corral.api.models.bodies import EntryIn, serves_of
from corral.api.operations.views import TASK_TYPES
from corral.api.parts import AnybodyIn, OperateIn, Parts, PartsIn
from corral.domain.errors import CorralError, StoreUnavailable
from corral.domain.model import Model, ModelConfig
from corral.domain.node import Node
from corral.domain.operation import ACTIVE, Operation
from corral.models import listing as listings
from corral.models.gallery import Wish, target_nodes
from corral.policy.models.estimate import estimate, observed_of
from corral.policy.models.gallery import ModelEntry, config_of
from corral.policy.placing.sizes import in_words
from corral.policy.status import status_of
from corral.runtime.guard import attempt
from corral.store import galleries as gallery_store
from corral.store import loads as load_store
from corral.store import models as store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.wire.backends import GalleryOut, RefreshOut
from corral.wire.base import Lenient, clamp_to
from corral.wire.models import (
    CapabilitiesListOut,
    CapabilitiesOut,
    EstimateOut,
    GalleryModelOut,
    GalleryPageOut,
    LoadedOnOut,
    VariantOut,
    VariantsOut,
)

router = APIRouter(tags=["models"])
Word = Annotated[str, StringConstraints(max_length=200)]
ItemsIn = Annotated[
    int,
    Field(ge=1, description=f"Entries on a page. More than {listings.ITEMS_MAX} are {listings.ITEMS_MAX}."),
    clamp_to(listings.ITEMS_MAX),
]
ESTIMATE_LIMIT_S = 10.0
CONTEXTS_MAX = 20
_NO_NODE_CONTEXTS = (8192,)


class ModelPageIn(Lenient):
    """Which page of the galleries, and in which order."""

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
async def list_gallery(parts: PartsIn, _: OperateIn, page: Annotated[ModelPageIn, Query()]) -> GalleryPageOut:
    """A page of what can be had, with the models that were made of it. While PostgreSQL is away, without them."""
    try:
        async with parts.database.transaction() as tx:
            models = await store.list_models(tx)
            live = await operation_store.list_listed(tx)
    except StoreUnavailable:
        models, live = [], []
    query = listings.Query(
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
    found = listings.listing(parts.models.entries(), models, query, lambda backend: serves_of(parts, backend))
    busy = {one.subject: one for one in live if one.state in ACTIVE and not one.kind.is_backend}
    return GalleryPageOut(
        models=[_entry_out(row, busy) for row in found.items],
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
async def list_available(parts: PartsIn, _: OperateIn) -> list[GalleryModelOut]:
    """Everything that the galleries have, by name."""
    async with parts.database.transaction() as tx:
        models = await store.list_models(tx)
    query = listings.Query(items=listings.ITEMS_MAX)
    found = listings.listing(parts.models.entries(), models, query, lambda backend: serves_of(parts, backend))
    return [_entry_out(row, {}) for row in found.items]


def _entry_out(row: listings.ListedEntry, busy: Mapping[str, Operation]) -> GalleryModelOut:
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
        size=in_words(entry.size_bytes) if entry.size_bytes else "",
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
async def list_capabilities(parts: PartsIn, principal: AnybodyIn) -> CapabilitiesListOut:
    """The models that this key may ask, with what they can do and where they run. For everybody who has a key."""
    async with parts.database.transaction() as tx:
        models = {model.name: model for model in await store.list_models(tx)}
        replicas = await replica_store.list_replicas(tx)
        nodes = {node.id: node for node in await node_store.list_nodes(tx)}
        failures = await load_store.list_load_failures(tx)
    places: dict[str, list[LoadedOnOut]] = {}
    for replica in replicas:
        node = nodes.get(replica.node_id)
        if node is not None:
            place = LoadedOnOut(node_id=node.id, node_name=node.name, state=replica.state, node_status=status_of(node))
            places.setdefault(replica.model, []).append(place)
    known = [
        _capabilities(parts, model, places.get(name, []), load_failed=name in failures and name not in places)
        for name, model in models.items()
        if may_ask(principal, name, model.config.aliases)
    ]
    strays = [
        CapabilitiesOut(id=name, name=name, capabilities=[], loaded_on=found, source="registry-only")
        for name, found in places.items()
        if name not in models and may_ask(principal, name)
    ]
    return CapabilitiesListOut(data=sorted(known + strays, key=lambda one: one.name))


def _capabilities(parts: Parts, model: Model, places: list[LoadedOnOut], *, load_failed: bool) -> CapabilitiesOut:
    config = model.config
    return CapabilitiesOut(
        id=model.name,
        name=model.name,
        capabilities=list(config.serves) or serves_of(parts, config.backend),
        backend=config.backend,
        disabled=not config.is_enabled,
        pinned=config.is_pinned,
        loaded_on=places,
        load_failed=load_failed,
    )


@router.get("/api/models/variants/{name:path}")
async def list_variants(parts: PartsIn, _: OperateIn, name: EntryIn) -> VariantsOut:
    """Which variants an entry has, which of them fit on the nodes that may get it, and which one they would get."""
    entry, nodes = await _entry_and_nodes(parts, name)
    chosen = parts.models.choose(Wish(entry=entry.id), nodes, parts.catalog)[1]
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


async def _entry_and_nodes(parts: Parts, name: str) -> tuple[ModelEntry, Sequence[Node]]:
    async with parts.database.transaction() as tx:
        model = await store.find_model(tx, name)
        rule = await rule_store.find_rule(tx, model.name if model else name)
        nodes = target_nodes(await node_store.list_nodes(tx), rule.selector if rule else None)
    # A model that was made of an entry stands for it.
    asked = model.config.gallery if model and model.config.gallery and parts.models.get(name) is None else name
    return parts.models.find(asked), nodes


@router.get("/api/models/estimate/{name:path}", response_model_exclude_none=True)
async def estimate_model(
    parts: PartsIn,
    _: OperateIn,
    name: EntryIn,
    contexts: Annotated[str, Query(max_length=200, description="Context sizes: 8192,32768.")] = "",
) -> EstimateOut:
    """About how much memory a replica of a model or of an entry takes, on the node with the most of it. Nothing, if it
    cannot be said."""
    sizes = [int(word) for word in contexts.split(",") if word.strip().isdecimal()][:CONTEXTS_MAX] or None
    try:
        async with asyncio.timeout(ESTIMATE_LIMIT_S):
            return await _estimate(parts, name, sizes)
    except (CorralError, TimeoutError):
        return EstimateOut()


async def _estimate(parts: Parts, name: str, sizes: list[int] | None) -> EstimateOut:
    async with parts.database.transaction() as tx:
        model = await store.find_model(tx, name)
        nodes = target_nodes(await node_store.list_nodes(tx))
        observed = observed_of(await load_store.find_observed(tx, model.name), model.run_hash) if model else None
    if model is not None:
        config, facts, payload = model.config, model.facts, model.payload_bytes
    else:
        entry = parts.models.find(name)
        config, facts, payload = config_of(entry), None, entry.size_bytes
    node = max(nodes, key=lambda one: (one.hardware.total_vram or 0, one.hardware.total_ram or 0), default=None)
    if node is None:
        return EstimateOut(size_bytes=payload)
    found = {}
    for size in sizes or _NO_NODE_CONTEXTS:
        need = estimate(_with_context(config, size) if sizes else config, facts, payload, node, observed)
        memory = need.vram_bytes or need.ram_bytes
        if memory is not None:
            found[str(size) if sizes else "default"] = memory
    return EstimateOut(size_bytes=payload, context=found, is_observed=observed is not None)


def _with_context(config: ModelConfig, size: int) -> ModelConfig:
    return replace(config, options={**config.options, "context_size": str(size)})


async def _galleries(parts: PartsIn, _: OperateIn) -> list[GalleryOut]:
    """The galleries of models, with when each was fetched and what is wrong with one that could not be."""
    return await _shown_galleries(parts)


for _path, _name in (
    ("/api/models/galleries", "model_galleries"),
    ("/models/galleries", "model_galleries_as_ancestor"),
):
    router.get(_path, name=_name)(_galleries)


async def _refresh(parts: PartsIn, _: OperateIn, later: BackgroundTasks) -> RefreshOut:
    """Fetch every gallery of models anew, also those that failed lately. Answers with what is known now."""

    async def fetch() -> None:
        await attempt(parts.model_refresher.refresh_once)

    later.add_task(fetch)
    return RefreshOut(message="The galleries are fetched now.", galleries=await _shown_galleries(parts))


for _path, _name in (
    ("/api/models/galleries/refresh", "refresh_model_galleries"),
    ("/models/reload", "reload_models_as_ancestor"),
):
    router.post(_path, name=_name, status_code=202)(_refresh)


async def _shown_galleries(parts: Parts) -> list[GalleryOut]:
    try:
        async with parts.database.transaction() as tx:
            stamps = {(one.name, one.url): one for one in await gallery_store.list_stamps(tx, gallery_store.MODELS)}
    except StoreUnavailable:
        stamps = {}
    return [gallery_out(state, stamps.get((state.name, state.url))) for state in parts.models.states]
