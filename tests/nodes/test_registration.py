"""How a machine gets into the registry and comes back, and what it cannot change by that."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from tests.nodes.registry import bus_key, events, load, loaded, put_aside, removals, stored
from tests.support.databases import fresh_database
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import GIB, PretendNode, create_join_token, join_node


@pytest.mark.behaviour("NODE-1")
@pytest.mark.behaviour("OPS-58")
@pytest.mark.parametrize("node_type", ["backend", "agent"])
async def test_new_node_waits_for_approval_without_any_credential(frontend: RunningFrontend, node_type: str) -> None:
    node = PretendNode(frontend, "new")
    status, answer = await node.register(
        await create_join_token(frontend), node_type=node_type, bus_public_key=bus_key()
    )
    assert (status, answer["status"], answer["approved"]) == (201, "pending", False)
    assert (answer["nats_jwt"], answer["nats_url"], answer["api_token"]) == (None, None, None)
    shown = await node.read_as_admin()
    assert (shown["status"], shown["schedulable"]) == ("pending", False)


@pytest.mark.behaviour("OPS-58")
@pytest.mark.parametrize("verb", ["probe", "stop"])
async def test_pending_node_gets_no_commands(frontend: RunningFrontend, verb: str) -> None:
    node = await join_node(frontend, approved=False)
    status, answer = await node.call_as_admin("POST", f"/{verb}")
    assert (status, answer["error"]["code"]) == (409, "node_pending")
    status, answer = await node.call("POST", "/credentials", {"bus_public_key": bus_key()})
    assert (status, answer["error"]["code"]) == (409, "node_pending")


@pytest.mark.behaviour("NODE-2")
async def test_frontend_that_approves_all_makes_a_new_node_healthy(postgres: str) -> None:
    async with fresh_database(postgres) as url, running_frontend(url, approves_all=True) as frontend:
        node = PretendNode(frontend, "new")
        status, answer = await node.register(await create_join_token(frontend), bus_public_key=bus_key())
        assert (status, answer["status"], answer["approved"]) == (201, "healthy", True)
        assert answer["nats_jwt"]
        assert answer["nats_url"]


@pytest.mark.behaviour("NODE-2")
async def test_join_token_that_approves_makes_a_new_node_healthy(frontend: RunningFrontend) -> None:
    node = PretendNode(frontend, "new")
    status, answer = await node.register(await create_join_token(frontend, approves=True))
    assert (status, answer["status"]) == (201, "healthy")
    assert (await stored(node)).approved_by == "join token test"


@pytest.mark.behaviour("NODE-3")
@pytest.mark.behaviour("OPS-59")
@pytest.mark.parametrize("has_new_boot", [True, False])
async def test_pending_node_stays_pending_however_often_it_registers(
    frontend: RunningFrontend, has_new_boot: bool
) -> None:
    node = await join_node(frontend, approved=False)
    if has_new_boot:
        node.reboot()
    approving = await create_join_token(frontend, approves=True)
    for token in (None, approving):
        status, answer = await node.register(token)
        assert (status, answer["status"], answer["approved"]) == (201, "pending", False)
    assert (await node.read_as_admin())["status"] == "pending"


@pytest.mark.behaviour("NODE-4")
async def test_approved_node_comes_back_healthy_under_the_same_id_without_a_token(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    before = node.id
    node.reboot()
    status, answer = await node.register(None)
    assert (status, answer["id"], answer["status"]) == (201, before, "healthy")


@pytest.mark.behaviour("NODE-5")
@pytest.mark.behaviour("OPS-61")
async def test_restarted_worker_loses_its_replicas_with_one_event_per_model(frontend: RunningFrontend) -> None:
    node, other = await join_node(frontend), await join_node(frontend, "other")
    await load(node, "a", "a", "b")
    await load(other, "a")
    node.reboot()
    assert (await node.register(None))[0] == 201
    assert await loaded(node) == []
    assert await removals(node) == [("a", 2), ("b", 1)]
    assert await loaded(other) == ["a"]
    assert (await node.register(None))[0] == 201
    assert await removals(node) == [("a", 2), ("b", 1)], "saying it again fires nothing again"


@pytest.mark.behaviour("NODE-5b")
async def test_replicas_whose_engines_outlived_the_worker_keep_their_rows_without_a_gap(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend)
    await load(node, "a", "a", "b")
    node.reboot()
    survivors = [
        {"model": "a", "replica": 0, "address": "", "revision": ""},
        # At another address, and as another revision: these rows are not about what runs.
        {"model": "a", "replica": 1, "address": "10.0.0.9:1", "revision": ""},
        {"model": "b", "replica": 0, "address": "", "revision": "another"},
    ]
    assert (await node.register(None, running=survivors))[0] == 201
    assert await loaded(node) == ["a"]
    assert await removals(node) == [("a", 1), ("b", 1)]


@pytest.mark.behaviour("NODE-5b")
async def test_restarted_worker_that_has_not_finished_looking_keeps_its_replicas(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    await load(node, "a", "b")
    node.reboot()
    assert (await node.register(None, is_running_known=False))[0] == 201
    assert await loaded(node) == ["a", "b"]
    assert await removals(node) == []


@pytest.mark.behaviour("OPS-61")
async def test_registering_again_with_the_same_boot_keeps_the_replicas(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    await load(node, "a", "b")
    assert (await node.register(None))[0] == 201
    assert await loaded(node) == ["a", "b"]
    assert await removals(node) == []


@pytest.mark.behaviour("WRK-20")
async def test_heartbeat_answer_states_the_removal_of_a_removed_node_but_not_of_an_unknown_one(
    frontend: RunningFrontend,
) -> None:
    node, forgotten = await join_node(frontend), await join_node(frontend, "forgotten")
    status, answer = await frontend.call("DELETE", f"/api/nodes/{node.id}")
    assert status in (200, 204), answer
    await frontend.core.feed.tick()
    for _ in range(2):
        status, answer = await node.heartbeat()
        assert (status, answer["error"]["code"]) == (404, "node_not_found")
        assert answer["error"]["details"] == {"is_removed": True}
    # As in a database that was put back from before the node joined.
    async with frontend.database.transaction() as tx:
        await tx.execute(text("DELETE FROM nodes WHERE name = 'forgotten'"))
    await frontend.core.directory.load()
    status, answer = await forgotten.heartbeat()
    assert (status, answer["error"]["details"]) == (404, {})


@pytest.mark.behaviour("NODE-8")
@pytest.mark.parametrize(
    ("token", "code"), [(None, "join_token_missing"), ("cj_wrong", "join_token_unknown"), ("", "join_token_missing")]
)
async def test_missing_or_wrong_token_is_401_and_leaves_nothing(
    frontend: RunningFrontend, token: str | None, code: str
) -> None:
    status, answer = await PretendNode(frontend, "stranger").register(token)
    assert (status, answer["error"]["code"]) == (401, code)
    assert answer["error"]["hint"]
    assert (await frontend.call("GET", "/api/nodes"))[1] == []


@pytest.mark.behaviour("NODE-8")
async def test_revoked_a_spent_and_an_expired_token_are_refused(frontend: RunningFrontend) -> None:
    once = await create_join_token(frontend, max_uses=1)
    assert (await PretendNode(frontend, "first").register(once))[0] == 201
    status, answer = await PretendNode(frontend, "second").register(once)
    assert (status, answer["error"]["code"]) == (401, "join_token_used_up")
    _, made = await frontend.call("POST", "/api/tokens", {"name": "gone"})
    await frontend.call("DELETE", f"/api/tokens/{made['id']}")
    status, answer = await PretendNode(frontend, "third").register(made["token"])
    assert (status, answer["error"]["code"]) == (401, "join_token_revoked")
    old = await create_join_token(frontend, expires_in_s=60)
    async with frontend.database.transaction() as tx:
        await tx.execute(
            text("UPDATE join_tokens SET expires_at = corral_now() - interval '1 s' WHERE expires_at IS NOT NULL")
        )
    status, answer = await PretendNode(frontend, "fourth").register(old)
    assert (status, answer["error"]["code"]) == (401, "join_token_expired")


@pytest.mark.behaviour("NODE-9")
async def test_backend_node_needs_an_address_and_an_agent_does_not(frontend: RunningFrontend) -> None:
    token = await create_join_token(frontend)
    assert (await PretendNode(frontend, "engine").register(token, address=""))[0] == 400
    assert (await PretendNode(frontend, "agent").register(token, node_type="agent", address=""))[0] == 201
    assert (await PretendNode(frontend, "odd").register(token, node_type="teapot"))[0] == 400
    assert (await PretendNode(frontend, "").register(token))[0] == 400
    assert (await PretendNode(frontend, "n" * 256).register(token))[0] == 400


@pytest.mark.behaviour("NODE-9")
async def test_node_keeps_its_type_and_a_backend_its_need_of_an_address(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    status, answer = await node.register(None, node_type="agent", address="")
    assert (status, answer["error"]["code"]) == (409, "node_type_changed")
    shown = await node.read_as_admin()
    assert (shown["node_type"], shown["address"]) == ("backend", "127.0.0.1:50051")


@pytest.mark.behaviour("NODE-9")
@pytest.mark.parametrize(
    "body",
    [
        {"boot_id": "boot-id-\x00"},
        {"bus_public_key": "\x00"},
        {"gpus": [{"vendor": "nvidia", "name": "\x00"}]},
        {"gpus": [{"vendor": "nvidia", "uuid": "\x00"}]},
        {"name": "a\nb"},
        {"labels": {"zone": "\x00"}},
        {"total_vram": -1},
        {"total_vram": 2**63},
        {"vram_budget": "150%"},
    ],
)
async def test_registration_with_values_that_cannot_be_stored_is_refused_with_400(
    frontend: RunningFrontend, body: dict[str, object]
) -> None:
    status, answer = await PretendNode(frontend, "odd").register(await create_join_token(frontend), **body)
    assert status == 400, answer
    assert (await frontend.call("GET", "/api/nodes"))[1] == []


@pytest.mark.behaviour("NODE-10")
@pytest.mark.behaviour("OPS-62")
async def test_slot_count_set_by_the_admin_survives_and_is_sent_to_the_worker(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    assert (await node.call_as_admin("PUT", "/max-replicas-per-model", {"value": 4}))[0] == 200
    node.reboot()
    _, answer = await node.register(None, max_replicas_per_model=1)
    assert answer["max_replicas_per_model"] == 4
    shown = await node.read_as_admin()
    assert (shown["max_replicas_per_model"], shown["max_replicas_per_model_manually_set"]) == (4, True)
    assert shown["labels"]["node.replica-slots"] == "4"


@pytest.mark.parametrize(("sent", "kept"), [({"max_runs": 4}, 4), ({"max_runs": 0}, 0), ({}, None)])
async def test_number_of_runs_is_the_one_of_the_last_registration(
    frontend: RunningFrontend, sent: dict[str, int], kept: int | None
) -> None:
    node = PretendNode(frontend, "new")
    await node.register(await create_join_token(frontend, approves=True), node_type="agent", max_runs=9)
    assert ((await stored(node)).max_runs, (await node.read_as_admin())["max_runs"]) == (9, 9)
    node.reboot()
    assert (await node.register(None, node_type="agent", **sent))[0] == 201
    assert ((await stored(node)).max_runs, (await node.read_as_admin())["max_runs"]) == (kept, kept)


@pytest.mark.behaviour("NODE-11")
@pytest.mark.behaviour("OPS-62")
async def test_reset_of_slots_restores_the_workers_number(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    await node.call_as_admin("PUT", "/max-replicas-per-model", {"value": 4})
    assert (await node.call_as_admin("DELETE", "/max-replicas-per-model"))[1] == {
        "max_replicas_per_model": 1,
        "reset": True,
    }
    _, answer = await node.register(None, max_replicas_per_model=2)
    assert answer["max_replicas_per_model"] == 2
    assert (await node.read_as_admin())["labels"]["node.replica-slots"] == "2"
    _, answer = await node.register(None, max_replicas_per_model=0)
    assert answer["max_replicas_per_model"] == 1, "below one is one"


@pytest.mark.behaviour("NODE-12")
@pytest.mark.behaviour("OPS-64")
async def test_labels_of_admins_survive_and_those_of_worker_and_machine_are_refreshed(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend, labels={"rack": "1", "old": "x"}, total_vram=25 * GIB, gpu_vendor="nvidia")
    assert (await node.call_as_admin("PATCH", "/labels", {"zone": "b"}))[0] == 200
    node.reboot()
    await node.register(None, labels={"rack": "2"}, total_vram=49 * GIB, gpu_vendor="nvidia")
    await node.call_as_admin("POST", "/approve-labels")
    labels = (await node.read_as_admin())["labels"]
    assert labels == {
        "zone": "b",
        "rack": "2",
        "gpu.vendor": "nvidia",
        "gpu.vram": "48GB",
        "node.name": "node-1",
        "node.replica-slots": "1",
    }


@pytest.mark.behaviour("NODE-12")
async def test_admins_value_wins_over_the_workers_for_the_same_key(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, labels={"zone": "worker"})
    await node.call_as_admin("PATCH", "/labels", {"zone": "admin"})
    await node.register(None, labels={"zone": "worker"})
    shown = await node.read_as_admin()
    assert (shown["labels"]["zone"], shown["label_sources"]["zone"]) == ("admin", "admin")
    assert (await node.call_as_admin("DELETE", "/labels/zone"))[0] == 204
    assert (await node.read_as_admin())["labels"]["zone"] == "worker"


@pytest.mark.behaviour("NODE-13")
@pytest.mark.behaviour("OPS-63")
async def test_full_disk_is_stored_as_zero_and_a_missing_reading_as_unknown(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, total_disk=100, available_disk=50)
    await node.register(None, total_disk=100, available_disk=0)
    assert (await node.read_as_admin())["available_disk"] == 0
    await node.register(None)
    shown = await node.read_as_admin()
    assert (shown["total_disk"], shown["available_disk"]) == (None, None)


@pytest.mark.behaviour("NODE-14")
@pytest.mark.behaviour("OPS-63")
async def test_worker_that_sends_no_budget_any_more_has_none(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, total_vram=10 * GIB, available_vram=10 * GIB, vram_budget="50%")
    shown = await node.read_as_admin()
    assert (shown["vram_budget_bytes"], shown["available_vram"]) == (5 * GIB, 5 * GIB)
    await node.register(None, total_vram=10 * GIB, available_vram=10 * GIB)
    shown = await node.read_as_admin()
    assert (shown["vram_budget"], shown["vram_budget_bytes"], shown["available_vram"]) == ("", None, 10 * GIB)


@pytest.mark.behaviour("NODE-14")
@pytest.mark.behaviour("OPS-62")
async def test_admins_budget_survives_and_a_reset_gives_control_back(frontend: RunningFrontend) -> None:
    sent: dict[str, Any] = {"total_vram": 10 * GIB, "available_vram": 10 * GIB}
    node = await join_node(frontend, **sent)
    assert (await node.call_as_admin("PUT", "/vram-budget", {"value": "80%"}))[1]["vram_budget_bytes"] == 8 * GIB
    node.reboot()
    await node.register(None, **sent, vram_budget="20%")
    shown = await node.read_as_admin()
    assert (shown["vram_budget"], shown["vram_budget_manually_set"], shown["available_vram"]) == ("80%", True, 8 * GIB)
    assert (await node.call_as_admin("DELETE", "/vram-budget"))[1]["vram_budget"] == "20%"
    assert (await node.call_as_admin("PUT", "/vram-budget", {"value": "150%"}))[0] == 400


@pytest.mark.behaviour("OPS-69")
async def test_second_machine_with_a_known_name_is_refused_even_with_a_token(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    thief = PretendNode(frontend, node.name)
    before = await node.read_as_admin()
    status, answer = await thief.register(await create_join_token(frontend, approves=True), address="10.0.0.9:1")
    assert (status, answer["error"]["code"]) == (409, "name_taken")
    assert answer["error"]["hint"]
    status, answer = await thief.register(None)
    assert status == 401
    after = await node.read_as_admin()
    assert (after["id"], after["address"], after["boot_id"]) == (before["id"], before["address"], before["boot_id"])
    thief.id = node.id
    status, answer = await thief.heartbeat()
    assert (status, answer["error"]["code"]) == (401, "node_credential_wrong")


@pytest.mark.behaviour("OPS-69")
async def test_refused_name_does_not_use_up_the_token(frontend: RunningFrontend) -> None:
    await join_node(frontend, "taken")
    once = await create_join_token(frontend, max_uses=1)
    assert (await PretendNode(frontend, "taken").register(once))[0] == 409
    assert (await PretendNode(frontend, "free").register(once))[0] == 201


@pytest.mark.behaviour("NODE-1")
async def test_agent_gets_its_key_with_its_first_registration_after_approval_and_only_then(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend, "agent", approved=False, node_type="agent", address="")
    assert (await node.call_as_admin("POST", "/approve"))[0] == 200
    _, answer = await node.register(None, node_type="agent", address="")
    first = answer["api_token"]
    assert first.startswith("ck_")
    assert (await frontend.core.directory.authenticate_key(first)).node_id == node.id
    status, _ = await frontend.call("GET", "/api/nodes", key=first)
    assert status == 403, "an agent's key administers nothing"
    assert (await join_node(frontend, "engine")).id
    assert len(await events(frontend.database, "node.registered")) == 2


@pytest.mark.behaviour("NODE-41")
async def test_registration_gives_rules_that_were_put_aside_another_look(frontend: RunningFrontend) -> None:
    is_aside = await put_aside(frontend.database)
    await join_node(frontend, approved=False)
    assert not await is_aside()
