"""The catalog as a page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from corral.backends.catalog import (
    BackendListing,
    BackendListingQuery,
    InstalledByNode,
    build_listing,
    list_healthy_capabilities,
)
from corral.domain.backend import InstalledBackend
from corral.domain.errors import InvalidRequest
from corral.domain.node import Hardware, Liveness, Node, NodeId, NodeType
from tests.backends.entries import catalog

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def node(name: str, capability: str = "default", **changes: Any) -> Node:
    fields: dict[str, Any] = {
        "id": NodeId(f"id-{name}"),
        "name": name,
        "type": NodeType.BACKEND,
        "credential_hash": "",
        "boot_id": "",
        "hardware": Hardware(capability=capability),
        "approved_at": LONG_AGO,
        "liveness_since": LONG_AGO,
        "bus_ok": True,
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
    }
    return Node(**(fields | changes))


def page(*nodes: Node, installed: InstalledByNode | None = None, **query: Any) -> BackendListing:
    return build_listing(catalog(), nodes, installed or {}, BackendListingQuery(**{"items": 100, **query}))


def names(found: BackendListing) -> list[str]:
    return [row.entry.name for row in found.items]


@pytest.mark.behaviour("OPS-95")
def test_catalog_tells_what_any_healthy_worker_can_run() -> None:
    found = page(node("cpu"), node("gpu", "nvidia"), node("mac", "metal", liveness=Liveness.LOST))
    runs = {row.entry.name: row.capabilities for row in found.items}
    assert found.capabilities == ("default", "nvidia")
    assert runs["cpu-brain"] == ("default", "nvidia")
    assert runs["cuda12-brain"] == ("nvidia",)
    assert runs["metal-brain"] == ()
    assert runs["brain"] == ("default", "nvidia")
    assert runs["only-gpu"] == ("nvidia",)


@pytest.mark.behaviour("OPS-95")
def test_backend_list_contains_only_runnable_backends_when_filtered() -> None:
    found = page(node("gpu", "nvidia"), only_runnable=True)
    assert names(found) == [
        "brain",
        "cpu-brain",
        "cpu-brain-development",
        "cuda-only-gpu",
        "cuda12-brain",
        "ear",
        "only-gpu",
    ]


@pytest.mark.behaviour("OPS-95")
def test_meta_whose_build_is_not_there_cannot_be_run() -> None:
    (brain,) = page(node("red", "amd"), term="corral@brain").items
    assert brain.capabilities == ()


@pytest.mark.behaviour("OPS-95")
def test_catalog_lists_everything_as_not_runnable_without_a_healthy_worker() -> None:
    unfit = [
        node("new", approved_at=None),
        node("drained", drained_at=LONG_AGO),
        node("lost", liveness=Liveness.LOST),
        node("off", bus_ok=False),
        node("agent", type=NodeType.AGENT),
    ]
    assert list_healthy_capabilities(unfit) == ()
    assert page(*unfit, only_runnable=True).items == ()
    assert page(*unfit).total == 8
    assert all(row.capabilities == () for row in page(*unfit).items)


@pytest.mark.behaviour("GAL-17")
def test_backend_tells_where_it_is_installed_also_through_its_meta() -> None:
    nodes = [node("b"), node("a")]
    installed = {
        nodes[0].id: [InstalledBackend(name="cpu-brain", meta="brain", gallery="corral", version="1")],
        nodes[1].id: [InstalledBackend(name="cpu-brain", meta="brain"), InstalledBackend(name="ear", gallery="other")],
    }
    found = page(*nodes, installed=installed)
    where = {row.entry.name: [place.node.name for place in row.nodes] for row in found.items if row.is_installed}
    assert where == {"cpu-brain": ["a", "b"], "brain": ["a", "b"]}
    assert (found.available, found.installed) == (8, 2)


@pytest.mark.behaviour("GAL-17")
def test_backend_tells_its_versions_and_what_it_is() -> None:
    rows = {row.entry.name: row for row in page().items}
    assert (rows["ear"].version, rows["ear"].versions) == ("1.10.0", ("2.0.0rc1", "1.10.0", "1.9.0"))
    assert (rows["brain"].version, rows["brain"].is_alias, rows["brain"].meta_for) == ("", True, None)
    assert (rows["cuda12-brain"].is_alias, rows["cuda12-brain"].meta_for) == (False, "brain")


@pytest.mark.behaviour("GAL-17")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"term": "EAR"}, ["ear"]),
        ({"term": "audio"}, ["ear"]),
        ({"term": "thinks", "tag": "CHAT", "items": 2}, ["brain", "cpu-brain"]),
        ({"tag": "aud"}, []),
        ({"term": "no such thing"}, []),
        ({"term": "corral@cpu", "is_descending": True}, ["cpu-brain-development", "cpu-brain"]),
        ({"term": "brain", "items": 2, "page": 3}, ["metal-brain"]),
        ({"term": "brain", "items": 2, "page": 4}, []),
        (
            {"sort": "license", "items": 3, "is_descending": True},
            ["metal-brain", "cuda12-brain", "cpu-brain-development"],
        ),
    ],
)
def test_catalog_is_searched_filtered_sorted_and_paged(query: dict[str, Any], expected: list[str]) -> None:
    assert names(page(**query)) == expected


@pytest.mark.behaviour("GAL-17")
def test_catalog_lists_installed_entries_first_and_counts_pages() -> None:
    here = node("a")
    found = page(here, installed={here.id: [InstalledBackend(name="ear")]}, sort="status", items=3)
    assert names(found)[0] == "ear"
    assert (found.total, found.page, found.pages) == (8, 1, 3)
    assert found.all_tags == ("audio", "chat", "gguf")
    assert page(term="no such thing").pages == 1


@pytest.mark.behaviour("GAL-17")
@pytest.mark.parametrize("query", [{"sort": "size"}, {"page": 0}, {"items": 0}, {"items": 2001}])
def test_page_that_makes_no_sense_is_refused(query: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        page(**query)
