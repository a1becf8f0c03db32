"""A worker's prefetch list at a frontend: ordinary operations, for the node that asks and for nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from corral.domain.model import StoredFile
from corral.store import models as model_store
from tests.loading.machines import put_blobs
from tests.loading.scene import put_model
from tests.operations.manual_dispatcher import use_small_catalog
from tests.operations.scene import sql
from tests.support.frontends import RunningFrontend
from tests.support.nodes import PretendNode, join_node

pytestmark = pytest.mark.behaviour("OPS-87")


async def prefetch(node: PretendNode, **names: Any) -> dict[str, Any]:
    status, answer = await node.call("POST", "/prefetch", {"boot_id": node.boot_id} | names)
    assert status == 200, answer
    return {f"{entry['kind']} {entry['name']}": entry for entry in answer["entries"]}


async def prepared(frontend: RunningFrontend) -> PretendNode:
    """A node beside another one, and a frontend that begins no operation."""
    await frontend.core.dispatcher.claim_loop.stop()
    await use_small_catalog(frontend.core)
    await join_node(frontend, "other")
    return await join_node(frontend, "one")


async def operations(frontend: RunningFrontend) -> list[Any]:
    return await sql(
        frontend.database,
        "SELECT id::text AS id, kind, subject, created_by, state, scope_node::text AS node FROM operations"
        " ORDER BY kind",
    )


async def test_prefetch_list_becomes_one_operation_for_each_entry_however_often_it_is_sent(
    frontend: RunningFrontend,
) -> None:
    node = await prepared(frontend)
    await put_model(frontend.database, files=("model.gguf",))
    first = await prefetch(node, backends=["solo", "solo"], models=["chat"])
    assert {name: entry["state"] for name, entry in first.items()} == {
        "backend solo": "requested",
        "model chat": "requested",
    }
    second = await prefetch(node, backends=["solo"], models=["chat"])
    assert [entry["operation_id"] for entry in second.values()] == [entry["operation_id"] for entry in first.values()]
    found = await operations(frontend)
    assert [(row.kind, row.subject, row.created_by, row.node) for row in found] == [
        ("backend_install", "solo", "node one", node.id),
        ("model_stage", "chat", "node one", node.id),
    ]


async def test_prefetch_asks_for_nothing_that_the_node_has(frontend: RunningFrontend) -> None:
    node = await prepared(frontend)
    report = {"boot_id": node.boot_id, "backends": [{"name": "solo", "version": "1.0"}]}
    assert (await node.call("POST", "/backends", report))[0] == 200
    await put_model(frontend.database, files=("model.gguf",))
    content = StoredFile(path="model.gguf", sha256="a" * 64, size_bytes=100)
    await put_blobs(frontend.database, [content.sha256])
    async with frontend.database.transaction() as tx:
        await model_store.put_contents(tx, "chat", [content], None)
    held = {"boot_id": node.boot_id, "blobs": [{"sha256": "a" * 64, "size_bytes": 100, "is_whole": True}]}
    assert (await node.call("POST", "/holdings", held))[0] == 200
    entries = await prefetch(node, backends=["solo"], models=["chat"])
    assert [entry["state"] for entry in entries.values()] == ["present", "present"]
    assert await operations(frontend) == []


async def test_prefetch_refuses_what_neither_catalog_nor_cluster_has_and_goes_on(frontend: RunningFrontend) -> None:
    node = await prepared(frontend)
    entries = await prefetch(node, backends=["https://example.org/x.tar.gz", "solo"], models=["nobody"])
    assert {name: entry["state"] for name, entry in entries.items()} == {
        "backend https://example.org/x.tar.gz": "refused",
        "backend solo": "requested",
        "model nobody": "refused",
    }
    assert "nobody" in entries["model nobody"]["message"]
    assert [row.subject for row in await operations(frontend)] == ["solo"]


async def test_prefetch_is_for_the_calling_node_alone(frontend: RunningFrontend) -> None:
    node = await prepared(frontend)
    stranger = await join_node(frontend, "stranger")
    body = {"boot_id": node.boot_id, "backends": ["solo"]}
    status, _ = await frontend.call("POST", f"/api/node/{node.id}/prefetch", body, key=stranger.credential)
    assert status == 401
    assert await operations(frontend) == []


@pytest.mark.parametrize(("approved", "code"), [(False, "node_pending"), (True, "node_draining")])
async def test_prefetch_waits_until_its_node_is_approved_and_not_drained(
    frontend: RunningFrontend, approved: bool, code: str
) -> None:
    await use_small_catalog(frontend.core)
    node = await join_node(frontend, "one", approved=approved)
    if approved:
        assert (await node.call_as_admin("POST", "/drain"))[0] == 200
    status, answer = await node.call("POST", "/prefetch", {"boot_id": node.boot_id, "backends": ["solo"]})
    assert (status, answer["error"]["code"]) == (409, code)
    assert await operations(frontend) == []


@pytest.mark.parametrize(("action", "state"), [("cancel", "cancelled"), ("pause", "paused")])
async def test_prefetch_leaves_alone_what_an_operator_has_just_stopped(
    frontend: RunningFrontend, action: str, state: str
) -> None:
    node = await prepared(frontend)
    made = (await prefetch(node, backends=["solo"]))["backend solo"]
    assert (await frontend.call("POST", f"/api/operations/{made['operation_id']}/{action}"))[0] == 200
    assert (await prefetch(node, backends=["solo"]))["backend solo"]["operation_id"] == made["operation_id"]
    assert [(row.id, row.state) for row in await operations(frontend)] == [(made["operation_id"], state)]


async def test_prefetch_of_a_model_does_not_queue_behind_another_node_s(frontend: RunningFrontend) -> None:
    """A load of the model waits for what is queued before it."""
    node = await prepared(frontend)
    second = await join_node(frontend, "second")
    await put_model(frontend.database, files=("model.gguf",))
    await prefetch(node, models=["chat"])
    refused = (await prefetch(second, models=["chat"]))["model chat"]
    assert refused["state"] == "refused"
    assert len(await operations(frontend)) == 1


async def test_prefetch_takes_at_most_fifty_names_of_a_kind(frontend: RunningFrontend) -> None:
    node = await prepared(frontend)
    names = [f"b{number}" for number in range(51)]
    status, _ = await node.call("POST", "/prefetch", {"boot_id": node.boot_id, "backends": names})
    assert status == 400
