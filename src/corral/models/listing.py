"""The galleries of models as a page: what there is, what of it is a model of this cluster, where it could run.

Filters come first, then variants are folded into the entries that name them, then the page is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from corral.domain.errors import InvalidRequest
from corral.domain.model import Model
from corral.policy.models.configuration import CALLS
from corral.policy.models.gallery import ModelEntry

ITEMS_DEFAULT = 9
# Room for every entry of the largest public gallery, so that one page can hold all of it.
ITEMS_MAX = 2000
SORTS = ("name", "repository", "license", "status", "backend", "size")
# What can be asked for as a capability: our calls, and one word of the ancestor's that is a tag here.
CAPABILITIES = (*CALLS, "voice_cloning")

Serves = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """`term` is looked for in names, descriptions, tags and galleries; the others are exact."""

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
class ListedEntry:
    entry: ModelEntry
    # Models that were made from it, by name.
    models: tuple[str, ...]
    serves: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelListing:
    items: tuple[ListedEntry, ...]
    # Of the query, over all pages.
    total: int
    page: int
    pages: int
    # Of all galleries, whatever was asked for.
    available: int
    all_tags: tuple[str, ...]
    all_backends: tuple[str, ...]


def listing(entries: Sequence[ModelEntry], models: Iterable[Model], query: Query, serves: Serves) -> ModelListing:
    """One page. `serves` says what a backend answers. `InvalidRequest` for what makes no sense."""
    _check(query)
    made = _made_from(models)
    rows = [_row(entry, made, serves) for entry in entries]
    found = [row for row in rows if _matches(row, query)]
    if query.folds_variants:
        found = _folded(found, rows)
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


def _made_from(models: Iterable[Model]) -> Mapping[str, list[str]]:
    """By the id of an entry: the models that were made from it, also as a variant of another."""
    made: dict[str, list[str]] = {}
    for model in models:
        if model.config.gallery:
            made.setdefault(model.config.gallery.lower(), []).append(model.name)
            gallery = model.config.gallery.rpartition("@")[0]
            variant = f"{gallery}@{model.config.variant}".lower()
            if model.config.variant and variant != model.config.gallery.lower():
                made.setdefault(variant, []).append(model.name)
    return made


def _row(entry: ModelEntry, made: Mapping[str, list[str]], serves: Serves) -> ListedEntry:
    said = entry.serves or tuple(serves(entry.backend))
    return ListedEntry(entry=entry, models=tuple(sorted(made.get(entry.id.lower(), ()))), serves=said)


def _folded(found: Sequence[ListedEntry], rows: Sequence[ListedEntry]) -> list[ListedEntry]:
    """Without entries that a found entry names as its variants; a variant whose base was filtered out stays."""
    names = {(row.entry.gallery, row.entry.name) for row in rows}
    hidden = {
        (row.entry.gallery, variant)
        for row in found
        for variant in row.entry.variants
        if (row.entry.gallery, variant) in names
    }
    return [row for row in found if (row.entry.gallery, row.entry.name) not in hidden]


def _matches(row: ListedEntry, query: Query) -> bool:
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


def _order(row: ListedEntry, sort: str) -> tuple[str, str, str]:
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


def _check(query: Query) -> None:
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
