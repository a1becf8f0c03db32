"""Loads over HTTP: requested, planned, read; and what workers report."""

from __future__ import annotations

from typing import Any

import pytest

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.client import CorralClient
from corral.domain.node import NodeId
from corral.loading.kinds.commands import LoadTicketIssuer
from corral.wire.loads import LoadIn
from tests.loading.scene import put_loaded, put_model, rows
from tests.operations.manual_dispatcher import use_small_catalog
from tests.operations.scene import sql
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.nodes import GIB, join_node

RAM: dict[str, Any] = {
    "total_ram": 16 * GIB,
    "available_ram": 8 * GIB,
    "cpu_threads": 8,
    "total_vram": 0,
    "available_vram": 0,
}


async def on_the_bus(frontend: RunningFrontend) -> None:
    await sql(frontend.database, "UPDATE nodes SET bus_ok = NULL")


async def call(frontend: RunningFrontend, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    return await frontend.call(method, path, body)


async def test_load_is_admitted_once_and_returns_the_operation_to_follow(frontend: RunningFrontend) -> None:
    await frontend.core.dispatcher.claim_loop.stop()
    await put_model(frontend.database, "team/chat")
    status, admitted = await call(frontend, "POST", "/api/models/team%2Fchat/load", {"count": 2})
    assert (status, admitted["name"], admitted["deduplicated"]) == (202, "team/chat", False)
    status, again = await call(frontend, "POST", "/api/models/team/chat/load")
    assert (status, again["id"], again["deduplicated"]) == (200, admitted["id"], True)
    assert again["message"] == "The model load of team/chat is already running."
    status, operation = await call(frontend, "GET", f"/api/operations/{admitted['id']}")
    assert (status, operation["kind"], operation["taskType"], operation["isBackend"]) == (
        200,
        "model_load",
        "loading",
        False,
    )


async def test_plan_says_where_and_why_not_elsewhere_and_does_nothing(frontend: RunningFrontend) -> None:
    await use_small_catalog(frontend.core)
    await join_node(frontend, "roomy", **RAM)
    await join_node(frontend, "small", **(RAM | {"available_ram": GIB}))
    await on_the_bus(frontend)
    await put_model(frontend.database, ram_bytes=4 * GIB)
    status, plan = await call(frontend, "POST", "/api/plan", {"model": "chat"})
    assert status == 200
    (choice,) = plan["choices"]
    assert (plan["fits"], choice["node_name"], choice["installs_backend"]) == (True, "roomy", True)
    assert (choice["backend"], choice["version"], choice["ram_bytes"]) == ("cpu-engine", "2.0", 4 * GIB)
    assert [(one["node_name"], one["reason"]) for one in plan["refused"]] == [("small", "ram")]
    assert await rows(frontend.database) == []
    status, same = await call(frontend, "POST", "/api/models/chat/load?plan=true")
    assert (status, same["plan"], same["choices"][0]["node_name"]) == (200, True, "roomy")
    assert await sql(frontend.database, "SELECT 1 FROM operations") == []


async def test_client_reads_the_plan_of_a_load(frontend: RunningFrontend) -> None:
    await put_model(frontend.database)
    async with CorralClient(frontend.url, ADMIN_KEY, clock=SystemClock(), ids=SystemIdGenerator()) as client:
        plan = await client.loads.plan_load("chat", LoadIn(count=1))
        assert (plan.fits, plan.code) == (False, "no_eligible_nodes")


async def test_load_status_shows_progress_or_404(frontend: RunningFrontend) -> None:
    await put_model(frontend.database)
    status, answer = await call(frontend, "GET", "/api/models/chat/load-status")
    assert (status, answer["error"]["code"]) == (404, "no_load")
    # Who asks again and again, as the playground does, wants no error for that; a model that is not there is one.
    async with frontend.http.get(
        f"{frontend.url}/api/models/chat/load-status?quiet=true", headers={"Authorization": f"Bearer {ADMIN_KEY}"}
    ) as quiet:
        assert (quiet.status, await quiet.read()) == (204, b"")
    assert (await call(frontend, "GET", "/api/models/nothing/load-status?quiet=true"))[0] == 404
    await frontend.core.dispatcher.claim_loop.stop()
    await call(frontend, "POST", "/api/models/chat/load")
    await sql(
        frontend.database,
        "UPDATE operations SET state = 'running', started_at = corral_now() - interval '10 s', phase = 'staging',"
        " percent = 25, current_bytes = 100, total_bytes = 400",
    )
    status, answer = await call(frontend, "GET", "/api/models/chat/load-status")
    assert status == 200
    assert (answer["state"], answer["progress"], answer["bytes_sent"], answer["total_bytes"]) == (
        "staging",
        25.0,
        100,
        400,
    )
    assert 20 < answer["eta_seconds"] < 60


@pytest.mark.behaviour("NODE-97")
async def test_shutting_down_what_is_loaded_nowhere_is_404_and_else_an_operation(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "a")
    model = await put_model(frontend.database)
    status, answer = await call(frontend, "POST", "/backend/shutdown", {"model": "chat"})
    assert (status, answer["error"]["code"]) == (404, "model_not_loaded")
    await put_loaded(frontend.database, node.id, model)
    status, answer = await call(frontend, "POST", "/backend/shutdown", {"model": "chat"})
    assert (status, answer["name"]) == (200, "chat")


async def test_loading_and_waiting_tells_the_cause_when_it_fails(frontend: RunningFrontend) -> None:
    await put_model(frontend.database)
    status, answer = await call(frontend, "POST", "/backend/load", {"model": "chat"})
    assert (status, answer["error"]["code"]) == (422, "no_eligible_nodes")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/models/nothing/load", None, 404),
        ("POST", "/api/models/nothing/unload", None, 404),
        ("POST", "/api/plan", {"model": "nothing"}, 404),
        ("POST", "/api/plan", {}, 400),
        ("POST", "/api/models/chat/load", {"count": 0}, 400),
        ("POST", "/api/models/chat/load", {"nodes": []}, 400),
        ("POST", "/api/models/chat/load", {"nodes": ["nowhere"]}, 404),
        ("POST", "/api/models/chat/load", {"what": 1}, 400),
        ("GET", "/api/models/nothing/load-status", None, 404),
        ("POST", "/backend/load", {"model": "nothing"}, 404),
    ],
)
async def test_invalid_load_requests_are_refused(
    frontend: RunningFrontend, method: str, path: str, body: Any, status: int
) -> None:
    await put_model(frontend.database)
    found, answer = await call(frontend, method, path, body)
    assert found == status, answer
    assert answer["error"]["message"]


async def test_worker_reports_what_it_runs_and_only_for_itself(frontend: RunningFrontend) -> None:
    node, other = await join_node(frontend, "a"), await join_node(frontend, "b")
    model = await put_model(frontend.database)
    process = {
        "key": "chat#0",
        "model": "chat",
        "replica": 0,
        "backend": "engine",
        "address": "127.0.0.1:9000",
        "revision": model.run_hash,
        "engine_key": "secret",
        "ram_bytes": 5,
        "ticket": LoadTicketIssuer(credentials=frontend.core.api_deps.credentials).issue(
            NodeId(node.id), "chat", 0, model.run_hash
        ),
    }
    blob = {"sha256": "a" * 64, "size_bytes": 5, "is_whole": True}
    body = {"boot_id": node.boot_id, "processes": [process], "models": [{"name": "chat"}], "blobs": [blob]}
    status, taken = await node.call("POST", "/holdings", body)
    assert (status, taken["adopted"]) == (200, ["chat#0"])
    (row,) = await rows(frontend.database)
    assert (row.state, row.engine_key, row.ram_bytes) == ("loaded", "secret", 5)
    assert len(await sql(frontend.database, "SELECT 1 FROM staged_files")) == 1
    status, _ = await frontend.call("POST", f"/api/node/{node.id}/holdings", body, key=other.credential)
    assert status == 401
    node.reboot()
    status, _ = await node.call("POST", "/holdings", body | {"boot_id": "older"})
    assert status == 409
    odd = process | {"key": "x#0", "model": "x\u0000y"}
    status, _ = await node.call("POST", "/holdings", body | {"processes": [odd]})
    assert status in (200, 400)


@pytest.mark.behaviour("LOAD-30")
@pytest.mark.parametrize(("action", "removes"), [("unload", False), ("delete", True)])
async def test_model_of_one_node_is_ended_by_localai_s_call(
    frontend: RunningFrontend, action: str, removes: bool
) -> None:
    await frontend.core.dispatcher.claim_loop.stop()
    node = await join_node(frontend, "one", **RAM)
    await put_model(frontend.database)
    path = f"/api/nodes/one/models/{action}"
    status, admitted = await call(frontend, "POST", path, {"model_name": "chat"})
    assert (status, admitted["name"]) == (202, "chat"), admitted
    (row,) = await sql(frontend.database, "SELECT kind, request, scope_node FROM operations")
    assert (row.kind, row.request["removes_files"], str(row.scope_node)) == ("model_unload", removes, node.id)
    status, again = await call(frontend, "POST", path, {"model_name": "chat"})
    assert (status, again["id"], again["deduplicated"]) == (200, admitted["id"], True)


@pytest.mark.parametrize(
    ("node", "body", "status"),
    [("one", {}, 400), ("one", {"model_name": "nobody"}, 404), ("nobody", {"model_name": "chat"}, 404)],
)
async def test_model_of_one_node_is_refused_with_what_is_wrong(
    frontend: RunningFrontend, node: str, body: dict[str, str], status: int
) -> None:
    await join_node(frontend, "one", **RAM)
    await put_model(frontend.database)
    for action in ("unload", "delete"):
        assert (await call(frontend, "POST", f"/api/nodes/{node}/models/{action}", body))[0] == status
