"""Operations over HTTP: found at once, listed, acted upon, recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import text

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.client import CorralClient
from corral.domain.errors import Conflict, StoreUnavailable
from corral.store.database import Transaction
from corral.wire.backends import InstallBackendIn
from tests.api.backends import BACKEND, ask, has_it_now, held, install, live, report, shown, until_state
from tests.api.operations import SOME_ID, assert_envelope
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import join_node
from tests.support.polling import eventually
from tests.support.statements import count_statements

ACTIONS = ("cancel", "pause", "resume", "retry", "dismiss", "undismiss")


async def _failed(frontend: RunningFrontend, name: str = "gone") -> str:
    """An operation that failed because its node was removed."""
    node = await join_node(frontend, name)
    operation = await ask(frontend, f"/api/nodes/{name}/backends/install", {"backend": BACKEND})
    await until_state(frontend, operation["id"], "completed_with_pending")
    assert (await node.call_as_admin("DELETE", ""))[0] == 200
    await until_state(frontend, operation["id"], "failed")
    return str(operation["id"])


async def _completed(frontend: RunningFrontend, name: str) -> str:
    node = await join_node(frontend, name)
    operation = await ask(frontend, f"/api/nodes/{name}/backends/install", {"backend": BACKEND})
    await until_state(frontend, operation["id"], "completed_with_pending")
    await has_it_now(frontend, node)
    await until_state(frontend, operation["id"], "completed")
    return str(operation["id"])


@pytest.mark.behaviour("OPS-1")
@pytest.mark.behaviour("OPS-10")
async def test_operation_is_visible_on_every_frontend_at_once_whichever_route_created_it(
    frontend: RunningFrontend, database_url: str
) -> None:
    for name in ("a", "b", "c", "d"):
        await report(await join_node(frontend, name), "installed-before")
    await report(await join_node(frontend, "e"), {"name": BACKEND, "version": "1.0.0", "gallery": "corral"})
    ways: list[tuple[str, Any]] = [
        ("/api/backends/install/llama-cpp", None),
        ("/backends/apply", {"id": "corral@piper"}),
        ("/api/backends/install-external", {"uri": "/opt/engine", "name": "mine", "nodes": ["a"]}),
        ("/api/nodes/b/backends/install", {"backend": BACKEND}),
        (f"/api/backends/upgrade/{BACKEND}", None),
        ("/api/nodes/a/backends/delete", {"backend": "installed-before"}),
        ("/backends/delete/installed-before", {"nodes": ["b"]}),
        ("/api/backends/system/delete/installed-before", {"nodes": ["c"]}),
        ("/api/backends/delete/installed-before", {"nodes": ["d"]}),
    ]
    async with running_frontend(database_url) as other:
        await held(frontend, other)
        made = []
        for path, body in ways:
            admitted = await ask(frontend, path, body)
            assert admitted["state"] == "queued", path
            assert (await shown(other, admitted["id"]))["state"] == "queued"
            status, job = await other.call("GET", admitted["statusUrl"])
            assert (status, job["queued"], job["processed"]) == (200, True, False)
            made.append(admitted["id"])
        listed = {one["id"]: one["createdBy"] for one in await live(other)}
    assert len(set(made)) == len(ways)
    assert listed == dict.fromkeys(made, "admin")


@pytest.mark.behaviour("OPS-2")
@pytest.mark.parametrize("reference", [SOME_ID, "nothing", "%00", "x" * 300])
async def test_unknown_operation_is_404_on_every_route(frontend: RunningFrontend, reference: str) -> None:
    routes = [("GET", f"/api/operations/{reference}"), ("GET", f"/api/operations/{reference}/events")]
    routes += [("POST", f"/api/operations/{reference}/{action}") for action in ACTIONS]
    routes += [("GET", f"/api/backends/job/{reference}"), ("GET", f"/backends/jobs/{reference}")]
    for method, path in routes:
        status, answer = await frontend.call(method, path)
        assert status == 404, f"{method} {path}: {answer}"
        assert assert_envelope(answer, code="operation_not_found")["hint"]


@pytest.mark.behaviour("OPS-3")
async def test_repeated_request_joins_the_same_operation_and_says_so(
    frontend: RunningFrontend, database_url: str
) -> None:
    await join_node(frontend, "a")
    async with running_frontend(database_url) as other:
        await held(frontend, other)
        status, first = await frontend.call("POST", "/api/nodes/a/backends/install", {"backend": BACKEND})
        assert (status, first["deduplicated"]) == (202, False)
        status, again = await other.call("POST", "/api/nodes/a/backends/install", {"backend": BACKEND})
    assert (status, again["deduplicated"], again["id"]) == (200, True, first["id"])
    assert first["id"] in again["message"]


@pytest.mark.behaviour("OPS-31")
@pytest.mark.behaviour("OPS-18")
async def test_completed_operation_leaves_the_live_list_and_cannot_be_cancelled(frontend: RunningFrontend) -> None:
    done = await _completed(frontend, "a")
    assert await live(frontend) == []
    before = await shown(frontend, done)
    for action, code in (("cancel", "operation_ended"), ("pause", "operation_ended"), ("dismiss", "not_failed")):
        status, answer = await frontend.call("POST", f"/api/operations/{done}/{action}")
        assert status == 409, answer
        assert_envelope(answer, code=code)
    assert await shown(frontend, done) == before
    status, job = await frontend.call("GET", f"/api/backends/job/{done}")
    assert job | {"message": ""} == {
        "progress": 100.0, "message": "", "galleryElementName": BACKEND, "processed": True, "deletion": False,
        "queued": False, "completed": True, "state": "completed",
    } | ({"phase": job["phase"]} if "phase" in job else {})  # fmt: skip


@pytest.mark.behaviour("OPS-19")
@pytest.mark.behaviour("OPS-36")
async def test_failure_stays_listed_until_it_is_dismissed_and_then_stays_in_the_record(
    frontend: RunningFrontend, database_url: str
) -> None:
    failed = await _failed(frontend)
    async with running_frontend(database_url) as other:
        listed = next(one for one in await live(other) if one["id"] == failed)
        assert listed["error"]
        assert listed["nodes"][0]["error_code"] == "node_removed"
        assert (await other.call("GET", "/api/operations/history"))[1]["operations"] == []
        status, answer = await other.call("POST", f"/api/operations/{failed}/dismiss")
        assert (status, answer["success"]) == (200, True)
        assert answer["operation"]["state"] == "failed"
    assert await live(frontend) == []
    record = (await frontend.call("GET", "/api/operations/history"))[1]["operations"]
    assert [(one["id"], one["outcome"], one["error"]) for one in record] == [(failed, "failed", listed["error"])]


@pytest.mark.behaviour("OPS-26")
async def test_name_and_node_are_the_same_live_and_recorded_also_with_colons(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "a")
    await report(node, "odd:name:2")
    await held(frontend)
    operation = await ask(frontend, "/api/nodes/a/backends/delete", {"backend": "odd:name:2"})
    fleet = await install(frontend, "corral@piper")
    before = {one["id"]: one for one in await live(frontend)}
    for one in (operation, fleet):
        assert (await frontend.call("POST", f"/api/operations/{one['id']}/cancel"))[0] == 200
    after = {one["id"]: one for one in (await frontend.call("GET", "/api/operations/history"))[1]["operations"]}
    same = ("name", "fullName", "nodeID", "nodeName", "taskType", "isDeletion", "isBackend", "kind", "createdBy")
    for one in (operation, fleet):
        assert {key: before[one["id"]].get(key) for key in same} == {key: after[one["id"]].get(key) for key in same}
    assert before[operation["id"]]["name"] == "odd:name:2"
    assert before[operation["id"]]["fullName"] == f"node:{node.id}:odd:name:2"
    assert before[operation["id"]]["nodeID"] == node.id
    assert before[fleet["id"]]["name"] == "piper"
    assert "nodeID" not in before[fleet["id"]]


@pytest.mark.behaviour("API-20")
async def test_live_operations_have_the_fields_and_order_of_localai(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "b-node")
    await join_node(frontend, "a-node")
    # The older one is the less advanced one: the order is not simply that of their age.
    behind = await install(frontend, "piper")
    pending = await install(frontend)
    await until_state(frontend, pending["id"], "completed_with_pending")
    await has_it_now(frontend, node)

    async def half() -> Any:
        found = next((one for one in await live(frontend) if one["id"] == pending["id"]), None)
        return found if found and found["progress"] > 0 else None

    first = await eventually(half)
    listed = await live(frontend)
    assert [one["id"] for one in listed] == [behind["id"], pending["id"]]
    localai_fields = {
        "id", "name", "fullName", "jobID", "progress", "taskType", "isDeletion", "isBackend", "isQueued",
        "cancellable", "message", "nodes",
    }  # fmt: skip
    assert localai_fields <= first.keys()
    assert first["jobID"] == first["id"]
    assert first["taskType"] == "installation"
    assert [one["node_name"] for one in first["nodes"]] == ["a-node", "b-node"]
    assert {"node_id", "node_name", "status", "file_name", "percentage"} <= first["nodes"][0].keys()
    assert [one["status"] for one in first["nodes"]] == ["queued", "success"]
    assert "error" not in first
    assert "nodeID" not in first


async def test_operation_in_full_has_its_builds_its_request_and_its_log(frontend: RunningFrontend) -> None:
    await join_node(frontend, "a")
    operation = await install(frontend, "llama-cpp", strategy={"waves": [1], "deadline": "1h"})
    whole = await until_state(frontend, operation["id"], "completed_with_pending")
    assert whole["request"]["strategy"]["waves"] == [1]
    assert whole["deadlineAt"] > whole["createdAt"]
    build = whole["nodes"][0]["build"]
    assert (build["name"], build["meta"]) == ("cpu-llama-cpp", "llama-cpp")
    assert build["version"] == whole["nodes"][0]["version"]
    status, log = await frontend.call("GET", f"/api/operations/{operation['id']}/events")
    assert status == 200
    assert "Requested by admin." in [line["text"] for line in log]


async def test_cancel_pause_resume_and_retry_answer_with_the_operation(frontend: RunningFrontend) -> None:
    await join_node(frontend, "a")
    await held(frontend)
    operation_id = (await install(frontend))["id"]
    status, paused = await frontend.call("POST", f"/api/operations/{operation_id}/pause")
    assert (status, paused["operation"]["state"]) == (200, "paused")
    assert [one["state"] for one in await live(frontend)] == ["paused"]
    status, resumed = await frontend.call("POST", f"/api/operations/{operation_id}/resume")
    assert (status, resumed["operation"]["id"], resumed["operation"]["state"]) == (200, operation_id, "queued")
    status, cancelled = await frontend.call("POST", f"/api/operations/{operation_id}/cancel")
    assert (status, cancelled["operation"]["state"]) == (200, "cancelled")
    assert (await frontend.call("GET", "/api/backend-intents"))[1] == []
    status, retried = await frontend.call("POST", f"/api/operations/{operation_id}/retry")
    assert status == 200, retried
    assert retried["id"] != operation_id
    assert retried["operation"]["retryOf"] == operation_id
    again = await shown(frontend, retried["id"])
    assert again["request"] == (await shown(frontend, operation_id))["request"]


@pytest.mark.behaviour("OPS-24")
async def test_record_is_read_in_pages_without_gaps_by_one_statement_each(frontend: RunningFrontend) -> None:
    await join_node(frontend, "a")
    made = []
    for _ in range(7):
        operation = await install(frontend)
        assert (await frontend.call("POST", f"/api/operations/{operation['id']}/cancel"))[0] == 200
        made.append(operation["id"])
    seen: list[str] = []
    cursor = ""
    while True:
        status, page = await frontend.call("GET", f"/api/operations/history?limit=3&before={cursor}")
        assert status == 200, page
        seen += [one["id"] for one in page["operations"]]
        cursor = page.get("next", "")
        if not cursor:
            break
    assert seen == list(reversed(made))
    statements: list[str] = []
    count_statements(frontend.database, statements.append)
    await frontend.call("GET", "/api/operations/history?limit=200")
    assert len([one for one in statements if "ORDER BY operations.finished_at DESC" in one]) == 1


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=201",
        "before=x",
        "before=1-2",
        f"before=9999999999999999999-{SOME_ID}",
        "outcome=odd",
        "kind=odd",
        "since=yesterday",
        "since=0001-01-01T00:00:00%2B14:00",
        "until=9999-12-31T23:59:59-14:00",
    ],
)
async def test_page_that_makes_no_sense_is_400(frontend: RunningFrontend, query: str) -> None:
    status, answer = await frontend.call("GET", f"/api/operations/history?{query}")
    assert status == 400, answer
    assert_envelope(answer)


async def test_operation_history_is_filtered_by_node_name_or_id_and_names_the_nodes(
    frontend: RunningFrontend,
) -> None:
    first, second = await join_node(frontend, "a"), await join_node(frontend, "b")
    both = (await install(frontend))["id"]
    alone = (await ask(frontend, "/api/nodes/b/backends/install", {"backend": "piper"}))["id"]
    for one in (both, alone):
        await until_state(frontend, one, "completed_with_pending")
        assert (await frontend.call("POST", f"/api/operations/{one}/cancel"))[0] == 200

    async def of(node: str) -> list[tuple[str, list[str], int]]:
        status, page = await frontend.call("GET", f"/api/operations/history?node={node}")
        assert status == 200, page
        return [(one["id"], one["nodes"], one["nodeCount"]) for one in page["operations"]]

    shared = (both, ["a", "b"], 2)
    assert await of("a") == await of(first.id) == [shared]
    assert await of("b") == await of(second.id) == [(alone, ["b"], 1), shared]
    assert await of("nobody") == []


@pytest.mark.behaviour("OPS-161")
async def test_undismiss_lists_a_dismissed_failure_again(frontend: RunningFrontend) -> None:
    failed = await _failed(frontend)
    path = f"/api/operations/{failed}"
    status, answer = await frontend.call("POST", f"{path}/undismiss")
    assert status == 409
    assert_envelope(answer, code="not_dismissed")
    assert (await frontend.call("POST", f"{path}/dismiss"))[0] == 200
    assert failed not in [one["id"] for one in await live(frontend)]
    assert (await frontend.call("POST", f"{path}/undismiss"))[0] == 200
    assert failed in [one["id"] for one in await live(frontend)]
    assert (await frontend.call("GET", "/api/operations/history"))[1]["operations"] == []


@pytest.mark.behaviour("OPS-160")
async def test_history_finds_a_failure_behind_a_page_of_other_operations(frontend: RunningFrontend) -> None:
    failed = await _failed(frontend)
    assert (await frontend.call("POST", f"/api/operations/{failed}/dismiss"))[0] == 200
    await join_node(frontend, "a")
    for _ in range(3):
        cancelled = (await install(frontend))["id"]
        assert (await frontend.call("POST", f"/api/operations/{cancelled}/cancel"))[0] == 200

    async def of(query: str) -> list[str]:
        status, page = await frontend.call("GET", f"/api/operations/history?limit=2&{query}")
        assert status == 200, page
        return [one["id"] for one in page["operations"]]

    record = (await frontend.call("GET", "/api/operations/history"))[1]["operations"]
    ended = {one["id"]: one["finishedAt"] for one in record}
    error = next(one["error"] for one in record if one["id"] == failed)
    assert await of("outcome=failed") == [failed]
    assert cancelled in await of("outcome=cancelled")
    assert await of("outcome=completed") == []
    assert await of("kind=models") == []
    assert len(await of("kind=backends")) == len(await of("kind=backend_install")) == 2
    assert await of(f"search={failed[-12:].upper()}") == [failed]
    assert await of(f"search={quote(error[:20].upper())}") == [failed]
    assert await of("search=%25") == await of("search=%00") == []
    assert await of(f"until={quote(ended[cancelled])}&outcome=cancelled") != [cancelled]
    assert await of(f"since={quote(ended[cancelled])}") == [cancelled]


@pytest.mark.behaviour("OPS-23")
async def test_clear_history_deletes_ended_operations_and_returns_their_number(frontend: RunningFrontend) -> None:
    done = await _completed(frontend, "a")
    failed = await _failed(frontend)
    assert (await frontend.call("DELETE", "/api/operations/history"))[1] == {"success": True, "removed": 1}
    assert (await frontend.call("GET", f"/api/operations/{done}"))[0] == 404
    assert (await shown(frontend, failed))["state"] == "failed"


@pytest.mark.behaviour("OPS-25")
async def test_history_that_was_read_last_is_shown_and_marked_while_postgresql_is_away(
    frontend: RunningFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = await _completed(frontend, "a")
    fresh = (await frontend.call("GET", "/api/operations/history"))[1]
    assert "stale" not in fresh

    @asynccontextmanager
    async def away() -> AsyncIterator[Transaction]:
        raise StoreUnavailable("PostgreSQL does not respond.")
        yield  # type: ignore[unreachable]

    monkeypatch.setattr(frontend.database, "transaction", away)
    status, kept = await frontend.call("GET", "/api/operations/history")
    assert status == 200, kept
    assert kept["stale"]
    assert [one["id"] for one in kept["operations"]] == [done]
    # An older page was never read: that is said, and no empty list is made up.
    status, answer = await frontend.call("GET", f"/api/operations/history?before=1-{SOME_ID}")
    assert status == 503
    assert_envelope(answer, code="store_unavailable")


@pytest.mark.behaviour("OPS-43")
async def test_many_readers_during_many_endings_get_whole_answers(frontend: RunningFrontend) -> None:
    nodes = [await join_node(frontend, f"n{number}") for number in range(4)]
    operation_ids = [
        (await ask(frontend, f"/api/nodes/{node.name}/backends/install", {"backend": name}))["id"]
        for node in nodes
        for name in ("fake", "piper", "llama-cpp")
    ]

    async def read() -> None:
        for _ in range(12):
            for one in await live(frontend):
                assert one["id"] in operation_ids
                assert one["state"] not in ("completed", "cancelled")
                assert len(one["nodes"]) <= 1

    async with asyncio.TaskGroup() as together:
        for _ in range(10):
            together.create_task(read())
        for one in operation_ids:
            together.create_task(frontend.call("POST", f"/api/operations/{one}/cancel"))
    assert await live(frontend) == []


async def test_pending_change_is_listed_and_can_be_discarded(frontend: RunningFrontend) -> None:
    await join_node(frontend, "a")
    operation = await ask(frontend, "/api/nodes/a/backends/install", {"backend": BACKEND})
    await until_state(frontend, operation["id"], "completed_with_pending")
    status, pending = await frontend.call("GET", "/api/backend-intents")
    assert status == 200
    assert [(one["node_name"], one["backend"], one["desired"], one["state"]) for one in pending] == [
        ("a", BACKEND, "present", "open")
    ]
    assert pending[0]["operation_id"] == operation["id"]
    status, answer = await frontend.call("POST", f"/api/backend-intents/a/{BACKEND}/revive")
    assert status == 409, answer
    assert_envelope(answer, code="assignment_open")
    assert (await frontend.call("DELETE", f"/api/backend-intents/a/{BACKEND}"))[0] == 200
    assert (await frontend.call("GET", "/api/backend-intents"))[1] == []
    status, answer = await frontend.call("DELETE", f"/api/backend-intents/a/{BACKEND}")
    assert status == 404
    assert_envelope(answer, code="assignment_not_found")
    await until_state(frontend, operation["id"], "cancelled", "failed", "completed", "superseded")


async def test_failed_assignment_can_be_retried(frontend: RunningFrontend) -> None:
    await join_node(frontend, "a")
    operation = await ask(frontend, "/api/nodes/a/backends/install", {"backend": BACKEND})
    await until_state(frontend, operation["id"], "completed_with_pending")
    async with frontend.database.transaction() as tx:
        await tx.execute(text("UPDATE assignments SET state = 'dead', attempts = 10"))
    status, revived = await frontend.call("POST", f"/api/backend-intents/a/{BACKEND}/revive")
    assert status == 200, revived
    assert revived["operation"]["retryOf"] == operation["id"]
    assert revived["operation"]["nodeName"] == "a"


async def test_client_reads_what_the_frontend_writes(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "a")
    async with CorralClient(frontend.url, ADMIN_KEY, clock=SystemClock(), ids=SystemIdGenerator()) as client:
        plan = await client.backends.plan_change("install", BACKEND, InstallBackendIn())
        assert [one.node_name for one in plan.nodes] == ["a"]
        operation = await client.backends.request_change("install", BACKEND, InstallBackendIn())
        states = [step.state async for step in client.operations.follow(operation.id)]
        assert states[-1] == "completed_with_pending"
        assert (await client.operations.list())[0].id == operation.id
        assert (await client.assignments.list())[0].node_name == "a"
        await has_it_now(frontend, node)
        await until_state(frontend, operation.id, "completed")
        assert (await client.backends.list())[0].nodes[0].node_name == "a"
        assert (await client.backends.list_on_node("a"))[0].name == BACKEND
        assert [one.id for one in (await client.operations.list_history()).operations] == [operation.id]
        assert [note.text for note in await client.operations.list_notes(operation.id)]
        with pytest.raises(Conflict) as refused:
            await client.operations.cancel(operation.id)
        assert refused.value.slug == "operation_ended"
        assert await client.operations.clear_history() == 1
