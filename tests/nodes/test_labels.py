"""Labels and selectors through the API, and the second look that rules get when labels change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from corral.domain.errors import InvalidRequest
from corral.domain.node import NodeId
from corral.nodes.commands import note_bus
from corral.policy.placing.fleet import PlacementFleet
from corral.store import nodes as node_store
from corral.store import rules as rule_store
from corral.store.database import Database
from tests.nodes.registry import put_aside
from tests.support.frontends import RunningFrontend
from tests.support.nodes import GIB, PretendNode, join_node
from tests.support.rules import put_rule


@pytest.mark.behaviour("NODE-38")
async def test_node_labels_itself_by_its_machine(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "big", total_vram=25 * GIB, gpu_vendor="nvidia")
    plain = await join_node(frontend, "plain")
    assert (await node.read_as_admin())["labels"] == {
        "gpu.vendor": "nvidia",
        "gpu.vram": "24GB",
        "node.name": "big",
        "node.replica-slots": "1",
    }
    assert (await plain.read_as_admin())["labels"] == {"node.name": "plain", "node.replica-slots": "1"}


@pytest.mark.behaviour("NODE-39")
async def test_list_shows_the_nodes_that_have_every_pair(frontend: RunningFrontend) -> None:
    await join_node(frontend, "one", labels={"zone": "b"})
    await join_node(frontend, "both", labels={"zone": "b", "rack": "7", "more": "x"})
    _, listed = await frontend.call("GET", "/api/nodes?selector=zone=b,rack=7")
    assert [node["name"] for node in listed] == ["both"]


@pytest.mark.behaviour("NODE-40")
async def test_matching_node_that_is_off_the_bus_is_no_candidate(frontend: RunningFrontend) -> None:
    well = await join_node(frontend, "well", labels={"zone": "b"})
    ill = await join_node(frontend, "ill", labels={"zone": "b"})
    await note_bus(frontend.database, NodeId(well.id), is_on_bus=True)
    await note_bus(frontend.database, NodeId(ill.id), is_on_bus=False)
    async with frontend.database.transaction() as tx:
        found = PlacementFleet.build(await node_store.list_nodes(tx)).list_candidates({"zone": "b"})
    assert [room.node.id for room in found] == [well.id]


async def _put(node: PretendNode) -> None:
    assert (await node.call_as_admin("PUT", "/labels", {"zone": "c"}))[0] == 200


async def _patch(node: PretendNode) -> None:
    assert (await node.call_as_admin("PATCH", "/labels", {"zone": "c"}))[0] == 200


async def _delete(node: PretendNode) -> None:
    assert (await node.call_as_admin("DELETE", "/labels/mine"))[0] == 204


async def _slots(node: PretendNode) -> None:
    assert (await node.call_as_admin("PUT", "/max-replicas-per-model", {"value": 3}))[0] == 200


async def _budget(node: PretendNode) -> None:
    assert (await node.call_as_admin("PUT", "/vram-budget", {"value": "50%"}))[0] == 200


async def _register(node: PretendNode) -> None:
    assert (await node.register(None, labels={"zone": "c"}))[0] == 201


@pytest.mark.behaviour("NODE-41")
@pytest.mark.parametrize("change", [_put, _patch, _delete, _slots, _budget, _register])
async def test_every_change_of_labels_or_capacity_gives_rules_another_look(
    frontend: RunningFrontend, change: Callable[[PretendNode], Awaitable[None]]
) -> None:
    node = await join_node(frontend)
    await node.call_as_admin("PATCH", "/labels", {"mine": "1"})
    looks = [await put_aside(frontend.database, model) for model in ("big", "other")]
    await change(node)
    assert not any([await is_aside() for is_aside in looks])


@pytest.mark.behaviour("NODE-42")
@pytest.mark.parametrize("selector", ["{bad json", '{"zone": "b"', ["zone"], {"zone": 1}, {"": "b"}, None])
async def test_rule_with_a_broken_selector_is_not_saved(database: Database, selector: object) -> None:
    async with database.transaction() as tx:
        await put_rule(tx, "m", {"zone": "b"})
    with pytest.raises(InvalidRequest):
        async with database.transaction() as tx:
            await put_rule(tx, "m", selector)
    async with database.transaction() as tx:
        (rule,) = await rule_store.list_rules(tx)
    assert rule.selector == {"zone": "b"}, "the one before it still counts"


@pytest.mark.behaviour("NODE-42")
async def test_broken_selector_in_a_query_is_refused(frontend: RunningFrontend) -> None:
    assert (await frontend.call("GET", "/api/nodes?selector=zone"))[0] == 400
    assert (await frontend.call("GET", "/api/nodes?selector=,"))[0] == 400


@pytest.mark.behaviour("NODE-204")
async def test_labels_that_were_read_and_put_back_stay_the_machines(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, total_vram=8 * GIB, labels={"rack": "1"})
    _, labels = await node.call_as_admin("GET", "/labels")
    await node.call_as_admin("PUT", "/labels", labels | {"zone": "b"})
    await node.register(None, total_vram=25 * GIB, labels={"rack": "2"})
    await node.call_as_admin("POST", "/approve-labels")
    shown = await node.read_as_admin()
    assert (shown["labels"]["gpu.vram"], shown["labels"]["rack"], shown["labels"]["zone"]) == ("24GB", "2", "b")
    assert shown["label_sources"]["gpu.vram"] == "auto"


@pytest.mark.behaviour("NODE-204")
async def test_label_of_the_machine_cannot_be_deleted_and_an_unknown_one_is_404(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, labels={"rack": "1"})
    for key in ("node.name", "rack"):
        status, answer = await node.call_as_admin("DELETE", f"/labels/{key}")
        assert (status, answer["error"]["code"]) == (409, "label_not_yours")
    assert (await node.call_as_admin("DELETE", "/labels/none"))[1]["error"]["code"] == "label_not_found"
    assert (await node.call_as_admin("PUT", "/labels", {"bad key": "x"}))[0] == 400
