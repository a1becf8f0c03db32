"""What has something newer: the decision alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.backend import GalleryEntry, InstalledBackend
from corral.domain.node import NodeId
from corral.policy.upgrades import BackendUpgrade, NodeBackend, NodeUpgrade, find_upgrades, list_tags_in_use
from tests.backends.entries import parsed

pytestmark = pytest.mark.behaviour("OPS-98")

OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64
INDEX = f"""
- {{name: brain, alias: brain, capabilities: {{default: cpu-brain}}}}
- {{name: cpu-brain, alias: brain, uri: 'registry.example/brains:cpu'}}
- {{name: cpu-brain-development, alias: brain, uri: 'registry.example/brains:dev'}}
- {{name: pinned, uri: 'registry.example/brains@{NEW}'}}
- name: ear
  versions:
    - {{version: '2.0', source: {{kind: pypi, requirements: [ear==2.0]}}}}
    - {{version: '2.1rc1', source: {{kind: pypi, requirements: [ear==2.1rc1]}}}}
    - {{version: '1.0', source: {{kind: pypi, requirements: [ear==1.0]}}}}
- {{name: plain, uri: 'https://files.example/plain.zip'}}
- name: boxed
  versions:
    - {{version: '3.0', source: {{kind: oci, uri: 'registry.example/boxed:3.0'}}}}
"""
TAG = "registry.example/brains:cpu"


def entries() -> tuple[GalleryEntry, ...]:
    return parsed(INDEX).entries


def has(node: str, name: str, **fields: Any) -> NodeBackend:
    installed = InstalledBackend(**{"name": name, "gallery": "corral", **fields})
    return NodeBackend(node_id=NodeId(f"id-{node}"), node_name=node, installed=installed)


def found(*rows: NodeBackend, digests: dict[str, str] | None = None) -> tuple[BackendUpgrade, ...]:
    return find_upgrades(rows, entries(), {} if digests is None else digests)


def test_newer_release_in_the_gallery_is_found() -> None:
    assert found(has("a", "ear", version="1.0", digest="d")) == (
        BackendUpgrade(
            backend="ear",
            installed_version="1.0",
            available_version="2.0",
            installed_digest="d",
            nodes=(NodeUpgrade(node_id=NodeId("id-a"), node_name="a", from_version="1.0", to_version="2.0"),),
        ),
    )


@pytest.mark.parametrize("version", ["2.0", "v2.0.0", "2.1rc1", "3"])
def test_backend_as_new_or_newer_than_the_gallery_has_no_upgrade(version: str) -> None:
    assert found(has("a", "ear", version=version)) == ()


def test_backend_without_a_version_is_older_than_a_versioned_gallery_entry() -> None:
    (one,) = found(has("a", "ear"))
    assert (one.installed_version, one.available_version) == ("", "2.0")


def test_tag_that_points_to_something_else_is_found() -> None:
    row = has("a", "cpu-brain", digest=OLD)
    (one,) = found(row, digests={TAG: NEW})
    assert (one.installed_digest, one.available_digest) == (OLD, NEW)
    assert found(row, digests={TAG: OLD}) == ()
    assert found(row, digests={}) == ()
    assert found(row, digests={"registry.example/brains:dev": NEW}) == ()


def test_image_without_a_recorded_digest_counts_as_old() -> None:
    (one,) = found(has("a", "cpu-brain"), digests={TAG: NEW})
    assert (one.installed_digest, one.available_digest) == ("", NEW)


def test_pinned_image_needs_no_query_for_its_digest() -> None:
    assert [one.backend for one in found(has("a", "pinned", digest=OLD))] == ["pinned"]
    assert found(has("a", "pinned", digest=NEW)) == ()


def test_versions_decide_where_there_are_some_whatever_the_digests_say() -> None:
    row = has("a", "boxed", version="3.0", digest=OLD)
    assert found(row, digests={"registry.example/boxed:3.0": NEW}) == ()


def test_file_without_a_version_is_never_older() -> None:
    assert found(has("a", "plain", digest=OLD)) == ()


def test_majority_counts_and_the_others_are_the_drift() -> None:
    (one,) = found(*(has(node, "ear", version="2.0") for node in "abc"), has("d", "ear", version="1.0"))
    assert (one.installed_version, one.available_version) == ("2.0", "2.0")
    assert [(drift.node_name, drift.node_id, drift.version) for drift in one.node_drift] == [("d", "id-d", "1.0")]


def test_upgrade_names_only_nodes_that_are_behind_with_their_own_version() -> None:
    (one,) = found(
        *(has(node, "ear", version="2.0") for node in "abc"),
        has("d", "ear", version="1.0"),
        has("e", "ear", version="3.0"),
    )
    assert [(node.node_name, node.from_version, node.to_version) for node in one.nodes] == [("d", "1.0", "2.0")]
    assert one.summary == "The newest version is 2.0. d has 1.0."


def test_summary_of_many_nodes_groups_them_by_version() -> None:
    (one,) = found(*(has(node, "ear", version="1.0") for node in "abcde"), has("f", "ear", version="0.9"))
    assert one.summary == "The newest version is 2.0. a, b, c and 2 more have 1.0, f has 0.9."


def test_summary_of_nodes_that_only_differ_promises_nothing_newer() -> None:
    (one,) = found(has("a", "ear", version="2.0"), has("b", "ear", version="2.0"), has("c", "ear", version="3.0"))
    assert one.nodes == ()
    assert one.summary == "Nodes differ. c has 3.0, the others 2.0."


def test_summary_of_an_image_without_versions_says_that_it_is_older() -> None:
    (one,) = found(has("a", "cpu-brain", digest=OLD), digests={TAG: NEW})
    assert one.summary == "There is a newer image. a has an older one."


def test_newer_version_counts_as_installed_when_nodes_are_split_evenly() -> None:
    (one,) = found(has("a", "ear", version="1.10"), has("b", "ear", version="1.9"))
    assert one.installed_version == "1.10"
    assert [drift.node_name for drift in one.node_drift] == ["b"]


def test_digests_of_packages_for_other_processors_are_no_drift_but_those_of_images_are() -> None:
    assert found(has("a", "ear", version="2.0", digest=OLD), has("b", "ear", version="2.0", digest=NEW)) == ()
    rows = [has("a", "cpu-brain", digest=NEW), has("b", "cpu-brain", digest=NEW), has("c", "cpu-brain", digest=OLD)]
    (one,) = found(*rows, digests={TAG: NEW})
    assert [drift.digest for drift in one.node_drift] == [OLD]


@pytest.mark.parametrize(
    "row",
    [
        has("a", "ear", version="1.0", is_system=True),
        has("a", "brain", meta="brain", version="1.0"),
        has("a", "unknown", version="1.0"),
        has("a", "ear", version="1.0", gallery="another"),
    ],
    ids=["system", "alias", "no gallery has it", "of another gallery"],
)
def test_row_that_is_not_ours_to_upgrade_is_ignored(row: NodeBackend) -> None:
    assert found(row, digests={TAG: NEW}) == ()


def test_row_without_a_gallery_is_looked_up_by_its_name() -> None:
    assert [one.backend for one in found(has("a", "ear", version="1.0", gallery=""))] == ["ear"]


def test_stable_is_never_proposed_over_an_installed_development_twin() -> None:
    rows = [has("a", "cpu-brain", digest=OLD), has("b", "cpu-brain-development", digest=OLD)]
    digests = {TAG: NEW, "registry.example/brains:dev": NEW}
    assert [one.backend for one in found(*rows, digests=digests)] == ["cpu-brain-development"]
    assert [one.backend for one in found(rows[0], digests=digests)] == ["cpu-brain"]


def test_upgrade_check_queries_only_tags_of_installed_images() -> None:
    rows = [
        has("a", "cpu-brain"),
        has("b", "cpu-brain"),
        has("a", "pinned"),
        has("a", "ear"),
        has("a", "boxed", is_system=True),
    ]
    assert list_tags_in_use(rows, entries()) == (TAG,)


rows_of_ear = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from(["", "1.0", "1.5", "2.0", "3.0"])), min_size=1, max_size=8
)


@given(rows_of_ear, st.randoms())
def test_order_of_the_rows_does_not_matter(pairs: list[tuple[str, str]], chance: Any) -> None:
    rows = [has(node, "ear", version=version) for node, version in dict(pairs).items()]
    shuffled = rows.copy()
    chance.shuffle(shuffled)
    assert find_upgrades(rows, entries(), {}) == find_upgrades(shuffled, entries(), {})


@given(rows_of_ear)
def test_every_node_has_what_counts_as_installed_or_is_in_the_drift(pairs: list[tuple[str, str]]) -> None:
    rows = [has(node, "ear", version=version) for node, version in dict(pairs).items()]
    for one in find_upgrades(rows, entries(), {}):
        drifted = {drift.node_name for drift in one.node_drift}
        assert {row.node_name for row in rows if row.installed.version != one.installed_version} == drifted
