"""What a frontend keeps in memory, and how it follows the registry."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import delete, text

from corral.domain.errors import NotAllowed, StoreUnavailable
from corral.domain.replica import ReplicaState
from corral.gateway.errors import ModelNotFound
from corral.gateway.routing.replica_pool import ReplicaPools
from corral.gateway.routing.routing_snapshot import RoutingSnapshot
from corral.store import outbox
from corral.store.database import Database
from corral.store.model_schema import models
from corral.store.schema import replicas
from tests.engines.engine_processes import KEY
from tests.serving.scene import put_model, put_replica, settled
from tests.support.frontends import RunningFrontend
from tests.support.nodes import join_node
from tests.support.rules import put_rule
from tests.support.statements import count_statements


def _open(frontend: RunningFrontend, name: str = "chat") -> list[str]:
    snapshot = frontend.core.router.snapshot
    model = snapshot.find(name)
    return sorted(replica.address for replica in snapshot.list_open_replicas(model)) if model else []


async def test_model_is_found_by_every_name_and_gone_with_all_of_them(frontend: RunningFrontend) -> None:
    await put_model(frontend.database, "chat", aliases=("gpt-4", "talk/er"))
    await settled(frontend)
    snapshot = frontend.core.router.snapshot
    for name in ("chat", "gpt-4", "talk/er"):
        found = snapshot.find(name)
        assert found is not None
        assert found.name == "chat"
    await put_model(frontend.database, "chat", aliases=("other",))
    await settled(frontend)
    assert snapshot.find("gpt-4") is None
    assert snapshot.find("other") is not None
    async with frontend.database.transaction() as tx:
        await tx.execute(delete(models))
        await outbox.append(tx, "model.changed", "chat", {"deleted": True})
    await settled(frontend)
    assert snapshot.find("chat") is None
    assert snapshot.find("other") is None
    assert snapshot.list_models() == []


@pytest.mark.behaviour("NODE-63", "OPS-103")
async def test_replica_of_another_revision_is_never_given_out(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    await put_model(frontend.database, run_hash="a" * 64)
    await put_replica(frontend.database, node.id, "127.0.0.1:1", revision="a" * 64)
    await put_replica(frontend.database, node.id, "127.0.0.1:2", index=1, revision="b" * 64)
    await settled(frontend)
    assert _open(frontend) == ["127.0.0.1:1"]
    await put_model(frontend.database, run_hash="b" * 64)
    await settled(frontend)
    assert _open(frontend) == ["127.0.0.1:2"]


async def test_snapshot_routes_to_loaded_replicas_only_and_follows_each_change(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    await put_model(frontend.database)
    for state in (ReplicaState.STAGING, ReplicaState.LOADING, ReplicaState.LOADED, ReplicaState.UNLOADING):
        await put_replica(frontend.database, node.id, "127.0.0.1:1", state=state)
        await settled(frontend)
        assert bool(_open(frontend)) == (state is ReplicaState.LOADED), state
    async with frontend.database.transaction() as tx:
        await tx.execute(delete(replicas))
        await outbox.append(tx, "replica.removed", "chat", {})
    await settled(frontend)
    assert not frontend.core.router.snapshot.has_replicas


async def test_node_that_is_not_open_answers_nothing(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    await put_model(frontend.database)
    await put_replica(frontend.database, node.id, "127.0.0.1:1")
    await settled(frontend)
    assert _open(frontend) == ["127.0.0.1:1"]
    # Rows go with a drain; even if one did not, it would not be used.
    async with frontend.database.transaction() as tx:
        await tx.execute(text("UPDATE nodes SET drained_at = corral_now(), drained_by = 'test'"))
        await outbox.append(tx, "node.drained", node.id, {})
    await settled(frontend)
    assert _open(frontend) == []


@pytest.mark.behaviour("NODE-62")
async def test_replicas_outside_the_selector_are_invisible_whatever_changes(frontend: RunningFrontend) -> None:
    inside, outside = await join_node(frontend, "inside", labels={"zone": "a"}), await join_node(frontend, "outside")
    await put_model(frontend.database)
    await put_replica(frontend.database, inside.id, "127.0.0.1:1")
    await put_replica(frontend.database, outside.id, "127.0.0.1:2")
    await settled(frontend)
    assert _open(frontend) == ["127.0.0.1:1", "127.0.0.1:2"]
    async with frontend.database.transaction() as tx:
        await put_rule(tx, "chat", {"zone": "a"})
    await settled(frontend)
    assert _open(frontend) == ["127.0.0.1:1"]
    status, _ = await outside.call_as_admin("PUT", "/labels", {"zone": "a"})
    assert status == 200
    await settled(frontend)
    assert _open(frontend) == ["127.0.0.1:1", "127.0.0.1:2"]


async def test_model_whose_event_is_on_its_way_is_found_in_the_registry(
    frontend: RunningFrontend, database: Database
) -> None:
    router = frontend.core.router
    await frontend.core.loops["feed"].stop()
    await put_model(database, "new", aliases=("newer",))
    assert (await router.resolve("newer")).name == "new"


async def test_guessing_names_is_no_load_on_the_registry(frontend: RunningFrontend) -> None:
    router = frontend.core.router
    await put_model(frontend.database, "smollm2-135m")
    await settled(frontend)
    statements: list[str] = []
    count_statements(frontend.database, statements.append)
    for _ in range(20):
        with pytest.raises(ModelNotFound) as caught:
            await router.resolve("smollm2-136m")
    assert "smollm2-135m" in (caught.value.hint or "")
    assert len([statement for statement in statements if "model_names" in statement]) <= 4
    for impossible in ("\x00", "x" * 300, ""):
        with pytest.raises(ModelNotFound):
            await router.resolve(impossible)


async def test_disabled_model_is_refused_with_what_to_do(frontend: RunningFrontend) -> None:
    await put_model(frontend.database, enabled=False)
    await settled(frontend)
    with pytest.raises(NotAllowed) as caught:
        await frontend.core.router.resolve("chat")
    assert caught.value.hint == "corral models enable chat"


async def test_snapshot_keeps_its_last_state_while_postgresql_is_down(
    frontend: RunningFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await join_node(frontend)
    await put_model(frontend.database)
    await put_replica(frontend.database, node.id, "127.0.0.1:1")
    await settled(frontend)

    def away() -> None:
        raise StoreUnavailable

    monkeypatch.setattr(frontend.database, "transaction", away)
    router = frontend.core.router
    held = router.check_out(await router.resolve("chat"))
    assert held is not None
    held.release()


async def test_saved_snapshot_serves_another_process_without_the_registry(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, labels={"zone": "a"})
    await put_model(
        frontend.database, aliases=("gpt-4",), serves=["chat"], defaults={"temperature": 0.5}, options={"parallel": "3"}
    )
    await put_replica(frontend.database, node.id, "127.0.0.1:1")
    async with frontend.database.transaction() as tx:
        await put_rule(tx, "chat", {"zone": "a"})
    await settled(frontend)
    snapshot = frontend.core.router.snapshot
    kept = json.loads(json.dumps(snapshot.to_saved_state()))

    other = RoutingSnapshot(frontend.database, ReplicaPools(frontend.core.api_deps.clock, lambda: 0.0))
    statements: list[str] = []
    count_statements(frontend.database, statements.append)
    other.from_saved_state(kept)
    model = other.find("gpt-4")
    assert model == snapshot.find("gpt-4")
    assert model is not None
    assert (model.parallel, model.selector, model.defaults) == (3, {"zone": "a"}, {"temperature": 0.5})
    assert other.list_open_replicas(model) == snapshot.list_open_replicas(model)
    bench = other.find_pool(model)
    assert bench is not None
    held = bench.check_out()
    assert held is not None
    assert (held.replica.engine_key, held.node_name, bench.capacity) == (KEY, node.name, 3)
    assert other.to_saved_state() == kept
    assert statements == []


@pytest.mark.parametrize("kept", [{}, {"places": 1}, {"places": [], "models": [{}], "replicas": []}])
async def test_irrelevant_event_does_not_reload_the_snapshot(frontend: RunningFrontend, kept: dict[str, Any]) -> None:
    await put_model(frontend.database)
    await settled(frontend)
    snapshot = frontend.core.router.snapshot
    with pytest.raises((LookupError, TypeError, ValueError)):
        snapshot.from_saved_state(kept)
    assert snapshot.find("chat") is not None
