"""Models in the registry: revisions, names, what an edit does to replicas, and who wins when two edit at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import text

from corral.domain.errors import Conflict, CorralError, InvalidRequest, NotFound
from corral.domain.model import ModelFacts, StoredFile
from corral.domain.replica import ReplicaState
from corral.models import catalog
from corral.store import models as store
from corral.store import rules as rule_store
from corral.store.database import Database
from tests.models.scene import (
    SHA,
    a_blob,
    a_node,
    a_replica,
    config,
    list_event_data,
    list_pending_removals,
    made,
    read,
    staged_on,
    states,
)
from tests.support.rules import put_rule


async def patch(database: Database, name: str, change: dict[str, Any], **more: Any) -> catalog.ModelSaveResult:
    async with database.transaction() as tx:
        return await catalog.patch(tx, name, change, "test", **more)


@pytest.mark.behaviour("MOD-6")
async def test_every_edit_is_a_revision_and_an_edit_that_says_nothing_new_is_none(database: Database):
    first = await made(database, aliases=["c"])
    assert (first.revision, first.files) == (1, ())
    saved = await patch(database, "c", {"options": {"slots": 2}}, note="more")
    assert (saved.model.revision, saved.lines) == (2, ("+ options.slots: 2",))
    same = await patch(database, "chat", {"options": {"slots": "2"}})
    assert (same.model.revision, same.lines) == (2, ())
    async with database.transaction() as tx:
        revisions = await store.list_revisions(tx, "chat")
    assert [(one.number, one.note, one.created_by) for one in revisions] == [(2, "more", "test"), (1, "", "test")]
    assert [(key, data["revision"]) for key, data in await list_event_data(database, "model.changed")] == [
        ("chat", 1),
        ("chat", 2),
    ]
    async with database.transaction() as tx:
        rows = await tx.execute(text("SELECT action, target FROM audit ORDER BY id"))
        assert [(row.action, row.target) for row in rows] == [("model.create", "chat"), ("model.change", "chat")]


@pytest.mark.behaviour("MOD-6")
async def test_going_back_is_a_new_revision_with_the_old_content(database: Database):
    first = await made(database, options={"slots": 1})
    await patch(database, "chat", {"options": {"slots": 2}})
    async with database.transaction() as tx:
        saved = await catalog.roll_back(tx, "chat", 1, "test")
    assert (saved.model.revision, saved.model.run_hash) == (3, first.run_hash)
    assert saved.model.config == first.config
    async with database.transaction() as tx:
        assert (await store.list_revisions(tx, "chat"))[0].note == "back to revision 1"
        with pytest.raises(NotFound, match="no revision 9"):
            await catalog.roll_back(tx, "chat", 9, "test")


@pytest.mark.behaviour("MOD-7")
async def test_name_leads_to_one_model(database: Database):
    await made(database, "one", aliases=["first"])
    for name, aliases in (("one", []), ("first", []), ("two", ["one"]), ("two", ["first"])):
        with pytest.raises(Conflict) as caught:
            await made(database, name, aliases=aliases)
        assert caught.value.slug == "model_name_taken"
    assert await read(database, "two") is None
    await made(database, "two")
    with pytest.raises(Conflict):
        await patch(database, "two", {"aliases": ["first"]})
    await patch(database, "one", {"aliases": None})
    await patch(database, "two", {"aliases": ["first"]})
    found = await read(database, "first")
    assert found is not None
    assert found.name == "two"
    with pytest.raises(NotFound) as missing:
        await patch(database, "twoo", {})
    assert missing.value.hint == "Did you mean two?"


@pytest.mark.behaviour("OPS-103")
async def test_edit_that_an_engine_notices_makes_old_replicas_unroutable_in_the_same_transaction(
    database: Database,
):
    model = await made(database)
    node = await a_node(database)
    for index, state in enumerate((ReplicaState.STAGING, ReplicaState.LOADING, ReplicaState.LOADED)):
        await a_replica(database, node, model, index, state)
    await patch(database, "chat", {"description": "x", "aliases": ["y"], "defaults": {"temperature": 1}})
    assert {state for state, _ in (await states(database)).values()} == {"staging", "loading", "loaded"}
    saved = await patch(database, "chat", {"options": {"slots": 2}})
    assert saved.stopped == 3
    assert set((await states(database)).values()) == {("unloading", "the model was changed")}
    changed = await list_event_data(database, "replica.changed")
    assert [(key, data["state"], data["index"]) for key, data in changed] == [
        ("chat", "unloading", i) for i in range(3)
    ]


@pytest.mark.behaviour("MOD-8")
async def test_disabling_ends_what_runs_and_pinning_does_not(database: Database):
    model = await made(database)
    await a_replica(database, await a_node(database), model)
    async with database.transaction() as tx:
        assert (await catalog.set_pinned(tx, "chat", "test", pinned=True)).stopped == 0
        assert (await catalog.set_enabled(tx, "chat", "test", enabled=False)).stopped == 1
    assert await states(database) == {0: ("unloading", "the model was disabled")}
    found = await read(database)
    assert found is not None
    assert (found.config.is_enabled, found.config.is_pinned, found.run_hash) == (False, True, model.run_hash)


@pytest.mark.behaviour("MOD-9")
async def test_second_edit_of_the_same_revision_is_refused(database: Database):
    await made(database)

    async def edit(slots: int) -> int | str:
        try:
            return (await patch(database, "chat", {"options": {"slots": slots}}, expects=1)).model.revision
        except Conflict as error:
            return f"{error.slug}: {error.details['revision']} is there"

    outcomes = await asyncio.gather(*(edit(number) for number in range(1, 6)))
    assert sorted(map(str, outcomes)) == ["2", *["revision_conflict: 2 is there"] * 4]


@pytest.mark.behaviour("MOD-9")
async def test_edits_at_the_same_moment_come_one_after_the_other_and_none_is_lost(database: Database):
    await made(database)
    await asyncio.gather(*(patch(database, "chat", {"options": {f"o{number}": "1"}}) for number in range(8)))
    found = await read(database)
    assert found is not None
    assert (found.revision, len(found.config.options)) == (9, 8)


@pytest.mark.behaviour("MOD-9")
async def test_concurrent_creation_of_one_model_succeeds_once(database: Database):
    async def make() -> str:
        try:
            await made(database)
        except CorralError as error:
            return error.slug
        return "made"

    assert sorted(await asyncio.gather(*(make() for _ in range(5)))) == ["made", *["model_name_taken"] * 4]


async def rename(database: Database, **names: str) -> list[catalog.ModelSaveResult]:
    async with database.transaction() as tx:
        return await catalog.rename(tx, names, "test")


@pytest.mark.behaviour("NODE-88")
async def test_rename_whose_second_part_fails_changes_neither(database: Database):
    before = [await made(database, name) for name in ("a", "b", "taken")]
    for names in ({"a": "c", "b": "taken"}, {"a": "c", "b": "c"}, {"a": "c", "zz": "d"}, {"a": "c", "b": " "}):
        with pytest.raises((Conflict, NotFound, InvalidRequest)):
            await rename(database, **names)
    assert [await read(database, name) for name in ("a", "b", "taken")] == before
    assert await read(database, "c") is None


async def test_rename_takes_everything_along_and_ends_what_ran_under_the_old_name(database: Database):
    await a_blob(database)
    old = await made(database, "a", files=[{"path": "m", "uri": "/m"}], aliases=["b"])
    async with database.transaction() as tx:
        stored = (StoredFile(path="m", sha256=SHA, size_bytes=7),)
        old = await store.put_contents(tx, "a", stored, ModelFacts(format="gguf"))
        await put_rule(tx, "a", {"zone": "b"}, least=1)
    node = await a_node(database)
    await a_replica(database, node, old)
    await staged_on(database, node, "a")
    (saved,) = await rename(database, a="b")
    new = await read(database, "b")
    assert new == saved.model
    assert new is not None
    assert (new.revision, new.run_hash, new.files, new.facts) == (2, old.run_hash, old.files, old.facts)
    assert new.config.aliases == ()
    assert await read(database, "a") is None
    assert await states(database, "a") == {0: ("unloading", "the model was renamed to b")}
    assert await list_pending_removals(database) == [(node, "a")]
    async with database.transaction() as tx:
        assert [one.number for one in await store.list_revisions(tx, "b")] == [2, 1]
        assert [rule.model for rule in await rule_store.list_rules(tx)] == ["b"]
        assert (await catalog.roll_back(tx, "b", 1, "test")).model.name == "b"
    deleted = {(key, data["deleted"]) for key, data in await list_event_data(database, "model.changed")}
    assert {("a", True), ("b", False)} <= deleted


async def test_two_models_can_swap_their_names(database: Database):
    await made(database, "a", description="first")
    await made(database, "b", description="second")
    await rename(database, a="b", b="a")
    found = [await read(database, name) for name in ("a", "b")]
    assert [one.config.description for one in found if one] == ["second", "first"]


async def test_deleted_model_stops_its_replicas_and_leaves_pending_removals(database: Database):
    model = await made(database, files=[{"path": "m", "uri": "/m"}])
    one, other = await a_node(database, "one"), await a_node(database, "other")
    await a_replica(database, one, model)
    for node in (one, other):
        await staged_on(database, node, "chat")
    async with database.transaction() as tx:
        assert (await catalog.delete_model(tx, "chat", "test", expects=1)).stopped == 1
    assert await read(database) is None
    assert await states(database) == {0: ("unloading", "the model was deleted")}
    assert sorted(await list_pending_removals(database)) == sorted([(one, "chat"), (other, "chat")])
    assert (await list_event_data(database, "model.changed"))[-1][1]["deleted"] is True
    await made(database)
    assert await list_pending_removals(database) == []


async def test_files_stay_with_a_model_until_their_sources_change(database: Database):
    await a_blob(database)
    await made(database, files=[{"path": "m", "uri": "/m"}])
    stored = (StoredFile(path="m", sha256=SHA, size_bytes=7),)
    async with database.transaction() as tx:
        model = await store.put_contents(tx, "chat", stored, ModelFacts(layers=3))
    assert (model.files, model.payload_bytes, model.facts) == (stored, 7, ModelFacts(layers=3))
    kept = (await patch(database, "chat", {"options": {"slots": 1}})).model
    assert (kept.files, kept.facts) == (stored, ModelFacts(layers=3))
    moved = (await patch(database, "chat", {"files": [{"path": "m", "uri": "/other"}]})).model
    assert (moved.files, moved.facts) == (None, None)


async def test_put_makes_or_changes_and_tells_which(database: Database):
    async def put(expects: int | None, **changes: Any) -> catalog.ModelSaveResult:
        async with database.transaction() as tx:
            return await catalog.put(tx, config(**changes), "test", expects=expects)

    with pytest.raises(NotFound):
        await put(3)
    assert (await put(0)).is_new
    assert not (await put(1, threads=2)).is_new
    with pytest.raises(Conflict):
        await put(0)
    with pytest.raises(Conflict):
        await put(1, threads=3)
