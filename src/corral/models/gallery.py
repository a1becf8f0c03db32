"""The galleries of models in memory, the same on every frontend; see `backends/shelf.py` for what is guaranteed.

A plain name means the built-in gallery first and then the configured ones in their order. A variant is looked for in
the gallery of the entry that names it: identity never crosses galleries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from corral.backends.catalog import Catalog
from corral.backends.index import LARGE_TEXT, parse_entries
from corral.backends.shelf import GalleryState, Shelf
from corral.domain.backend import BUILT_IN_GALLERY, Gallery
from corral.domain.cluster import Event
from corral.domain.errors import NotFound, Unprocessable
from corral.domain.model import ModelConfig
from corral.domain.node import Node, NodeType
from corral.engines import model_gallery_files
from corral.policy.catalog import capability_of, uses_processor_only
from corral.policy.labels import matches
from corral.policy.models.gallery import ModelEntry, config_of, read_entry
from corral.policy.placing.variants import Chosen, Machine, Variant, Verdict, choose_variant
from corral.policy.status import is_schedulable
from corral.store import galleries as store
from corral.store.database import Database

_SUGGESTIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIndex:
    entries: tuple[ModelEntry, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to become of an entry. `pinned` is the variant that an earlier installation has recorded."""

    entry: str
    name: str = ""
    variant: str = ""
    pinned: str = ""
    overrides: Mapping[str, Any] | None = None


def parse_models(text: str, gallery: str) -> ModelIndex:
    """`InvalidRequest` with the code `bad_gallery` if this is no index or nothing in it is good."""
    entries, warnings = parse_entries(text, gallery, read_entry)
    return ModelIndex(entries=entries, warnings=warnings)


async def read_models(text: str, gallery: str) -> ModelIndex:
    """The same for a text of any size, without holding up the event loop."""
    if len(text) < LARGE_TEXT:
        return parse_models(text, gallery)
    return await asyncio.to_thread(parse_models, text, gallery)


@cache
def read_built_in() -> ModelIndex:
    """The models that come with Corral. The files are ours: one that is wrong is a bug."""
    found = [parse_models(path.read_text(encoding="utf-8"), BUILT_IN_GALLERY) for path in model_gallery_files()]
    return ModelIndex(
        entries=tuple(entry for index in found for entry in index.entries),
        warnings=tuple(warning for index in found for warning in index.warnings),
    )


class ModelGallery:
    def __init__(
        self, database: Database, galleries: Sequence[Gallery] = (), *, built_in: ModelIndex | None = None
    ) -> None:
        self._database = database
        own = read_built_in() if built_in is None else built_in
        self._shelf = Shelf(store.MODELS, galleries, own, read_models)
        self._take()

    @property
    def states(self) -> tuple[GalleryState, ...]:
        return self._shelf.states

    def unread(self) -> tuple[str, ...]:
        """Return the galleries that have neither been fetched yet nor failed to be."""
        return self._shelf.unread()

    def entries(self) -> tuple[ModelEntry, ...]:
        return self._entries

    async def load(self) -> None:
        """Read the stored copies anew."""
        await self._shelf.load(self._database)
        self._take()

    async def follow(self, events: Iterable[Event]) -> None:
        if any(event.kind == "gallery.changed" for event in events):
            await self.load()

    def get(self, name: str) -> ModelEntry | None:
        """By name or gallery@name."""
        wanted = name.strip().lower()
        return self._by_id.get(wanted) or self._by_name.get(wanted)

    def find(self, name: str) -> ModelEntry:
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

    def choose(self, wish: Wish, nodes: Sequence[Node], catalog: Catalog) -> tuple[ModelEntry, Chosen]:
        """The entry or the variant of it that suits the nodes which may get it, whatever this frontend runs on.

        `Unprocessable` for a variant that does not exist, with those that do.
        """
        base = self.find(wish.entry)
        candidates = self._candidates(base)
        variants = [_variant(entry, is_base=entry is base) for entry in candidates]
        machines = [_machine(node, variants, catalog) for node in nodes]
        try:
            chosen = choose_variant(variants, machines, requested=wish.variant, pinned=wish.pinned)
        except NotFound as error:
            raise Unprocessable(error.message, hint=error.hint, code="unknown_variant") from error
        return next(entry for entry in candidates if entry.name == chosen.variant.model), chosen

    def configure(self, wish: Wish, nodes: Sequence[Node], catalog: Catalog) -> tuple[ModelConfig, Chosen]:
        """The configuration that an entry becomes on these nodes."""
        entry, chosen = self.choose(wish, nodes, catalog)
        config = config_of(
            entry,
            name=wish.name,
            overrides=wish.overrides,
            base=self.find(wish.entry),
            is_pinned=chosen.is_pinned,
        )
        return config, chosen

    def judge(self, config: ModelConfig, memory_bytes: int | None, nodes: Sequence[Node], catalog: Catalog) -> Verdict:
        """Say on which nodes a model that is in no gallery would fit, if a replica takes so much memory."""
        variant = Variant(model=config.name, backend=config.backend, memory_bytes=memory_bytes, is_base=True)
        return choose_variant([variant], [_machine(node, [variant], catalog) for node in nodes]).verdicts[0]

    def _candidates(self, base: ModelEntry) -> list[ModelEntry]:
        others = (self._by_id.get(f"{base.gallery}@{name}".lower()) for name in base.variants)
        return [base, *(entry for entry in others if entry is not None)]

    def _take(self) -> None:
        self._entries = tuple(entry for index in self._shelf.indexes() for entry in index.entries)
        self._by_id = {entry.id.lower(): entry for entry in self._entries}
        self._by_name = {entry.name.lower(): entry for entry in reversed(self._entries)}


def target_nodes(nodes: Iterable[Node], selector: Mapping[str, str] | None = None) -> list[Node]:
    """The nodes that may be given a model: engines run there, they may get work, and its rule means them.

    When none may get work now, those that were approved: an outage is no reason to choose for other hardware.
    """
    known = [
        node
        for node in nodes
        if node.type is NodeType.BACKEND and node.approved_at is not None and matches(selector or {}, node.label_map)
    ]
    return [node for node in known if is_schedulable(node)] or known


def _variant(entry: ModelEntry, *, is_base: bool) -> Variant:
    return Variant(
        model=entry.name, backend=entry.backend, memory_bytes=entry.memory_bytes, tags=entry.tags, is_base=is_base
    )


def _machine(node: Node, variants: Sequence[Variant], catalog: Catalog) -> Machine:
    """The node with the backends of `variants` that it has a build for, and those of them that use no GPU."""
    backends, processor_backends = set(), set()
    capability = capability_of(node.hardware)
    for backend in {variant.backend for variant in variants}:
        if catalog.get(backend) is None:
            # In no gallery: installed from elsewhere, or to be. It may run there.
            backends.add(backend)
            continue
        try:
            build = catalog.resolve(backend, capability)
        except Unprocessable:
            continue
        backends.add(backend)
        if uses_processor_only(build.name, build.manifest, capability):
            processor_backends.add(backend)
    return Machine.of(node, frozenset(backends), frozenset(processor_backends))
