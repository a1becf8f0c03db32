"""Backends over HTTP: plans, refusals, idempotency, reports of nodes, the catalog and the shapes of LocalAI."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.backends import (
    BACKEND,
    CONCRETE,
    META,
    ask,
    has_it_now,
    held,
    install,
    live,
    newest,
    report,
    shown,
)
from tests.api.operations import assert_envelope
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import age_heartbeat, create_join_token, join_node


@pytest.mark.behaviour("API-18")
async def test_plan_shows_what_each_node_would_get_and_does_nothing(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "a")
    await has_it_now(frontend, node)
    away = await join_node(frontend, "b")
    await age_heartbeat(away, 3600)
    await join_node(frontend, "c", approved=False)
    status, plan = await frontend.call("POST", f"/api/backends/install/{BACKEND}?plan=true")
    assert status == 200, plan
    assert plan["plan"] is True
    version = await newest(frontend)
    assert [(one["node_name"], one["backend"], one["version"]) for one in plan["nodes"]] == [
        ("a", BACKEND, version),
        ("b", BACKEND, version),
    ]
    assert plan["nodes"][0]["fetch_bytes"] == 0
    assert [one["node_name"] for one in plan["skipped"]] == ["c"]
    assert "approval" in plan["skipped"][0]["reason"]
    assert await live(frontend) == []


@pytest.mark.behaviour("API-18")
async def test_every_route_that_requests_a_change_supports_plan(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "a")
    await report(node, {"name": BACKEND, "version": "1.0.0", "gallery": "corral"})
    routes: dict[str, Any] = {
        f"/api/backends/install/{META}": None,
        "/backends/apply": {"id": META},
        f"/api/backends/upgrade/{BACKEND}": None,
        f"/backends/upgrade/{BACKEND}": None,
        f"/api/backends/reinstall/{BACKEND}": None,
        f"/api/backends/delete/{BACKEND}": None,
        f"/backends/delete/{BACKEND}": None,
        f"/api/backends/system/delete/{BACKEND}": None,
        "/api/backends/install-external": {"uri": "/opt/engine", "name": "mine"},
        "/api/nodes/a/backends/install": {"backend": META},
        "/api/nodes/a/backends/upgrade": {"backend": BACKEND},
        "/api/nodes/a/backends/reinstall": {"backend": BACKEND},
        "/api/nodes/a/backends/delete": {"backend": BACKEND},
    }
    for path, body in routes.items():
        status, plan = await frontend.call("POST", f"{path}?plan=true", body)
        assert (status, plan.get("plan")) == (200, True), f"{path}: {plan}"
        assert [one["node_name"] for one in plan["nodes"]] == ["a"], path
    assert await live(frontend) == []


@pytest.mark.behaviour("API-18")
async def test_node_route_answers_202_with_the_place_to_look_and_a_fleet_route_200(
    frontend: RunningFrontend,
) -> None:
    await join_node(frontend, "a")
    await held(frontend)
    sent = {"Authorization": "Bearer ck_the-admin-key-of-the-tests-0123456789abcdef"}
    async with frontend.http.post(
        f"{frontend.url}/api/nodes/a/backends/install", json={"backend": BACKEND}, headers=sent
    ) as answer:
        body = await answer.json()
        assert answer.status == 202
        assert answer.headers["Location"] == body["statusUrl"] == f"/api/backends/job/{body['jobID']}"
    async with frontend.http.post(f"{frontend.url}/api/backends/install/{META}", headers=sent) as answer:
        body = await answer.json()
        assert answer.status == 200
        assert body["id"] == body["jobID"] == body["uuid"]
        assert body["status_url"] == body["statusUrl"]
        assert body["message"]


@pytest.mark.behaviour("OPS-56")
async def test_build_for_special_hardware_needs_nodes_on_every_route(frontend: RunningFrontend) -> None:
    await join_node(frontend, "a")
    for name in (CONCRETE, f"corral@{CONCRETE}"):
        for path, body in (
            (f"/api/backends/install/{name}", None),
            ("/backends/apply", {"id": name}),
            (f"/api/backends/install/{name}?plan=true", None),
        ):
            status, answer = await frontend.call("POST", path, body)
            assert status == 409, answer
            error = assert_envelope(answer, code="concrete_backend_requires_target")
            assert error["details"]["meta_alternative"] == META
    assert await live(frontend) == []
    assert (await install(frontend, CONCRETE, nodes=["a"]))["state"] == "queued"


@pytest.mark.behaviour("OPS-4")
async def test_opposite_request_is_refused_with_the_id_of_the_running_operation_or_queued_behind_it(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend, "a")
    await report(node, {"name": BACKEND, "version": "1.0.0", "gallery": "corral"})
    await held(frontend)
    first = await ask(frontend, "/api/nodes/a/backends/upgrade", {"backend": BACKEND})
    status, answer = await frontend.call("POST", "/api/nodes/a/backends/delete", {"backend": BACKEND})
    assert status == 409
    error = assert_envelope(answer, code="operation_in_progress")
    assert error["details"]["operation_id"] == first["id"]
    status, behind = await frontend.call("POST", "/api/nodes/a/backends/delete?after=true", {"backend": BACKEND})
    assert (status, behind["deduplicated"]) == (202, False)
    assert first["id"] in behind["message"]
    assert (await shown(frontend, behind["id"]))["afterID"] == first["id"]


async def test_idempotency_key_starts_one_operation_on_all_frontends_also_after_its_end(
    frontend: RunningFrontend, database_url: str
) -> None:
    await join_node(frontend, "a")
    path, body = "/api/nodes/a/backends/install", {"backend": BACKEND}
    async with running_frontend(database_url) as other:
        await held(frontend, other)
        async with asyncio.TaskGroup() as together:
            tasks = [
                together.create_task(one.call("POST", path, body, Idempotency_Key="k")) for one in (frontend, other) * 3
            ]
        answers = [task.result() for task in tasks]
        assert {status for status, _ in answers} == {202}
        assert len({str(answer) for _, answer in answers}) == 1
        operation = answers[0][1]["id"]
        assert (await frontend.call("POST", f"/api/operations/{operation}/cancel"))[0] == 200
        assert await other.call("POST", path, body, Idempotency_Key="k") == answers[0]
    assert await live(frontend) == []
    for wrong in ((path, {"backend": META}), (f"{path}?after=true", body)):
        status, answer = await frontend.call("POST", *wrong, Idempotency_Key="k")
        assert status == 422
        assert_envelope(answer, code="idempotency_key_reused")


@pytest.mark.behaviour("OPS-94")
@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1/x.tar.gz",
        "http://169.254.169.254/latest/meta-data",
        "https://[::1]/x.whl",
        "http://10.0.0.7:8080/x.zip",
        "http://localhost/x.zip",
        "http://2130706433/x.zip",
        "oci://192.168.1.4:5000/engines/x:1",
        "127.0.0.1:5000/engines/x:1",
    ],
)
async def test_address_inside_a_network_is_refused_unless_a_setting_allows_it(
    frontend: RunningFrontend, database_url: str, uri: str
) -> None:
    await join_node(frontend, "a")
    for path, body in (
        ("/api/backends/install-external", {"uri": uri, "name": "x"}),
        ("/api/nodes/a/backends/install", {"uri": uri, "name": "x"}),
        ("/api/backends/install-external?plan=true", {"uri": uri, "name": "x"}),
    ):
        status, answer = await frontend.call("POST", path, body)
        assert status == 422, answer
        assert_envelope(answer, code="private_address")
    assert await live(frontend) == []
    async with running_frontend(database_url, allows_private_sources=True) as trusting:
        status, answer = await trusting.call(
            "POST", "/api/backends/install-external?plan=true", {"uri": uri, "name": "x"}
        )
        assert status == 200, answer


WRONG: dict[str, tuple[str, Any, int, str]] = {
    "no backend and no uri": ("/api/nodes/a/backends/install", {}, 400, "invalid_request"),
    "both": ("/api/nodes/a/backends/install", {"backend": "b", "uri": "/x"}, 400, "invalid_request"),
    "galleries of its own": (
        "/api/nodes/a/backends/install",
        {"backend": BACKEND, "backend_galleries": [{"name": "g"}]},
        422,
        "galleries_are_settings",
    ),
    "an unknown field": ("/backends/apply", {"id": "x", "speed": 1}, 400, "invalid_request"),
    "no nodes at all": (f"/api/backends/install/{BACKEND}", {"nodes": []}, 400, "invalid_request"),
    "an unknown node": (f"/api/backends/install/{BACKEND}", {"nodes": ["z"]}, 404, "node_not_found"),
    "an unknown backend": ("/api/backends/install/fke", None, 404, "backend_not_found"),
    "an unknown version": (f"/api/backends/install/{BACKEND}", {"version": "9"}, 422, "unknown_version"),
    "no uri": ("/api/backends/install-external", {"name": "x"}, 400, "invalid_request"),
    "an image without a name": (
        "/api/backends/install-external",
        {"uri": "oci://registry.example.com/engines/x:1"},
        400,
        "name_required",
    ),
    "the name of a gallery's": (
        "/api/backends/install-external",
        {"uri": "/opt/x", "name": BACKEND},
        409,
        "name_in_gallery",
    ),
    "a digest that is none": (
        "/api/backends/install-external",
        {"uri": "/opt/x", "name": "x", "sha256": "12"},
        400,
        "invalid_request",
    ),
    "a deadline that is none": (
        f"/api/backends/install/{BACKEND}",
        {"strategy": {"deadline": "soon"}},
        400,
        "invalid_request",
    ),
    "waves of nobody": (f"/api/backends/install/{BACKEND}", {"strategy": {"waves": [0]}}, 400, "invalid_request"),
    "nothing to upgrade": (f"/api/backends/upgrade/{BACKEND}", None, 404, "backend_not_installed"),
    "nothing to remove": (f"/api/backends/delete/{BACKEND}", None, 404, "backend_not_installed"),
}


async def test_invalid_backend_request_is_refused_with_a_reason_and_admits_no_operation(
    frontend: RunningFrontend,
) -> None:
    await join_node(frontend, "a")
    for what, (path, body, expected_status, code) in WRONG.items():
        status, answer = await frontend.call("POST", path, body)
        assert status == expected_status, f"{what}: {answer}"
        assert_envelope(answer, code=code)
    assert await live(frontend) == []


async def test_force_fetches_again_where_it_is_and_installs_where_it_is_nowhere(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "a")
    await held(frontend)
    fresh = await ask(frontend, "/backends/apply", {"id": BACKEND, "force": True})
    assert (await shown(frontend, fresh["id"]))["kind"] == "backend_install"
    await frontend.call("POST", f"/api/operations/{fresh['id']}/cancel")
    await has_it_now(frontend, node)
    again = await ask(frontend, f"/api/backends/install/{BACKEND}", {"force": True})
    assert (await shown(frontend, again["id"]))["kind"] == "backend_reinstall"


async def test_backend_report_shows_at_once_and_only_the_current_boot_of_a_node_may_report(
    frontend: RunningFrontend,
) -> None:
    node, other = await join_node(frontend, "a"), await join_node(frontend, "b")
    assert (await frontend.call("GET", "/api/nodes/a/backends"))[1] == []
    entry = {"name": CONCRETE, "meta": META, "version": "1.0", "gallery": "corral", "size_bytes": 5, "new_field": 1}
    assert (await report(node, entry))[0] == 200
    status, listed = await frontend.call("GET", "/api/nodes/a/backends")
    assert [(one["name"], one["meta"], one["version"], one["gallery_url"]) for one in listed] == [
        (CONCRETE, META, "1.0", "corral")
    ]
    status, answer = await frontend.call(
        "POST", f"/api/node/{node.id}/backends", {"boot_id": node.boot_id, "backends": []}, key=other.credential
    )
    assert status == 401
    node.boot_id, present = "an-older-process", node.boot_id
    status, answer = await report(node)
    assert status == 409
    assert_envelope(answer, code="boot_superseded", kind="node_error")
    assert len((await frontend.call("GET", "/api/nodes/a/backends"))[1]) == 1
    node.boot_id = present
    assert (await report(node))[0] == 200
    assert (await frontend.call("GET", "/api/nodes/a/backends"))[1] == []


async def test_agent_node_has_no_backends_and_gets_none(frontend: RunningFrontend) -> None:
    agent = await join_node(frontend, "agent", approved=False)
    del agent
    token = await create_join_token(frontend, approves=True)
    body = {"name": "helper", "credential": "c" * 40, "boot_id": "b" * 36, "node_type": "agent", "token": token}
    assert (await frontend.call("POST", "/api/node/register", body, key=None))[0] == 201
    assert await frontend.call("GET", "/api/nodes/helper/backends") == (200, [])
    status, answer = await frontend.call("POST", "/api/nodes/helper/backends/install", {"backend": BACKEND})
    assert status == 409
    assert_envelope(answer, code="node_is_agent")
    status, answer = await frontend.call("GET", "/api/nodes/helper/processes")
    assert status == 409
    assert_envelope(answer, code="node_is_agent")


@pytest.mark.parametrize(("limit", "value"), [("vram-budget", "50%"), ("max-replicas-per-model", 2)])
async def test_agent_node_refuses_limits_that_are_for_engines(
    frontend: RunningFrontend, limit: str, value: object
) -> None:
    await join_node(frontend, "helper", node_type="agent", address="")
    status, answer = await frontend.call("PUT", f"/api/nodes/helper/{limit}", {"value": value})
    assert status == 409
    assert_envelope(answer, code="node_is_agent")
    assert (await frontend.call("DELETE", f"/api/nodes/helper/{limit}"))[0] == 200


@pytest.mark.behaviour("API-20")
async def test_installed_list_names_every_node_with_drift_and_upgrades(frontend: RunningFrontend) -> None:
    version = await newest(frontend)
    for name, has in (("a", "1.0.0"), ("b", "1.0.0"), ("c", version)):
        await report(await join_node(frontend, name), {"name": BACKEND, "version": has, "gallery": "corral"})
    status, listed = await frontend.call("GET", "/backends")
    assert status == 200
    assert [(one["Name"], one["IsSystem"], one["IsMeta"]) for one in listed] == [(BACKEND, False, False)]
    nodes = listed[0]["Nodes"]
    assert {"node_id", "node_name", "node_status", "version", "digest", "uri", "installed_at"} <= nodes[0].keys()
    assert [(one["node_name"], one["drifts"]) for one in nodes] == [("a", False), ("b", False), ("c", True)]
    assert (listed[0]["version"], listed[0]["available_version"], listed[0]["has_upgrade"]) == ("1.0.0", version, True)
    assert [(one["has_upgrade"], one["upgrade_to"]) for one in nodes] == [(True, version), (True, version), (False, "")]
    for path in ("/api/backends/upgrades", "/backends/upgrades"):
        found = (await frontend.call("GET", path))[1]
        assert found[BACKEND]["installed_version"] == "1.0.0"
        assert found[BACKEND]["available_version"] == version
        assert [one["node_name"] for one in found[BACKEND]["node_drift"]] == ["c"]
        assert [(one["node_name"], one["to_version"]) for one in found[BACKEND]["nodes"]] == [
            ("a", version),
            ("b", version),
        ]
        assert found[BACKEND]["summary"] == f"The newest version is {version}. a and b have 1.0.0."
        assert (await frontend.call("POST", f"{path}/check"))[1] == found


async def test_upgrade_all_upgrades_every_backend_with_an_upgrade(frontend: RunningFrontend) -> None:
    await report(
        await join_node(frontend, "a"),
        {"name": BACKEND, "version": "1.0.0", "gallery": "corral"},
        {"name": CONCRETE, "version": "0.1", "gallery": "corral", "meta": META},
        {"name": "from-the-machine", "version": "1", "is_system": True},
    )
    await held(frontend)
    status, answer = await frontend.call("POST", "/api/backends/upgrades/apply")
    assert status == 200, answer
    assert answer["refused"] == []
    subjects = {(await shown(frontend, one["id"]))["name"] for one in answer["operations"]}
    assert subjects == {BACKEND, CONCRETE}
    again = (await frontend.call("POST", "/api/backends/upgrades/apply"))[1]
    assert {one["id"] for one in again["operations"]} == {one["id"] for one in answer["operations"]}
    assert {one["deduplicated"] for one in again["operations"]} == {True}


@pytest.mark.behaviour("API-20")
async def test_backend_catalog_is_paged_with_the_fields_of_localai(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "a", capability="default")
    # On the bus as far as the registry knows, so that it counts as a place to run something.
    await node.heartbeat(bus_ok=True)
    await has_it_now(frontend, node)
    await held(frontend)
    busy = await install(frontend, META)
    status, page = await frontend.call("GET", "/api/backends?items=500")
    assert status == 200, page
    by_name = {one["name"]: one for one in page["backends"]}
    expected = {
        "id", "name", "description", "icon", "license", "urls", "tags", "gallery", "installed", "version",
        "processing", "isDeletion", "isMeta", "isAlias", "isDevelopment", "capabilities", "nodes",
    }  # fmt: skip
    assert expected <= by_name[META].keys()
    assert (by_name[META]["isMeta"], by_name[META]["processing"], by_name[META]["jobID"]) == (True, True, busy["id"])
    assert by_name[META]["runsOn"] == ["default"]
    assert by_name[CONCRETE]["metaBackendFor"] == META
    assert by_name[BACKEND]["installed"] is True
    assert [one["node_name"] for one in by_name[BACKEND]["nodes"]] == ["a"]
    assert page["processingBackends"] == {META: busy["id"]}
    assert page["taskTypes"] == {META: "installation"}
    assert page["installedBackends"] == 1
    assert page["systemCapability"] == "default"
    assert set(by_name[META]["tags"]) <= set(page["allTags"])
    found = (await frontend.call("GET", "/api/backends?term=llama&items=1&page=2&sort=status&order=desc"))[1]
    assert (found["currentPage"], len(found["backends"])) == (2, 1)
    for query in ("page=0", "items=0", "items=many", "sort=age", "order=up"):
        assert (await frontend.call("GET", f"/api/backends?{query}"))[0] == 400, query


async def test_smaller_lists_for_choices(frontend: RunningFrontend) -> None:
    await join_node(frontend, "a")
    known = {one["name"]: one for one in (await frontend.call("GET", "/backends/known"))[1]}
    assert META in known
    assert CONCRETE not in known
    assert "chat" in known[META]["serves"]
    assert "chat" in (await frontend.call("GET", "/api/backends/usecases"))[1][META]
    galleries = (await frontend.call("GET", "/backends/galleries"))[1]
    assert [one["name"] for one in galleries] == ["corral"]
    assert galleries[0]["entries"] > 0
    assert isinstance((await frontend.call("GET", "/backends/available"))[1], list)


async def test_node_off_the_bus_cannot_tell_what_runs(frontend: RunningFrontend) -> None:
    await join_node(frontend, "a")
    for method, path, body in (
        ("GET", "/processes", None),
        ("GET", "/backend-logs", None),
        ("GET", "/backend-logs/m%230", None),
        ("GET", "/backend-logs/m%230/stream", None),
        ("GET", "/backend-logs/m%230/download", None),
        ("POST", "/backends/start", {"backend": BACKEND}),
        ("POST", "/backends/stop", {"all": True}),
    ):
        status, answer = await frontend.call(method, f"/api/nodes/a{path}", body)
        assert status == 503, f"{path}: {answer}"
        assert_envelope(answer)
    for wrong in ({}, {"backend": "x", "all": True}, {"key": "m#0", "backend": "x"}):
        assert (await frontend.call("POST", "/api/nodes/a/backends/stop", wrong))[0] == 400
