"""`/api/runs` and what workers fetch and deliver about runs: owners, tickets, streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text

from corral.access import directory
from corral.domain.access import Owner
from corral.domain.operation import JobId
from corral.domain.run import Run, RunId, RunKind
from corral.policy.sealing_keys import make_sealing_key
from corral.runs.pool import RunEnding
from corral.store import artifacts
from corral.store import nodes as node_store
from corral.store import runs as store
from corral.store.database import Transaction
from corral.store.loads import NewTarget
from corral.store.runs import NewRun
from corral.wire.run_work import EVENT_BYTES_MAX, OUTCOME_BYTES_MAX, measure_json
from tests.api.streams import open_stream
from tests.operations.scene import wait_for_locks
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import PretendNode, create_join_token
from tests.support.polling import eventually


class EchoKind:
    """Builds a spec that repeats the request."""

    async def build_spec(self, tx: Transaction, run: Run) -> dict[str, Any]:
        del tx
        spec = {"model": "m", "messages": [{"role": "user", "content": run.request["text"]}]}
        return {**spec, "mcp_servers": run.request.get("servers", [])}

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None:
        del tx, ending


@dataclass
class HeldRun:
    """A run that an agent node holds, and the key of its owner."""

    frontend: RunningFrontend
    node: PretendNode
    key: str
    id: str
    job_id: str

    async def deliver(self, *events: dict[str, Any], job_id: str = "") -> tuple[int, Any]:
        now = datetime.now(UTC).isoformat()
        body = {"job_id": job_id or self.job_id, "events": [{"at": now, **event} for event in events]}
        return await self.node.call("POST", f"/runs/{self.id}/events", body)

    async def read(self, path: str = "", key: str = "") -> tuple[int, Any]:
        return await self.frontend.call("GET", f"/api/runs/{self.id}{path}", key=key or self.key)


async def make_key(frontend: RunningFrontend, name: str, **body: Any) -> dict[str, Any]:
    status, made = await frontend.call("POST", "/api/keys", {"name": name} | body)
    assert status == 201, made
    return dict(made)


@pytest.fixture
async def held(frontend: RunningFrontend) -> HeldRun:
    frontend.core.runs._kinds[RunKind.CHAT] = EchoKind()
    # The test takes the dispatcher's place: the run is not driven from its admission on.
    frontend.core.runs.admission.claimer = None
    node = PretendNode(frontend, "agent-1")
    token = await create_join_token(frontend, approves=True)
    status, answer = await node.register(token, node_type="agent", max_runs=2)
    assert status == 201, answer
    made = await make_key(frontend, "app")
    owner = Owner(key_id=made["id"])
    new = NewRun(
        kind=RunKind.CHAT, owner=owner, owner_name="app", key_id=made["id"], subject="t", request={"text": "hello"}
    )
    job_id = "01a1eda5-a3fd-783e-83d6-08912054e399"
    async with frontend.database.transaction() as tx:
        run_id = await frontend.core.runs.admission.start(tx, new)
        await tx.execute(text("UPDATE operations SET due_at = NULL"))
        given = NewTarget(node=await node_store.get_node(tx, node.id), job_id=JobId(job_id), build={})
        await store.begin_attempt(tx, run_id, given)
        await store.mark_running(tx, [JobId(job_id)])
    return HeldRun(frontend, node, made["key"], run_id, job_id)


@pytest.mark.behaviour("RUNS-11")
async def test_worker_fetches_its_run_with_a_ticket_that_asks_models_for_the_owner(held: HeldRun) -> None:
    status, work = await held.node.call("GET", f"/runs/{held.id}?job_id={held.job_id}")
    assert status == 200, work
    assert work["spec"]["messages"] == [{"role": "user", "content": "hello"}]
    ticket = work["spec"]["ticket"]
    assert (await held.frontend.call("GET", "/v1/models", key=ticket))[0] == 200
    status, answer = await held.frontend.call(
        "POST", "/v1/chat/completions", {"model": "none", "messages": []}, key=ticket
    )
    assert status == 404, answer


@pytest.mark.behaviour("RUNS-11")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/nodes", None),
        ("GET", "/api/runs", None),
        ("GET", "/api/secrets", None),
        ("PUT", "/api/secrets/own", {"value": "taken"}),
        ("GET", "/api/agents", None),
        ("POST", "/api/agent/tasks", {"name": "t", "model": "m", "prompt": "p"}),
        ("GET", "/api/usage", None),
        ("GET", "/api/me", None),
        ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    ],
)
async def test_ticket_of_a_run_is_refused_for_everything_but_models(
    held: HeldRun, method: str, path: str, body: Any
) -> None:
    _, work = await held.node.call("GET", f"/runs/{held.id}?job_id={held.job_id}")
    status, refused = await held.frontend.call(method, path, body, key=work["spec"]["ticket"])
    assert (status, refused["error"]["code"]) == (403, "run_ticket_refused")


@pytest.mark.behaviour("RUNS-11")
async def test_ticket_of_a_run_opens_no_session(held: HeldRun) -> None:
    _, work = await held.node.call("GET", f"/runs/{held.id}?job_id={held.job_id}")
    status, refused = await held.frontend.call("POST", "/api/session", {"key": work["spec"]["ticket"]}, key="")
    assert (status, refused["error"]["code"]) == (403, "run_ticket_refused")


@pytest.mark.behaviour("RUNS-11")
async def test_ticket_of_a_run_ends_with_the_key_of_its_owner(held: HeldRun) -> None:
    _, work = await held.node.call("GET", f"/runs/{held.id}?job_id={held.job_id}")
    ticket = work["spec"]["ticket"]
    assert (await held.frontend.call("GET", "/v1/models", key=ticket))[0] == 200
    listed = (await held.frontend.call("GET", "/api/keys"))[1]
    [key_id] = [key["id"] for key in listed if key["name"] == "app"]
    assert (await held.frontend.call("DELETE", f"/api/keys/{key_id}"))[0] in (200, 204)
    status, refused = await held.frontend.call("GET", "/v1/models", key=ticket)
    assert (status, refused["error"]["code"]) == (401, "run_owner_gone")


@pytest.mark.behaviour("RUNS-11")
async def test_ticket_of_a_run_ends_with_the_run(held: HeldRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "RUN_RECHECK_S", 0.0)
    _, work = await held.node.call("GET", f"/runs/{held.id}?job_id={held.job_id}")
    ticket = work["spec"]["ticket"]
    assert (await held.frontend.call("GET", "/v1/models", key=ticket))[0] == 200
    assert (await held.frontend.call("POST", f"/api/runs/{held.id}/cancel", key=held.key))[0] == 200
    status, refused = await held.frontend.call("GET", "/v1/models", key=ticket)
    assert (status, refused["error"]["code"]) == (401, "run_ended")


@pytest.mark.behaviour("TASK-20")
async def test_run_whose_key_was_revoked_fails_before_its_worker_gets_anything(held: HeldRun) -> None:
    listed = (await held.frontend.call("GET", "/api/keys"))[1]
    [key_id] = [key["id"] for key in listed if key["name"] == "app"]
    assert (await held.frontend.call("DELETE", f"/api/keys/{key_id}"))[0] in (200, 204)
    status, refused = await held.node.call("GET", f"/runs/{held.id}?job_id={held.job_id}")
    assert (status, refused["error"]["code"]) == (409, "run_failed")
    assert "no longer works" in refused["error"]["message"]
    async with held.frontend.database.transaction() as tx:
        [event] = await store.read_events(tx, held.id, 0)
    assert event.data["error_code"] == "run_owner_gone"


async def test_forged_ticket_is_refused(held: HeldRun) -> None:
    _, work = await held.node.call("GET", f"/runs/{held.id}?job_id={held.job_id}")
    head, claims, signature = work["spec"]["ticket"].split(".")
    forged = f"{head}.{claims}.{'A' * len(signature)}"
    assert (await held.frontend.call("GET", "/v1/models", key=forged))[0] == 401


async def test_run_is_handed_out_only_to_the_node_and_the_attempt_that_hold_it(held: HeldRun) -> None:
    other = PretendNode(held.frontend, "agent-2")
    await other.register(await create_join_token(held.frontend, approves=True), node_type="agent", max_runs=2)
    status, refused = await other.call("GET", f"/runs/{held.id}?job_id={held.job_id}")
    assert (status, refused["error"]["code"]) == (409, "run_not_held")
    status, _ = await held.node.call("GET", f"/runs/{held.id}?job_id=01a1eda5-a3fd-783e-83d6-08912054e398")
    assert status == 409
    status, answer = await other.call("POST", f"/runs/{held.id}/events", {"job_id": held.job_id, "events": []})
    assert (status, answer["must_stop"]) == (200, True)
    status, _ = await held.frontend.call("GET", f"/api/node/{held.node.id}/runs/{held.id}?job_id={held.job_id}")
    assert status == 401


@pytest.mark.behaviour("RUNS-17")
@pytest.mark.parametrize(("kind", "limit"), [("tool_result", EVENT_BYTES_MAX), ("end", OUTCOME_BYTES_MAX)])
async def test_entry_that_is_larger_than_a_worker_may_send_is_refused(held: HeldRun, kind: str, limit: int) -> None:
    empty = {"state": "completed", "content": ""}
    room = limit - measure_json(empty)
    largest, larger = ({**empty, "content": "x" * characters} for characters in (room, room + 1))
    status, refused = await held.deliver({"seq": 1, "type": kind, "data": larger})
    assert (status, refused["error"]["code"]) == (400, "event_too_large")
    assert (await held.deliver({"seq": 1, "type": kind, "data": largest}))[1]["last_seq"] == 1


async def test_owner_reads_the_run_its_trace_and_its_stream(held: HeldRun) -> None:
    status, answer = await held.deliver(
        {"seq": 1, "type": "content", "data": {"text": "hi"}},
        {"seq": 2, "type": "end", "data": {"state": "completed", "content": "hi"}},
    )
    assert (status, answer["last_seq"]) == (200, 2), answer
    status, run = await held.read()
    assert (status, run["subject"], run["last_seq"]) == (200, "t", 2)
    status, trace = await held.read("/trace?after=1")
    assert [event["seq"] for event in trace["events"]] == [2]
    status, stream = await held.frontend.call("GET", f"/api/runs/{held.id}/events", key=held.key, Last_Event_ID="1")
    assert status == 200
    assert [line for line in stream.splitlines() if line.startswith("id:")] == ["id: 2"]
    assert [line for line in stream.splitlines() if line.startswith("event:")] == ["event: hello", "event: end"]


@pytest.mark.behaviour("API-7")
async def test_stream_of_a_run_ends_when_its_reader_may_not_see_the_run_any_more(held: HeldRun) -> None:
    frontend, path = held.frontend, f"/api/runs/{held.id}/events"
    reader = await make_key(frontend, "reader", scope="admin")
    async with open_stream(frontend.url, path=f"{path}?all_users=true", key=reader["key"]) as stream:
        assert (await stream.next()).event == "hello"
        assert (await frontend.call("PATCH", f"/api/keys/{reader['id']}", {"scope": "infer"}))[0] == 200
        await stream.read_to_end()
    async with open_stream(frontend.url, path=path, key=held.key) as stream:
        assert (await stream.next()).event == "hello"
        [own] = [key for key in (await frontend.call("GET", "/api/keys"))[1] if key["name"] == "app"]
        assert (await frontend.call("DELETE", f"/api/keys/{own['id']}"))[0] == 200
        await held.deliver({"seq": 1, "type": "content", "data": {"text": "secret"}})
        assert "content" not in [frame.event for frame in await stream.read_to_end()]


@pytest.mark.behaviour("RUNS-10")
async def test_run_of_another_owner_is_not_found_and_admins_see_it_with_all_users(held: HeldRun) -> None:
    stranger = (await make_key(held.frontend, "stranger"))["key"]
    for path in ("", "/trace", "/events"):
        assert (await held.read(path, key=stranger))[0] == 404
    assert (await held.frontend.call("POST", f"/api/runs/{held.id}/cancel", key=stranger))[0] == 404
    assert (await held.frontend.call("DELETE", f"/api/runs/{held.id}", key=stranger))[0] == 404
    status, refused = await held.read("?all_users=true", key=stranger)
    assert status == 403, refused
    assert (await held.frontend.call("GET", "/api/runs", key=stranger))[1]["runs"] == []
    status, seen = await held.frontend.call("GET", "/api/runs?all_users=true")
    assert [run["id"] for run in seen["runs"]] == [held.id]


async def test_cancelled_run_tells_its_worker_to_stop_and_can_be_deleted(held: HeldRun) -> None:
    status, refused = await held.frontend.call("DELETE", f"/api/runs/{held.id}", key=held.key)
    assert (status, refused["error"]["code"]) == (409, "run_open")
    status, run = await held.frontend.call("POST", f"/api/runs/{held.id}/cancel", key=held.key)
    assert (status, run["state"]) == (200, "cancelled")
    assert (await held.deliver())[1]["must_stop"] is True
    assert (await held.frontend.call("DELETE", f"/api/runs/{held.id}", key=held.key))[0] == 204
    assert (await held.read())[0] == 404


async def test_lists_of_runs_are_filtered_and_paged(held: HeldRun) -> None:
    queries = [("state=open", 1), ("state=completed", 0), ("kind=chat", 1), ("kind=task", 0)]
    queries += [("node=agent-1", 1), (f"node={held.node.id}", 1), ("node=agent-2", 0), (f"node={held.id}", 0)]
    for query, number in queries:
        _, found = await held.frontend.call("GET", f"/api/runs?{query}", key=held.key)
        assert len(found["runs"]) == number, query
    status, refused = await held.frontend.call("GET", "/api/runs?state=odd", key=held.key)
    assert status == 400, refused
    odd = ["odd", "2026-01-01", "2026-01-01~odd", f"0001-01-01T00:00:00%2B23:59~{held.id}"]
    for page in odd:
        status, refused = await held.frontend.call("GET", f"/api/runs?before={page}", key=held.key)
        assert status == 400, (page, refused)
    status, refused = await held.read(f"/trace?after={10**30}")
    assert status == 400, refused
    _, page = await held.frontend.call("GET", "/api/runs?limit=1", key=held.key)
    _, rest = await held.frontend.call(
        "GET", f"/api/runs?limit=1&before={page['next']}".replace("+", "%2B"), key=held.key
    )
    assert rest["runs"] == []


async def use_server(held: HeldRun, **server: Any) -> tuple[int, Any]:
    """Give the run an MCP server, and fetch the run as its worker."""
    body = {"name": "s", "transport": "http", "url": "https://tools.example/mcp", **server}
    async with held.frontend.database.transaction() as tx:
        request = json.dumps({"text": "hello", "servers": [body]})
        await tx.execute(text("UPDATE runs SET request = CAST(:request AS jsonb)"), {"request": request})
    return await held.node.call("GET", f"/runs/{held.id}?job_id={held.job_id}")


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    """A frontend that can seal secrets."""
    async with running_frontend(database_url, sealing_keys=(make_sealing_key(bytes(range(32))),)) as running:
        yield running


async def test_secrets_of_the_owner_reach_the_worker_in_the_place_of_their_references(held: HeldRun) -> None:
    assert (await held.frontend.call("PUT", "/api/secrets/token", {"value": "s3cret"}, key=held.key))[0] == 200
    headers = {"Authorization": "Bearer secret:token", "X-Plain": "yes"}
    status, work = await use_server(held, headers=headers, env={"TOKEN": "secret:token"})
    assert status == 200, work
    [server] = work["spec"]["mcp_servers"]
    assert server["headers"] == {"Authorization": "Bearer s3cret", "X-Plain": "yes"}
    assert server["env"] == {"TOKEN": "s3cret"}


async def test_secret_of_the_cluster_is_for_servers_that_an_admin_has_declared(held: HeldRun) -> None:
    path = "/api/secrets/shared?scope=cluster"
    assert (await held.frontend.call("PUT", path, {"value": "s3cret"}))[0] == 200
    status, work = await use_server(held, headers={"A": "cluster-secret:shared"}, is_declared=True)
    assert (status, work["spec"]["mcp_servers"][0]["headers"]) == (200, {"A": "s3cret"})
    status, refused = await use_server(held, headers={"A": "cluster-secret:shared"})
    assert status == 409
    assert "s3cret" not in json.dumps(refused)
    _, run = await held.read()
    assert run["error_code"] in (None, "cluster_secret_refused")


async def test_run_with_a_missing_secret_fails_with_its_name(held: HeldRun) -> None:
    status, refused = await use_server(held, headers={"A": "secret:nowhere"})
    assert (status, refused["error"]["code"]) == (409, "run_failed")

    async def is_failed() -> Any:
        _, run = await held.read()
        return run if run["state"] == "failed" else None

    failed = await eventually(is_failed)
    assert failed["error_code"] == "secret_not_found"
    assert "nowhere" in failed["error_text"]


FILE = {"name": "c1/plot.png", "media_type": "image/png", "content": "iVBORw=="}


async def test_file_that_is_delivered_twice_at_once_is_stored_once(held: HeldRun) -> None:
    run = await held.frontend.core.runs.get(held.id, None)
    body = {"job_id": held.job_id, **FILE}
    async with asyncio.TaskGroup() as group, held.frontend.database.transaction() as tx:
        await artifacts.lock_owner(tx, run.owner)
        sent = [group.create_task(held.node.call("POST", f"/runs/{held.id}/files", body)) for _ in range(2)]
        await wait_for_locks(held.frontend.database, 2)
    (status, stored), again = [task.result() for task in sent]
    assert (status, again) == (200, (200, stored))


async def test_file_is_refused_if_its_run_is_given_to_another_worker_meanwhile(held: HeldRun) -> None:
    body = {"job_id": held.job_id, **FILE}
    async with asyncio.TaskGroup() as group, held.frontend.database.transaction() as tx:
        await store.lock_run(tx, held.id)
        sent = group.create_task(held.node.call("POST", f"/runs/{held.id}/files", body))
        await wait_for_locks(held.frontend.database, 1)
        await store.requeue(tx, RunId(held.id), "Taken back.")
    status, refused = sent.result()
    assert (status, refused["error"]["code"]) == (409, "run_not_held")
