"""Holds the galleries of models in memory, the same on every frontend; `backends/index_cache.py` states the
guarantees.

A plain name means the built-in gallery first and then the configured ones in their order. A variant is looked for in
the gallery of the entry that names it: identity never crosses galleries.

A page of the galleries lists entries, the models of this cluster made from them, and where they could run: filters come
first, then variants are folded into the entries that name them, then the page is cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from corral.backends.catalog import BackendCatalog
from corral.backends.index import LARGE_TEXT, parse_entries
from corral.backends.index_cache import GalleryIndexCache, GalleryState
from corral.domain.backend import BUILT_IN_GALLERY, Gallery
from corral.domain.cluster import OutboxEvent
from corral.domain.errors import InvalidRequest, NotFound, Unprocessable
from corral.domain.model import Model, ModelConfig
from corral.domain.node import Node, NodeType
from corral.engines import list_model_gallery_files
from corral.policy.catalog import find_capability, uses_processor_only
from corral.policy.labels import matches_labels
from corral.policy.models.configuration import CALLS
from corral.policy.models.gallery import ModelGalleryEntry, make_config, read_entry
from corral.policy.placing.variants import CandidateMachine, ModelVariant, VariantChoice, VariantVerdict, choose_variant
from corral.policy.status import is_schedulable
from corral.store import galleries as store
from corral.store.database import Database

_SUGGESTIONS = 3
ITEMS_DEFAULT = 9
# Room for every entry of the largest public gallery, so that one page can hold all of it.
ITEMS_MAX = 2000
SORTS = ("name", "repository", "license", "status", "backend", "size")
# The capabilities that a query can name: our calls, and one word of LocalAI's that is a tag here.
CAPABILITIES = (*CALLS, "voice_cloning")
ListServedCalls = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGalleryIndex:
    """Holds the readable entries of one model gallery, and a warning for each that was left out."""

    entries: tuple[ModelGalleryEntry, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryModelRequest:
    """A request to make a model of a gallery entry: under which name, as which variant, with which overrides."""

    entry: str
    name: str = ""
    variant: str = ""
    pinned: str = ""
    overrides: Mapping[str, Any] | None = None


def parse_models(text: str, gallery: str) -> ModelGalleryIndex:
    """Parse an index of models. `InvalidRequest` with the code `bad_gallery` if it is no index or has no valid
    entry."""
    entries, warnings = parse_entries(text, gallery, read_entry)
    return ModelGalleryIndex(entries=entries, warnings=warnings)


async def read_models(text: str, gallery: str) -> ModelGalleryIndex:
    """Parse an index of any size without blocking the event loop."""
    if len(text) < LARGE_TEXT:
        return parse_models(text, gallery)
    return await asyncio.to_thread(parse_models, text, gallery)


@cache
def read_built_in() -> ModelGalleryIndex:
    """Return the models that come with Corral. The files are ours: an invalid one is a bug."""
    found = [parse_models(path.read_text(encoding="utf-8"), BUILT_IN_GALLERY) for path in list_model_gallery_files()]
    return ModelGalleryIndex(
        entries=tuple(entry for index in found for entry in index.entries),
        warnings=tuple(warning for index in found for warning in index.warnings),
    )


class ModelGallery:
    """Keeps the entries of all model galleries in a frontend's memory, and makes model configurations of them."""

    def __init__(
        self, database: Database, galleries: Sequence[Gallery] = (), *, built_in: ModelGalleryIndex | None = None
    ) -> None:
        self._database = database
        own = read_built_in() if built_in is None else built_in
        self._indexes = GalleryIndexCache(store.MODELS, galleries, own, read_models)
        self._rebuild_entries()

    @property
    def states(self) -> tuple[GalleryState, ...]:
        return self._indexes.states

    def list_unread(self) -> tuple[str, ...]:
        """Return the galleries that have neither been fetched yet nor failed to be."""
        return self._indexes.list_unread()

    def list_entries(self) -> tuple[ModelGalleryEntry, ...]:
        return self._entries

    async def load(self) -> None:
        """Read the stored copies of all galleries again."""
        await self._indexes.load(self._database)
        self._rebuild_entries()

    async def follow(self, events: Iterable[OutboxEvent]) -> None:
        if any(event.kind == "gallery.changed" for event in events):
            await self.load()

    def get(self, name: str) -> ModelGalleryEntry | None:
        """Return the entry with this name or gallery@name."""
        key = name.strip().lower()
        return self._by_id.get(key) or self._by_name.get(key)

    def find(self, name: str) -> ModelGalleryEntry:
        found = self.get(name)
        if found is None:
            known = {entry.name.lower(): entry.name for entry in reversed(self._entries)}
            plain = name.strip().rpartition("@")[2].lower()
            near = [known[one] for one in get_close_matches(plain[:200], list(known), n=_SUGGESTIONS, cutoff=0.6)]
            raise NotFound(
                f"There is no model {name[:200]!r} in any gallery.",
                code="model_not_in_gallery",
                hint=f"Did you mean {' or '.join(near)}?" if near else "`corral models search` lists what there is.",
                details={"suggestions": near},
            )
        return found

    def choose(
        self, request: GalleryModelRequest, nodes: Sequence[Node], catalog: BackendCatalog
    ) -> tuple[ModelGalleryEntry, VariantChoice]:
        """Return the entry or its variant that suits the nodes which may get it, whatever this frontend runs on.

        `Unprocessable` for a variant that does not exist, with those that do.
        """
        base = self.find(request.entry)
        candidates = self._list_candidates(base)
        variants = [_make_variant(entry, is_base=entry is base) for entry in candidates]
        machines = [_make_machine(node, variants, catalog) for node in nodes]
        try:
            chosen = choose_variant(variants, machines, requested=request.variant, pinned=request.pinned)
        except NotFound as error:
            raise Unprocessable(error.message, hint=error.hint, code="unknown_variant") from error
        return next(entry for entry in candidates if entry.name == chosen.variant.model), chosen

    def configure(
        self, request: GalleryModelRequest, nodes: Sequence[Node], catalog: BackendCatalog
    ) -> tuple[ModelConfig, VariantChoice]:
        """Return the configuration that an entry becomes on these nodes."""
        entry, chosen = self.choose(request, nodes, catalog)
        config = make_config(
            entry,
            name=request.name,
            overrides=request.overrides,
            base=self.find(request.entry),
            is_pinned=chosen.is_pinned,
        )
        return config, chosen

    def judge_fit(
        self, config: ModelConfig, memory_bytes: int | None, nodes: Sequence[Node], catalog: BackendCatalog
    ) -> VariantVerdict:
        """Return the nodes on which a model outside every gallery would fit, if a replica takes `memory_bytes`."""
        variant = ModelVariant(model=config.name, backend=config.backend, memory_bytes=memory_bytes, is_base=True)
        return choose_variant([variant], [_make_machine(node, [variant], catalog) for node in nodes]).verdicts[0]

    def _list_candidates(self, base: ModelGalleryEntry) -> list[ModelGalleryEntry]:
        others = (self._by_id.get(f"{base.gallery}@{name}".lower()) for name in base.variants)
        return [base, *(entry for entry in others if entry is not None)]

    def _rebuild_entries(self) -> None:
        self._entries = tuple(entry for index in self._indexes.list_indexes() for entry in index.entries)
        self._by_id = {entry.id.lower(): entry for entry in self._entries}
        self._by_name = {entry.name.lower(): entry for entry in reversed(self._entries)}


def list_target_nodes(nodes: Iterable[Node], selector: Mapping[str, str] | None = None) -> list[Node]:
    """Return the nodes that may be given a model: engines run there, they may get work, and its rule selects them.

    When no node may get work now, those that were approved: an outage is no reason to choose for other hardware.
    """
    known = [
        node
        for node in nodes
        if node.type is NodeType.BACKEND
        and node.approved_at is not None
        and matches_labels(selector or {}, node.label_map)
    ]
    return [node for node in known if is_schedulable(node)] or known


def _make_variant(entry: ModelGalleryEntry, *, is_base: bool) -> ModelVariant:
    return ModelVariant(
        model=entry.name, backend=entry.backend, memory_bytes=entry.memory_bytes, tags=entry.tags, is_base=is_base
    )


def _make_machine(node: Node, variants: Sequence[ModelVariant], catalog: BackendCatalog) -> CandidateMachine:
    """Return the node with the backends of `variants` that it has a build for, and those of them that use no GPU."""
    backends, processor_backends = set(), set()
    capability = find_capability(node.hardware)
    for backend in {variant.backend for variant in variants}:
        if catalog.get(backend) is None:
            # The backend is in no gallery, so it was or will be installed from elsewhere, and may run there.
            backends.add(backend)
            continue
        try:
            build = catalog.resolve(backend, capability)
        except Unprocessable:
            continue
        backends.add(backend)
        if uses_processor_only(build.name, build.manifest, capability):
            processor_backends.add(backend)
    return CandidateMachine.from_node(node, frozenset(backends), frozenset(processor_backends))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelListingQuery:
    """Search, filters, order and page of a listing of the models that galleries offer."""

    term: str = ""
    tag: str = ""
    backend: str = ""
    capability: str = ""
    page: int = 1
    items: int = ITEMS_DEFAULT
    sort: str = "name"
    is_descending: bool = False
    folds_variants: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModelEntry:
    """One entry of a model gallery with the models made from it and the API calls that it serves."""

    entry: ModelGalleryEntry
    # Names of models that were made from the entry.
    models: tuple[str, ...]
    serves: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelListing:
    """One page of the models that galleries offer, with the totals and filter values for all of them."""

    items: tuple[ListedModelEntry, ...]
    # Totals of the query, over all pages.
    total: int
    page: int
    pages: int
    # Values over all galleries, whatever the query.
    available: int
    all_tags: tuple[str, ...]
    all_backends: tuple[str, ...]


def build_listing(
    entries: Sequence[ModelGalleryEntry], models: Iterable[Model], query: ModelListingQuery, serves: ListServedCalls
) -> ModelListing:
    """Build one page. `serves` returns the calls of a backend. Raises `InvalidRequest` for an invalid query."""
    _check(query)
    made = _group_models_by_entry(models)
    rows = [_make_row(entry, made, serves) for entry in entries]
    found = [row for row in rows if _matches(row, query)]
    if query.folds_variants:
        found = _fold_variants(found, rows)
    found.sort(key=lambda row: _order(row, query.sort), reverse=query.is_descending)
    start = (query.page - 1) * query.items
    return ModelListing(
        items=tuple(found[start : start + query.items]),
        total=len(found),
        page=query.page,
        pages=max(1, -(-len(found) // query.items)),
        available=len(rows),
        all_tags=tuple(sorted({tag for entry in entries for tag in entry.tags})),
        all_backends=tuple(sorted({entry.backend for entry in entries})),
    )


def _group_models_by_entry(models: Iterable[Model]) -> Mapping[str, list[str]]:
    """Return, by the id of an entry, the models that were made from it, also as a variant of another."""
    made: dict[str, list[str]] = {}
    for model in models:
        if model.config.gallery:
            made.setdefault(model.config.gallery.lower(), []).append(model.name)
            gallery = model.config.gallery.rpartition("@")[0]
            variant = f"{gallery}@{model.config.variant}".lower()
            if model.config.variant and variant != model.config.gallery.lower():
                made.setdefault(variant, []).append(model.name)
    return made


def _make_row(entry: ModelGalleryEntry, made: Mapping[str, list[str]], serves: ListServedCalls) -> ListedModelEntry:
    served_calls = entry.serves or tuple(serves(entry.backend))
    return ListedModelEntry(entry=entry, models=tuple(sorted(made.get(entry.id.lower(), ()))), serves=served_calls)


def _fold_variants(found: Sequence[ListedModelEntry], rows: Sequence[ListedModelEntry]) -> list[ListedModelEntry]:
    """Drop entries that a found entry names as its variants; a variant whose base was filtered out stays."""
    names = {(row.entry.gallery, row.entry.name) for row in rows}
    hidden = {
        (row.entry.gallery, variant)
        for row in found
        for variant in row.entry.variants
        if (row.entry.gallery, variant) in names
    }
    return [row for row in found if (row.entry.gallery, row.entry.name) not in hidden]


def _matches(row: ListedModelEntry, query: ModelListingQuery) -> bool:
    entry = row.entry
    tags = [tag.lower() for tag in entry.tags]
    if query.tag and query.tag.lower() not in tags:
        return False
    if query.backend and query.backend != entry.backend:
        return False
    if query.capability and query.capability not in (*row.serves, *tags):
        return False
    term = query.term.strip().lower()
    return not term or any(term in text.lower() for text in (entry.id, entry.description, entry.backend, *entry.tags))


def _order(row: ListedModelEntry, sort: str) -> tuple[str, str, str]:
    entry = row.entry
    first = {
        "name": "",
        "repository": entry.gallery,
        "license": entry.license.lower(),
        "status": "0" if row.models else "1",
        "backend": entry.backend,
        # An unknown size comes last.
        "size": f"{entry.size_bytes:020d}" if entry.size_bytes is not None else "~",
    }[sort]
    return (first.lower(), entry.name.lower(), entry.gallery)


def _check(query: ModelListingQuery) -> None:
    if query.sort not in SORTS:
        raise InvalidRequest(f"The order {query.sort!r} is not one of {', '.join(SORTS)}.")
    if query.page < 1 or not 1 <= query.items <= ITEMS_MAX:
        raise InvalidRequest(f"A page is 1 or more, and has 1 to {ITEMS_MAX} items.")
    if query.capability and query.capability not in CAPABILITIES:
        raise InvalidRequest(
            f"{query.capability[:60]!r} is not a capability.",
            hint=f"There are: {', '.join(CAPABILITIES)}.",
            code="unknown_capability",
        )
