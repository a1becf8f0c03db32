"""What a worker says of itself counts for nothing until an admin has approved it: labels, addresses, names, keys."""

from __future__ import annotations

import pytest

from corral.domain.node import NodeId
from corral.nodes import lifecycle
from corral.nodes.commands import note_bus
from corral.store.database import Database
from tests.nodes.registry import bus_key, stored
from tests.operations.scene import sql
from tests.support.frontends import RunningFrontend
from tests.support.nodes import PretendNode, create_join_token, join_node


async def named(frontend: RunningFrontend, selector: str) -> list[str]:
    _, listed = await frontend.call("GET", f"/api/nodes?selector={selector}")
    return [node["name"] for node in listed]


@pytest.mark.behaviour("TRUST-1")
async def test_label_that_a_worker_adds_after_its_approval_counts_once_an_admin_has_approved_it(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend, "a", labels={"zone": "b"})
    await node.register(None, labels={"zone": "b", "trust": "high"})
    assert await named(frontend, "trust=high") == []
    assert await named(frontend, "zone=b") == ["a"]
    shown = await node.read_as_admin()
    assert (shown["proposed_labels"], "trust" in shown["labels"]) == ({"trust": "high"}, False)
    status, labels = await node.call_as_admin("POST", "/approve-labels")
    assert (status, labels["trust"]) == (200, "high")
    assert await named(frontend, "trust=high") == ["a"]
    await node.register(None, labels={"zone": "b", "trust": "highest"})
    assert await named(frontend, "trust=highest") == []


@pytest.mark.behaviour("TRUST-1")
async def test_labels_that_the_admin_has_not_seen_are_not_approved_with_the_node(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "a", approved=False, labels={"zone": "b", "trust": "high"})
    assert (await node.read_as_admin())["proposed_labels"] == {"zone": "b", "trust": "high"}
    status, answer = await node.call_as_admin("POST", "/approve", {"labels": {"zone": "b", "trust": "low"}})
    assert (status, answer["labels"]) == (200, {"zone": "b"})
    assert (await node.read_as_admin())["proposed_labels"] == {"trust": "high"}


@pytest.mark.behaviour("TRUST-1")
async def test_labels_are_approved_with_a_node_whose_token_approves_it(frontend: RunningFrontend) -> None:
    token = await create_join_token(frontend, approves=True, max_uses=5)
    node = PretendNode(frontend, "a")
    await node.register(token, labels={"zone": "b"})
    assert await named(frontend, "zone=b") == ["a"]
    await node.register(token, labels={"zone": "c"})
    assert await named(frontend, "zone=c") == ["a"]
    await node.register(None, labels={"zone": "d"})
    assert await named(frontend, "zone=d") == []


async def test_labels_of_a_pending_node_are_approved_with_it_only(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "a", approved=False, labels={"zone": "b"})
    status, answer = await node.call_as_admin("POST", "/approve-labels")
    assert (status, answer["error"]["code"]) == (409, "node_pending")


@pytest.mark.behaviour("TRUST-2")
@pytest.mark.parametrize("key", ["node.name", "gpu.vendor", "node.anything"])
async def test_label_of_the_machine_cannot_be_set_by_an_admin(frontend: RunningFrontend, key: str) -> None:
    node = await join_node(frontend, "a")
    for method in ("PATCH", "PUT"):
        status, answer = await node.call_as_admin(method, "/labels", {key: "x"})
        assert (status, answer["error"]["code"]) == (400, "label_reserved")
    assert (await node.read_as_admin())["labels"]["node.name"] == "a"
    _, labels = await node.call_as_admin("GET", "/labels")
    assert (await node.call_as_admin("PUT", "/labels", labels))[0] == 200


@pytest.mark.behaviour("TRUST-2")
async def test_label_of_the_machine_cannot_be_set_by_a_worker(frontend: RunningFrontend) -> None:
    await join_node(frontend, "vm")
    evil = PretendNode(frontend, "evil")
    status, answer = await evil.register(await create_join_token(frontend), labels={"node.name": "vm"})
    assert (status, answer["error"]["code"]) == (400, "label_reserved")
    node = await join_node(frontend, "other")
    reserved = {"node.name": "vm", "gpu.vendor": "nvidia", "node.owner": "me"}
    assert (await node.register(None, labels=reserved))[0] == 201
    assert (await node.call_as_admin("POST", "/approve-labels"))[0] == 200
    assert await named(frontend, "node.name=vm") == ["vm"]
    assert await named(frontend, "gpu.vendor=nvidia") == []
    assert await named(frontend, "node.owner=me") == []


@pytest.mark.behaviour("TRUST-3")
async def test_approval_notes_an_address_that_differs_from_where_the_node_was_seen(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "a", approved=False, address="10.0.0.99:50050")
    shown = await node.read_as_admin()
    assert shown["seen_address"] == "127.0.0.1"
    assert all(host in shown["address_note"] for host in ("10.0.0.99", "127.0.0.1"))
    _, answer = await node.call_as_admin("POST", "/approve")
    assert answer["address_note"] == shown["address_note"]
    assert (await (await join_node(frontend, "b")).read_as_admin())["address_note"] == ""


@pytest.mark.behaviour("TRUST-3")
async def test_new_host_of_a_node_is_written_to_the_audit_and_a_new_port_is_not(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "a", address="10.0.0.1:50050")
    await node.register(None, address="10.0.0.1:50051")
    found = "SELECT actor, detail FROM audit WHERE action = 'node.address'"
    assert await sql(frontend.database, found) == []
    await node.register(None, address="10.0.0.2:50051")
    (line,) = await sql(frontend.database, found)
    assert line.actor == "node a"
    assert all(host in line.detail for host in ("10.0.0.1", "10.0.0.2", "127.0.0.1"))


@pytest.mark.parametrize(
    ("name", "code"),
    [("gpu-a ", "bad_name"), (" gpu-a", "bad_name"), ("GPU-A", "name_taken"), ("\uff47pu-a", "name_taken")],
)
async def test_name_that_people_would_take_for_another_node_is_refused(
    frontend: RunningFrontend, name: str, code: str
) -> None:
    await join_node(frontend, "gpu-a")
    status, answer = await PretendNode(frontend, name).register(await create_join_token(frontend))
    assert (status >= 400, answer["error"]["code"]) == (True, code)


async def test_node_whose_name_was_allowed_before_may_return(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "gpu-a")
    await sql(frontend.database, "UPDATE nodes SET name = 'gpu-a '")
    node.name = "gpu-a "
    assert (await node.register(None))[0] == 201


@pytest.mark.behaviour("TRUST-5")
async def test_node_is_joining_after_its_approval_until_it_is_on_the_bus(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "a")
    assert (await node.read_as_admin())["status"] == "joining"
    await node.heartbeat(bus_ok=False)
    shown = await node.read_as_admin()
    assert (shown["status"], shown["schedulable"]) == ("joining", False)
    await node.heartbeat(bus_ok=True)
    assert (await node.read_as_admin())["status"] == "healthy"
    await node.heartbeat(bus_ok=False)
    assert (await node.read_as_admin())["status"] == "unhealthy"


@pytest.mark.behaviour("TRUST-5")
async def test_node_that_does_not_reach_the_bus_within_a_minute_of_its_approval_is_unhealthy(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend, "a")
    await sql(frontend.database, "UPDATE nodes SET approved_at = approved_at - interval '61 seconds'")
    await node.heartbeat(bus_ok=False)
    assert (await node.read_as_admin())["status"] == "unhealthy"


async def test_node_that_a_command_has_reached_is_no_longer_joining(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "a")
    await note_bus(frontend.database, NodeId(node.id), is_on_bus=True)
    await note_bus(frontend.database, NodeId(node.id), is_on_bus=False)
    assert (await node.read_as_admin())["status"] == "unhealthy"


async def keys_of(database: Database) -> set[str]:
    return {row.public_key for row in await sql(database, "SELECT public_key FROM bus_keys")}


@pytest.mark.behaviour("TRUST-6")
async def test_removal_of_a_node_names_every_key_that_it_got_a_token_for(frontend: RunningFrontend) -> None:
    first, second, third = bus_key(), bus_key(), bus_key()
    node = await join_node(frontend, "a", bus_public_key=first)
    for key in (first, second, third, second):
        assert (await node.call("POST", "/credentials", {"bus_public_key": key}))[0] == 200
    removed = await lifecycle.remove(frontend.database, "a", "ann")
    assert set(removed.bus_keys) == {first, second, third}
    assert await keys_of(frontend.database) == set()


async def test_key_of_another_node_is_neither_granted_nor_revoked(frontend: RunningFrontend) -> None:
    key = bus_key()
    victim = await join_node(frontend, "victim", bus_public_key=key)
    assert (await victim.call("POST", "/credentials", {"bus_public_key": key}))[0] == 200
    await join_node(frontend, "evil", approved=False, bus_public_key=key)
    twin = await join_node(frontend, "twin", bus_public_key=key)
    status, answer = await twin.call("POST", "/credentials", {"bus_public_key": key})
    assert (status, answer["error"]["code"]) == (409, "bus_key_taken")
    status, answer = await twin.register(None, bus_public_key=key)
    assert (status, answer["nats_jwt"]) == (201, None)
    for name in ("evil", "twin"):
        assert (await lifecycle.remove(frontend.database, name, "ann")).bus_keys == ()
    assert (await victim.call("POST", "/credentials", {"bus_public_key": key}))[0] == 200


async def test_node_has_a_bounded_number_of_bus_keys_and_forgets_those_that_have_run_out(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend, "a")
    answers = [await node.call("POST", "/credentials", {"bus_public_key": bus_key()}) for _ in range(17)]
    assert [status for status, _ in answers] == [200] * 16 + [409]
    await sql(frontend.database, "UPDATE bus_keys SET expires_at = corral_now() - interval '1 second'")
    assert (await node.call("POST", "/credentials", {"bus_public_key": bus_key()}))[0] == 200
    assert len(await keys_of(frontend.database)) == 1
    assert (await stored(node)).bus_public_key in await keys_of(frontend.database)
