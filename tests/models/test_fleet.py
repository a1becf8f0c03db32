"""A whole fleet in one file: plan, apply, prune, export, all or nothing."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from sqlalchemy import text

from corral.domain.errors import Conflict, CorralError, InvalidRequest, NotFound
from corral.domain.node import LabelSource
from corral.models import fleet
from corral.nodes.lifecycle import set_budget, set_slots
from corral.policy.models.fleet_file import FleetFile, from_mapping, to_mapping
from corral.store import models as store
from corral.store import nodes as node_store
from corral.store import rules as rule_store
from corral.store.database import Database
from tests.models.scene import a_node, a_replica, list_event_data, list_pending_removals, made, read, staged_on, states
from tests.support.rules import put_rule

FILE = """
galleries:
  models: [{name: ours, url: "https://files.example/models.yaml", mirrors: ["https://mirror.example/models.yaml"]}]
nodes:
  n: {labels: {zone: b}}
models:
  - {name: chat, backend: fake, options: {slots: 2}, aliases: [c]}
  - {name: other, backend: fake}
rules:
  - {model: chat, selector: {zone: b}, min_replicas: 1}
"""


def file(source: str = FILE) -> FleetFile:
    return from_mapping(yaml.safe_load(source))


def actions(steps: list[fleet.FleetChange]) -> dict[str, str]:
    return {f"{step.kind} {step.name}": str(step.action) for step in steps}


async def counted(database: Database) -> dict[str, int]:
    async with database.transaction() as tx:
        return {
            name: (await tx.execute(text(f"SELECT count(*) FROM {name}"))).scalar_one()
            for name in ("models", "rules", "galleries", "fleet_items", "outbox", "audit", "model_revisions")
        }


@pytest.mark.behaviour("MOD-13")
async def test_plan_says_what_applying_does_and_leaves_nothing(database: Database):
    await a_node(database)
    before = await counted(database)
    planned = await fleet.plan(database, file(), "test")
    assert await counted(database) == before
    applied = await fleet.apply(database, file(), "test")
    assert planned == applied
    assert actions(applied) == {
        "models gallery ours": "create",
        "labels n": "change",
        "model chat": "create",
        "model other": "create",
        "rule chat": "create",
    }
    assert set(actions(await fleet.apply(database, file(), "test")).values()) == {"same"}
    found = await read(database, "c")
    assert found is not None
    assert (found.revision, found.config.options) == (1, {"slots": "2"})
    async with database.transaction() as tx:
        node = await node_store.find_node_by_name(tx, "n")
        assert node is not None
        assert [label.value for label in node.labels if label.source is LabelSource.ADMIN] == ["b"]
        assert (await store.list_revisions(tx, "chat"))[0].note == "applied from a file"


@pytest.mark.behaviour("MOD-13")
@pytest.mark.parametrize(
    "change",
    [
        {"nodes": {"nobody": {"labels": {"a": "b"}}}},
        {"nodes": {"n": {"labels": {"node.name": "other"}}}},
        {"models": [{"name": "new", "backend": "fake", "aliases": ["taken"]}]},
    ],
)
async def test_file_that_cannot_be_applied_whole_is_not_applied_at_all(database: Database, change: dict[str, Any]):
    await a_node(database)
    await made(database, "by hand", aliases=["taken"])
    before = await counted(database)
    bad = from_mapping(yaml.safe_load(FILE) | change)
    for work in (fleet.plan, fleet.apply):
        with pytest.raises((NotFound, Conflict, InvalidRequest)):
            await work(database, bad, "test")
    assert await counted(database) == before


async def test_pruning_takes_away_what_a_file_had_brought_and_nothing_that_was_made_by_hand(database: Database):
    node = await a_node(database)
    by_hand = await made(database, "by hand")
    async with database.transaction() as tx:
        await put_rule(tx, "by hand", {}, least=1)
    await fleet.apply(database, file(), "test")
    chat = await read(database)
    assert chat is not None
    await a_replica(database, node, chat)
    await staged_on(database, node, "chat")
    small = from_mapping({"models": [{"name": "other", "backend": "fake"}]})
    assert actions(await fleet.apply(database, small, "test")) == {"model other": "same"}
    assert await read(database) is not None
    steps = await fleet.apply(database, small, "test", prunes=True)
    assert actions(steps) == {
        "labels n": "remove",
        "model chat": "remove",
        "models gallery ours": "remove",
        "rule chat": "remove",
        "model other": "same",
    }
    assert next(step.stopped for step in steps if step.name == "chat" and step.kind == "model") == 1
    assert await read(database) is None
    assert (await states(database))[0][0] == "unloading"
    assert await list_pending_removals(database) == [(node, "chat")]
    assert await read(database, "by hand") == by_hand
    async with database.transaction() as tx:
        assert [rule.model for rule in await rule_store.list_rules(tx)] == ["by hand"]
        assert await store.list_fleet_items(tx) == {("model", "other")}


async def test_prune_keeps_a_model_that_was_deleted_and_created_by_hand(database: Database):
    await fleet.apply(database, from_mapping({"models": [{"name": "chat", "backend": "fake"}]}), "test")
    from corral.models import catalog  # noqa: PLC0415 - only here

    async with database.transaction() as tx:
        await catalog.delete_model(tx, "chat", "test")
    await made(database)
    assert await fleet.apply(database, FleetFile(), "test", prunes=True) == []
    assert await read(database) is not None


@pytest.mark.behaviour("MOD-15")
async def test_export_reads_back_to_exactly_what_is_there(database: Database):
    await a_node(database)
    await fleet.apply(database, file(), "test")
    await made(database, "a/b:c#d", files=[{"path": "m", "uri": "/m"}], defaults={"system": "Say\n'no': yes"}, vram=5)
    async with database.transaction() as tx:
        exported = await fleet.export(tx)
    written = yaml.safe_dump(to_mapping(exported), sort_keys=False, allow_unicode=True)
    again = from_mapping(yaml.safe_load(written))
    assert to_mapping(again) == to_mapping(exported)
    assert set(actions(await fleet.apply(database, again, "test")).values()) == {"same"}


@pytest.mark.behaviour("MOD-15")
async def test_export_with_limits_of_nodes_sets_them_again_when_applied(database: Database):
    node_id = await a_node(database)
    await a_node(database, "plain")
    await set_slots(database, "n", 3, "test")
    await set_budget(database, "n", "80%", "test")
    async with database.transaction() as tx:
        exported = to_mapping(await fleet.export(tx))
    assert exported == {"nodes": {"n": {"max_replicas_per_model": 3, "vram_budget": "80%"}}}
    again = from_mapping(yaml.safe_load(yaml.safe_dump(exported)))
    assert set(actions(await fleet.apply(database, again, "test")).values()) == {"same"}
    await set_slots(database, "n", None, "test")
    await set_budget(database, "n", "", "test")
    assert actions(await fleet.apply(database, again, "test")) == {
        "replica slots n": "change",
        "VRAM budget n": "change",
    }
    async with database.transaction() as tx:
        node = await node_store.get_node(tx, node_id)
    assert (node.slots_override, node.budget_override) == (3, "80%")
    assert {label.key: label.value for label in node.labels}["node.replica-slots"] == "3"


async def test_limit_that_a_file_brought_and_lacks_now_goes_back_to_the_worker(database: Database):
    node_id = await a_node(database)
    await fleet.apply(database, from_mapping({"nodes": {"n": {"max_replicas_per_model": 2}}}), "test")
    await set_budget(database, "n", "50%", "by hand")
    assert actions(await fleet.apply(database, FleetFile(), "test", prunes=True)) == {"replica slots n": "remove"}
    async with database.transaction() as tx:
        node = await node_store.get_node(tx, node_id)
    assert (node.slots_override, node.budget_override) == (None, "50%")


@pytest.mark.behaviour("MOD-15")
async def test_limits_alone_leave_the_labels_of_a_node(database: Database):
    node_id = await a_node(database)
    await fleet.apply(database, from_mapping({"nodes": {"n": {"labels": {"zone": "b"}}}}), "test")
    await fleet.apply(database, from_mapping({"nodes": {"n": {"vram_budget": ""}}}), "test")
    async with database.transaction() as tx:
        node = await node_store.get_node(tx, node_id)
    assert node.budget_override == ""
    assert [label.value for label in node.labels if label.source is LabelSource.ADMIN] == ["b"]


async def test_aliases_change_hands_within_one_file(database: Database):
    await made(database, "a", aliases=["x"])
    await made(database, "b", aliases=["y"])
    swapped = [{"name": "a", "backend": "fake", "aliases": ["y"]}, {"name": "b", "backend": "fake", "aliases": ["x"]}]
    await fleet.apply(database, from_mapping({"models": swapped}), "test")
    found = await read(database, "x")
    assert found is not None
    assert found.name == "b"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ({"modells": []}, "'modells' is not a setting"),
        ({"models": [{"name": "a", "backend": "b"}, {"name": "a", "backend": "b"}]}, "'a' twice"),
        ({"models": [{"name": "a", "backend": "b", "aliases": ["c"]}, {"name": "c", "backend": "b"}]}, "'c' twice"),
        ({"rules": [{"model": "a"}, {"model": "a"}]}, "'a' twice"),
        ({"nodes": {"n": {"labels": {"a": 1}}}}, "put it in quotes"),
        ({"nodes": {"n": {"label": {}}}}, "'label' is not a setting"),
        ({"nodes": {"n": {"max_replicas_per_model": 0}}}, "is not a whole number from 1 to 1024"),
        ({"nodes": {"n": {"vram_budget": "much"}}}, "vram_budget: "),
        ({"nodes": {"n": {"vram_budget": 0.8}}}, "put it in quotes"),
        ({"galleries": {"models": [{"name": "corral", "url": "https://a.example"}]}}, "not a name for a gallery"),
        ({"galleries": {"models": [{"name": "x", "url": "https://u:p@a.example"}]}}, "holds a secret"),
        ({"galleries": {"models": [{"name": "x", "url": "/a"}]}}, "begins with http"),
        ("text", "is not a mapping"),
    ],
)
def test_file_that_is_wrong_says_where(source: Any, sentence: str):
    with pytest.raises(InvalidRequest) as caught:
        from_mapping(source)
    assert sentence in caught.value.message


def test_models_may_be_written_by_name():
    assert file("models: {a: {backend: x}}") == file("models: [{name: a, backend: x}]")
    assert from_mapping(None) == FleetFile()


async def test_gallery_of_a_fleet_file_is_announced_to_every_frontend(database: Database):
    await fleet.apply(database, file("galleries: {backends: [{name: o, url: 'https://a.example/i'}]}"), "test")
    assert await list_event_data(database, "gallery.changed") == [("o", {"name": "o", "kind": "backends"})]


def test_errors_of_a_file_are_errors_of_ours():
    with pytest.raises(CorralError):
        file("models: [{name: a}]")
