"""`/api/agent`: tasks and jobs over HTTP, at one frontend and at three."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from corral.adapters.http import HttpFetcher
from corral.adapters.nats.authority import NatsAuthority
from tests.access.test_secret_sealer import FIRST
from tests.api.streams import open_stream
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import PretendNode, create_join_token
from tests.support.polling import eventually
from tests.tasks.scene import receiving_webhooks

TASK = {"name": "greet", "model": "chat", "prompt": "Hello {{ name }}"}
# Webhooks of these tests go to the loopback.
OPTIONS: dict[str, Any] = {"allows_private_webhooks": True, "sealing_keys": (FIRST,)}
PICTURE = "data:image/png;base64," + base64.b64encode(b"\x89PNG picture").decode()


@dataclass
class TaskCluster:
    """Holds frontends on one database, an agent node that takes runs, and the key of a user with tasks."""

    frontends: list[RunningFrontend]
    node: PretendNode
    key: str

    async def call(
        self, method: str, path: str, body: Any = None, *, at: int = 0, key: str = "", **headers: str
    ) -> tuple[int, Any]:
        frontend = self.frontends[at]
        return await frontend.call(method, f"/api/agent{path}", body, key=key or self.key, **headers)

    async def create(self, **fields: Any) -> str:
        status, made = await self.call("POST", "/tasks", TASK | fields)
        assert status == 201, made
        return str(made["id"])

    async def execute(self, **fields: Any) -> str:
        body = {"task_id": "greet", "parameters": {"name": "Ann"}} | fields
        status, made = await self.call("POST", "/jobs/execute", body)
        assert status == 201, made
        return str(made["job_id"])

    async def hold(self, job_id: str) -> str:
        """Wait until a frontend has given the job to the node, and return the id of that attempt."""

        async def look() -> str:
            async with self.frontends[0].database.transaction() as tx:
                statement = text("SELECT coalesce(job_id::text, '') AS job_id FROM runs WHERE id = CAST(:id AS uuid)")
                return str((await tx.execute(statement, {"id": job_id})).one().job_id)

        return await eventually(look)

    async def deliver(self, job_id: str, *events: dict[str, Any], at: int = 0) -> Any:
        """Deliver entries of the job's trace to a frontend, as the worker of the node does."""
        now = datetime.now(UTC).isoformat()
        body = {"job_id": await self.hold(job_id), "events": [{"at": now, **event} for event in events]}
        path = f"/api/node/{self.node.id}/runs/{job_id}/events"
        status, answer = await self.frontends[at].call("POST", path, body, key=self.node.credential)
        assert status == 200, answer
        return answer

    async def read(self, job_id: str, *, at: int = 0) -> dict[str, Any]:
        status, job = await self.call("GET", f"/jobs/{job_id}", at=at)
        assert status == 200, job
        return dict(job)


async def make_key(frontend: RunningFrontend, name: str, **body: Any) -> str:
    status, made = await frontend.call("POST", "/api/keys", {"name": name} | body)
    assert status == 201, made
    return str(made["key"])


@pytest.fixture
async def cluster(database_url: str) -> AsyncIterator[TaskCluster]:
    async with AsyncExitStack() as stack:
        fetcher, authority = HttpFetcher(uses_proxies=False), NatsAuthority.create()
        stack.push_async_callback(fetcher.stop)
        frontends = [
            await stack.enter_async_context(
                running_frontend(database_url, authority=authority, fetcher=fetcher, **OPTIONS)
            )
            for _ in range(3)
        ]
        status, answer = await frontends[0].call("PUT", "/api/models/config/chat", {"backend": "fake"})
        assert status == 200, answer
        node = PretendNode(frontends[0], "agent-1")
        token = await create_join_token(frontends[0], approves=True)
        status, answer = await node.register(token, node_type="agent", max_runs=50)
        assert status == 201, answer
        yield TaskCluster(frontends, node, await make_key(frontends[0], "app"))


@pytest.mark.behaviour("TASK-1")
async def test_task_without_name_model_or_prompt_is_400_and_disabled_is_kept(cluster: TaskCluster) -> None:
    for field in ("name", "model", "prompt"):
        body = {name: value for name, value in TASK.items() if name != field}
        status, refused = await cluster.call("POST", "/tasks", body)
        assert (status, field in refused["error"]["message"]) == (400, True), refused
    status, refused = await cluster.call("POST", "/tasks", TASK | {"model": "nope"})
    assert (status, refused["error"]["code"]) == (404, "model_not_found")
    assert "'nope'" in refused["error"]["message"]
    task_id = await cluster.create(enabled=False)
    status, task = await cluster.call("GET", f"/tasks/{task_id}", at=1)
    assert (status, task["enabled"], task["parameters"]) == (200, False, ["name"])
    # Parsing the prompts of many tasks would take seconds.
    status, tasks = await cluster.call("GET", "/tasks")
    assert [(listed["id"], "parameters" in listed) for listed in tasks] == [(task_id, False)]
    status, refused = await cluster.call("POST", "/tasks/greet/execute", {"name": "Ann"})
    assert (status, refused["error"]["code"]) == (409, "task_disabled")
    assert (await cluster.call("POST", f"/tasks/{task_id}/enable"))[1]["enabled"] is True
    assert (await cluster.call("POST", "/tasks/greet/disable"))[1]["enabled"] is False


@pytest.mark.behaviour("AGENT-50")
async def test_change_of_a_revision_that_another_frontend_has_replaced_is_refused(cluster: TaskCluster) -> None:
    task_id = await cluster.create()
    _, task = await cluster.call("GET", f"/tasks/{task_id}")
    match = f'"{task["revision"]}"'
    status, changed = await cluster.call(
        "PUT", f"/tasks/{task_id}", task | {"prompt": "One {{ name }}"}, if_match=match
    )
    assert (status, changed["revision"]) == (200, task["revision"] + 1)
    late = task | {"prompt": "Two {{ name }}"}
    status, refused = await cluster.call("PUT", f"/tasks/{task_id}", late, at=1, if_match=match)
    assert (status, refused["error"]["code"]) == (409, "revision_conflict")
    assert (await cluster.call("GET", f"/tasks/{task_id}"))[1]["prompt"] == "One {{ name }}"
    # Without a revision the last one counts, as before.
    assert (await cluster.call("PUT", f"/tasks/{task_id}", late))[0] == 200


async def test_task_is_read_edited_and_deleted_on_any_frontend(cluster: TaskCluster) -> None:
    task_id = await cluster.create(
        cron="0 9 * * *",
        time_zone="Europe/Rome",
        webhooks=[{"url": "https://x.example/hook"}],
        multimedia_sources=[{"type": "image", "url": "https://x.example/i.png"}],
        budgets={"wall_s": 60},
    )
    _, task = await cluster.call("GET", "/tasks/greet", at=1)
    assert task["next_run_at"]
    assert (task["budgets"]["wall_s"], task["budgets"]["steps"], task["max_attempts"]) == (60, 3, 3)
    # What was read can be sent back.
    status, edited = await cluster.call("PUT", f"/tasks/{task_id}", task | {"name": "hello", "cron": ""}, at=2)
    assert (status, edited["id"], edited["created_at"]) == (200, task_id, task["created_at"])
    assert (edited["name"], edited["revision"], edited["next_run_at"]) == ("hello", 2, None)
    assert edited["multimedia_sources"] == task["multimedia_sources"]
    assert (await cluster.call("GET", "/tasks/greet"))[0] == 404
    assert [one["name"] for one in (await cluster.call("GET", "/tasks"))[1]] == ["hello"]
    assert (await cluster.call("DELETE", f"/tasks/{task_id}", at=1))[0] == 204
    assert (await cluster.call("GET", f"/tasks/{task_id}"))[0] == 404
    status, refused = await cluster.call("POST", "/tasks", TASK | {"unknown": 1})
    assert status == 400, refused


@pytest.mark.behaviour("TASK-18")
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, {}),
        ({"mcp_stdio_servers": ["time"]}, {"mcp_stdio_servers": ["time"]}),
        ({"mcp_servers": []}, {"mcp_servers": [], "mcp_stdio_servers": []}),
        (
            {"mcp_servers": [], "mcp_stdio_servers": ["time"]},
            {"mcp_servers": [], "mcp_stdio_servers": ["time"]},
        ),
    ],
)
async def test_empty_list_of_servers_is_a_choice_that_reading_and_writing_back_keeps(
    cluster: TaskCluster, given: dict[str, Any], shown: dict[str, Any]
) -> None:
    await cluster.frontends[0].call("PUT", "/api/mcp/servers/time", {"command": "mcp-time"})
    task_id = await cluster.create(**given)
    for _ in range(2):
        _, task = await cluster.call("GET", f"/tasks/{task_id}")
        assert {name: task[name] for name in ("mcp_servers", "mcp_stdio_servers") if name in task} == shown
        status, answer = await cluster.call("PUT", f"/tasks/{task_id}", task)
        assert status == 200, answer


@pytest.mark.behaviour("TASK-17")
async def test_schedule_is_previewed_in_words_with_its_next_times_and_nothing_is_stored(cluster: TaskCluster) -> None:
    status, shown = await cluster.call("GET", "/schedule?cron=@monthly&time_zone=Asia/Tokyo&count=2", at=1)
    assert status == 200, shown
    assert (shown["cron"], shown["words"]) == ("0 0 1 * *", "on day 1 of the month at 00:00")
    times = [datetime.fromisoformat(one) for one in shown["next_runs"]]
    assert datetime.now(UTC) < times[0] < times[1]
    assert [(one.day, one.hour, one.utcoffset()) for one in times] == [(1, 0, timedelta(hours=9))] * 2
    assert (await cluster.call("GET", "/tasks"))[1] == []
    # A task says the same of its own pattern.
    await cluster.create(cron="@monthly")
    [task] = (await cluster.call("GET", "/tasks"))[1]
    assert task["cron_words"] == shown["words"]


@pytest.mark.parametrize(
    ("query", "status", "word"),
    [
        ("cron=61 * * * *", 400, "'61' is not a minute"),
        ("cron=0 0 31 2 *", 400, "never comes"),
        ("cron=", 400, "0 fields"),
        ("cron=@daily&time_zone=Middle-earth/Shire", 400, "not a known time zone"),
        ("cron=@daily&time_zone=../../etc/passwd", 400, "not a known time zone"),
        ("cron=@daily&count=6", 400, "count"),
        (f"cron={'0,' * 200}0 * * * *", 400, "cron"),
        ("", 400, "cron"),
    ],
)
async def test_schedule_that_no_task_could_have_is_refused(
    cluster: TaskCluster, query: str, status: int, word: str
) -> None:
    refused = await cluster.call("GET", f"/schedule?{query}")
    assert refused[0] == status, refused
    assert word in json.dumps(refused[1])


async def test_schedule_is_previewed_for_callers_that_may_have_tasks_only(cluster: TaskCluster) -> None:
    assert (await cluster.call("GET", "/schedule?cron=@daily", key="ck_unknown"))[0] == 401
    # A credential of a node is no person, and has no tasks.
    assert (await cluster.call("GET", "/schedule?cron=@daily", key=cluster.node.credential))[0] in (401, 403)


@pytest.mark.behaviour("API-40")
@pytest.mark.parametrize(
    ("value", "code"),
    [(r'"\ud800"', "bad_text"), (r'"\u0000"', "bad_text"), ("NaN", "bad_number"), ("[1e999]", "bad_number")],
)
async def test_parameter_that_cannot_be_stored_is_400(cluster: TaskCluster, value: str, code: str) -> None:
    await cluster.create()
    task = json.dumps(TASK | {"name": "cron", "cron": "0 0 1 1 *"})[:-1]
    for path, body in (
        ("/tasks/greet/execute", f'{{"name": {value}}}'),
        ("/jobs/execute", f'{{"task_id": "greet", "parameters": {{"name": {value}}}}}'),
        ("/tasks", f'{task}, "cron_parameters": {{"name": {value}}}}}'),
    ):
        status, refused = await cluster.call("POST", path, body, content_type="application/json")
        assert (status, refused["error"]["code"]) == (400, code), (path, refused)


@pytest.mark.behaviour("TASK-2")
async def test_missing_parameter_is_400_and_names_it_and_no_job_is_stored(cluster: TaskCluster) -> None:
    await cluster.create()
    status, refused = await cluster.call("POST", "/tasks/greet/execute", {"other": 1})
    assert (status, refused["error"]["code"]) == (400, "missing_parameter")
    assert "'name'" in refused["error"]["message"]
    assert (await cluster.call("GET", "/jobs"))[1] == []
    assert (await cluster.call("POST", "/tasks/greet/execute"))[0] == 400
    status, made = await cluster.call("POST", "/tasks/greet/execute", {"name": "Ann"})
    assert (status, made["status"], made["url"]) == (201, "pending", f"/api/agent/jobs/{made['job_id']}")
    status, refused = await cluster.call("POST", "/tasks/greet/execute", [1])
    assert status == 400, refused


@pytest.mark.behaviour("TASK-3")
async def test_picture_of_a_request_reaches_the_worker(cluster: TaskCluster) -> None:
    await cluster.create()
    job_id = await cluster.execute(images=[PICTURE])
    attempt_id = await cluster.hold(job_id)
    status, work = await cluster.node.call("GET", f"/runs/{job_id}?job_id={attempt_id}")
    assert status == 200, work
    assert work["spec"]["messages"] == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "Hello Ann"}, {"type": "image_url", "image_url": {"url": PICTURE}}],
        }
    ]
    assert work["spec"]["model"] == "chat"
    assert (await cluster.read(job_id))["attachments"][0]["type"] == "image/png"


async def test_large_attachments_are_taken_and_too_large_ones_refused(cluster: TaskCluster) -> None:
    await cluster.create()
    url = f"{cluster.frontends[0].url}/api/agent/jobs/execute"
    headers = {"Authorization": f"Bearer {cluster.key}", "Content-Type": "application/json"}
    for size, expected in ((8, 201), (33, 413)):
        image = "data:image/png;base64," + "AAAA" * (size * 256 * 1024)
        body = {"task_id": "greet", "parameters": {"name": "Ann"}, "images": [image]}
        sent = io.BytesIO(json.dumps(body).encode())
        async with cluster.frontends[0].http.post(url, data=sent, headers=headers) as answer:
            assert answer.status == expected, await answer.text()


@pytest.mark.behaviour("TASK-4")
async def test_thousand_executions_at_once_over_http_are_all_stored(cluster: TaskCluster) -> None:
    await cluster.create()
    # More wait for a connection to PostgreSQL for longer than a busy machine allows.
    places = asyncio.Semaphore(16)

    async def send(number: int) -> Any:
        status, made = await cluster.call("POST", "/tasks/greet/execute", {"name": str(number)}, at=number % 3)
        # A frontend without a free connection to PostgreSQL refuses and stores nothing: the sender repeats it.
        assert status == 201 or made["error"]["code"] == "store_unavailable", made
        return made if status == 201 else None

    async def execute(number: int) -> str:
        async with places:
            if number % 50 == 0:
                # All of this takes longer than a node may be silent on a busy machine.
                assert (await cluster.node.heartbeat())[0] == 200
            made = await eventually(lambda: send(number))
            job = await cluster.call("GET", f"/jobs/{made['job_id']}", at=(number + 1) % 3)
            assert job[0] == 200, job
            return str(job[1]["parameters"]["name"])

    made = await asyncio.gather(*(execute(number) for number in range(1000)))
    assert sorted(made) == sorted(str(number) for number in range(1000))


@pytest.mark.behaviour("TASK-5")
@pytest.mark.behaviour("TASK-6")
async def test_traces_are_stored_once_in_order_with_time_type_and_tool_on_all_frontends(cluster: TaskCluster) -> None:
    await cluster.create()
    job_id = await cluster.execute(triggered_by="manual")
    await cluster.deliver(job_id, {"seq": 1, "type": "status", "data": {"text": "started"}}, at=0)
    # A delivery that is repeated at another frontend, and one that overlaps it.
    call = {"seq": 2, "type": "tool_call", "tool": "files__read", "data": {"call_id": "c", "is_repeatable": True}}
    await cluster.deliver(job_id, call, at=1)
    await cluster.deliver(job_id, call, {"seq": 3, "type": "tool_result", "tool": "files__read"}, at=2)
    running = await cluster.read(job_id, at=1)
    assert (running["status"], running["node"], running["triggered_by"]) == ("running", "agent-1", "manual")
    assert running["started_at"]
    await cluster.deliver(job_id, {"seq": 4, "type": "end", "data": {"state": "completed", "content": "Hi"}})
    ended = await eventually(lambda: _read_ended(cluster, job_id, at=2))
    assert (ended["status"], ended["result"], ended["error"]) == ("completed", "Hi", "")
    assert [(one["seq"], one["type"], one["tool"]) for one in ended["traces"]] == [
        (1, "status", ""),
        (2, "tool_call", "files__read"),
        (3, "tool_result", "files__read"),
        (4, "end", ""),
    ]
    assert all(one["time"] for one in ended["traces"])
    for at in range(3):
        status, refused = await cluster.call("POST", f"/jobs/{job_id}/cancel", at=at)
        assert (status, refused["error"]["code"]) == (409, "run_ended")


async def _read_ended(cluster: TaskCluster, job_id: str, *, at: int = 0) -> dict[str, Any]:
    job = await cluster.read(job_id, at=at)
    return job if job["status"] in ("completed", "failed", "cancelled") else {}


@pytest.mark.behaviour("TASK-7")
async def test_job_is_cancelled_on_another_frontend_and_listed_by_status(cluster: TaskCluster) -> None:
    task_id = await cluster.create()
    other_id = await cluster.create(name="other")
    job_id, kept_id = await cluster.execute(), await cluster.execute()
    status, job = await cluster.call("POST", f"/jobs/{job_id}/cancel", at=1)
    assert (status, job["status"]) == (200, "cancelled")
    listed = (await cluster.call("GET", "/jobs?status=cancelled", at=2))[1]
    assert [one["id"] for one in listed] == [job_id]
    assert [one["id"] for one in (await cluster.call("GET", f"/jobs?task_id={task_id}"))[1]] == [kept_id, job_id]
    assert (await cluster.call("GET", f"/jobs?task_id={other_id}"))[1] == []
    assert len((await cluster.call("GET", "/jobs?limit=1"))[1]) == 1
    assert (await cluster.call("GET", "/jobs?status=odd"))[0] == 400
    assert (await cluster.call("GET", "/jobs?task_id=nope"))[0] == 404
    status, refused = await cluster.call("DELETE", f"/jobs/{kept_id}")
    assert (status, refused["error"]["code"]) == (409, "run_open")
    assert (await cluster.call("DELETE", f"/jobs/{job_id}", at=2))[0] == 204
    assert (await cluster.call("GET", f"/jobs/{job_id}"))[0] == 404


@pytest.mark.behaviour("TASK-15")
async def test_tasks_and_jobs_of_others_are_not_found_and_admins_see_them_with_all_users(cluster: TaskCluster) -> None:
    task_id = await cluster.create()
    job_id = await cluster.execute()
    stranger = await make_key(cluster.frontends[0], "stranger")
    for method, path, body in (
        ("GET", f"/tasks/{task_id}", None),
        ("GET", "/tasks/greet", None),
        ("PUT", f"/tasks/{task_id}", TASK),
        ("DELETE", f"/tasks/{task_id}", None),
        ("POST", f"/tasks/{task_id}/disable", None),
        ("GET", f"/tasks/{task_id}/webhook-secret", None),
        ("POST", "/tasks/greet/execute", {"name": "x"}),
        ("POST", "/jobs/execute", {"task_id": task_id, "parameters": {"name": "x"}}),
        ("GET", f"/jobs/{job_id}", None),
        ("GET", f"/jobs/{job_id}/progress", None),
        ("POST", f"/jobs/{job_id}/cancel", None),
        ("DELETE", f"/jobs/{job_id}", None),
        ("GET", f"/jobs?task_id={task_id}", None),
    ):
        status, answer = await cluster.call(method, path, body, key=stranger)
        assert status == 404, (method, path, answer)
        status, answer = await cluster.call(
            method, f"{path}{'&' if '?' in path else '?'}all_users=true", body, key=stranger
        )
        assert status in (403, 404), (method, path, answer)
    assert (await cluster.call("GET", "/tasks", key=stranger))[1] == []
    assert (await cluster.call("GET", "/jobs", key=stranger))[1] == []
    for path, expected in (("/tasks", task_id), ("/jobs", job_id)):
        status, seen = await cluster.frontends[1].call("GET", f"/api/agent{path}?all_users=true")
        assert [one["id"] for one in seen] == [expected]
    status, seen = await cluster.frontends[1].call("GET", f"/api/agent/jobs/{job_id}?all_users=true")
    assert (status, seen["owner_name"]) == (200, "app")
    assert (await cluster.read(job_id))["status"] in ("pending", "running")


def parse_frames(stream: str) -> list[tuple[str, str]]:
    """Return the names and ids of the events of a stream."""
    frames = []
    for block in stream.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != ":")
        if "event" in lines:
            frames.append((lines["event"], lines.get("id", "")))
    return frames


@pytest.mark.behaviour("TASK-16")
async def test_stream_sends_the_state_then_events_then_done_and_closes(cluster: TaskCluster) -> None:
    await cluster.create()
    job_id = await cluster.execute()
    await cluster.deliver(job_id, {"seq": 1, "type": "content", "data": {"text": "a"}})
    stream = asyncio.create_task(cluster.call("GET", f"/jobs/{job_id}/progress", at=1))
    await cluster.deliver(job_id, {"seq": 2, "type": "content", "data": {"text": "b"}}, at=2)
    await cluster.deliver(job_id, {"seq": 3, "type": "end", "data": {"state": "completed", "content": "ab"}}, at=2)
    status, body = await stream
    assert status == 200
    assert parse_frames(body) == [("status", ""), ("content", "1"), ("content", "2"), ("end", "3"), ("done", "")]
    assert '"status":"completed"' in body.rsplit("event: done", 1)[1]
    # Another frontend goes on behind what was read, and a finished job closes at once.
    _, rest = await cluster.call("GET", f"/jobs/{job_id}/progress", at=2, Last_Event_ID="2")
    assert parse_frames(rest) == [("status", ""), ("end", "3"), ("done", "")]
    _, closed = await cluster.call("GET", f"/jobs/{job_id}/progress", Last_Event_ID="3")
    assert parse_frames(closed) == [("status", ""), ("done", "")]


@pytest.mark.behaviour("TASK-16")
async def test_stream_of_a_cancelled_job_ends_with_its_state(cluster: TaskCluster) -> None:
    await cluster.create()
    job_id = await cluster.execute()
    stream = asyncio.create_task(cluster.call("GET", f"/jobs/{job_id}/progress", at=1))
    await cluster.call("POST", f"/jobs/{job_id}/cancel", at=2)
    _, body = await stream
    assert parse_frames(body)[-2:] == [("end", "1"), ("done", "")]
    assert '"status":"cancelled"' in body.rsplit("event: done", 1)[1]


@pytest.mark.behaviour("API-7")
async def test_stream_of_a_job_ends_without_its_end_when_the_key_of_its_reader_is_revoked(cluster: TaskCluster) -> None:
    frontend = cluster.frontends[0]
    await cluster.create()
    job_id = await cluster.execute()
    status, reader = await frontend.call("POST", "/api/keys", {"name": "reader", "scope": "admin"})
    assert status == 201, reader
    path = f"/api/agent/jobs/{job_id}/progress?all_users=true"
    async with open_stream(frontend.url, path=path, key=reader["key"]) as stream:
        assert (await stream.next()).event == "status"
        assert (await frontend.call("DELETE", f"/api/keys/{reader['id']}"))[0] == 200
        await cluster.deliver(job_id, {"seq": 1, "type": "end", "data": {"state": "completed", "content": "Hi"}})
        assert await stream.read_to_end() == []


@pytest.mark.behaviour("TASK-14")
async def test_webhook_is_delivered_by_the_loops_and_shown_with_the_job(cluster: TaskCluster) -> None:
    async with receiving_webhooks() as receiver:
        receiver.statuses = [500]
        task_id = await cluster.create(webhooks=[{"url": f"{receiver.url}/hook", "method": "patch"}])
        _, shown = await cluster.call("GET", f"/tasks/{task_id}/webhook-secret", at=1)
        again = await cluster.call("GET", "/tasks/greet/webhook-secret", at=2)
        assert again[1] == shown
        assert shown["secret"].startswith("whsec_")
        job_id = await cluster.execute()
        waiting = await cluster.read(job_id)
        assert (waiting["webhooks"][0]["state"], waiting["webhook_sent_at"]) == ("pending", None)
        await cluster.call("POST", f"/jobs/{job_id}/cancel")

        async def look() -> dict[str, Any]:
            job = await cluster.read(job_id, at=2)
            return job if job["webhook_sent"] else {}

        job = await eventually(look)
    assert job["webhook_sent_at"] == job["webhooks"][0]["delivered_at"] is not None
    assert {one.method for one in receiver.received} == {"PATCH"}
    assert job["webhooks"][0] | {"delivered_at": None} == {
        "url": f"{receiver.url}/hook",
        "state": "delivered",
        "attempts": 2,
        "last_status": 200,
        "last_error": "",
        "delivered_at": None,
    }
    assert [one.json["status"] for one in receiver.received] == ["cancelled", "cancelled"]


async def test_execution_that_is_repeated_with_its_key_is_one_job(cluster: TaskCluster) -> None:
    await cluster.create()
    first = await cluster.call("POST", "/tasks/greet/execute", {"name": "x"}, Idempotency_Key="one")
    again = await cluster.call("POST", "/tasks/greet/execute", {"name": "x"}, at=1, Idempotency_Key="one")
    assert first == again
    assert len((await cluster.call("GET", "/jobs"))[1]) == 1


@pytest.mark.behaviour("TASK-9")
async def test_cron_time_starts_one_job_with_three_frontends_whose_loops_run(cluster: TaskCluster) -> None:
    task_id = await cluster.create(cron="0 0 29 2 *", cron_parameters={"name": "Ann"})
    database = cluster.frontends[0].database
    async with database.transaction() as tx:
        await tx.execute(
            text('UPDATE tasks SET next_run_at = corral_now(), config = config || \'{"catch_up": "once"}\'')
        )
    jobs = await eventually(lambda: _list_jobs(cluster, task_id))
    # Each frontend looks once more before the jobs are counted.
    for frontend in cluster.frontends:
        await frontend.core.loops["task scheduler"].run_once()
    assert len(await _list_jobs(cluster, task_id)) == len(jobs) == 1
    assert jobs[0]["triggered_by"] == "cron"
    _, task = await cluster.call("GET", f"/tasks/{task_id}")
    assert task["next_run_at"].startswith("20")
    assert task["last_run_at"]


async def _list_jobs(cluster: TaskCluster, task_id: str) -> list[Any]:
    return list((await cluster.call("GET", f"/jobs?task_id={task_id}"))[1])


async def test_runs_are_counted_by_kind_and_state_with_their_time(cluster: TaskCluster) -> None:
    await cluster.create()
    job_id = await cluster.execute()
    await cluster.deliver(job_id, {"seq": 1, "type": "end", "data": {"state": "completed", "content": "Hi"}})
    await eventually(lambda: _read_ended(cluster, job_id))
    cancelled_id = await cluster.execute()
    await cluster.call("POST", f"/jobs/{cancelled_id}/cancel")
    pages = []
    for frontend in cluster.frontends:
        await frontend.core.update_counts()
        pages.append((await frontend.call("GET", "/metrics"))[1])
    for page in pages:
        assert 'corral_runs{kind="task",state="completed"} 1.0' in page
        assert 'corral_runs{kind="task",state="cancelled"} 1.0' in page
        assert 'corral_runs{kind="agent_turn",state="running"} 0.0' in page
    counted = 'corral_run_seconds_count{kind="task",state="completed"} 1.0'
    assert sum(counted in page for page in pages) == 1, "the frontend that ended the run has counted it"


async def test_header_of_a_webhook_is_sent_with_the_value_of_a_stored_secret(cluster: TaskCluster) -> None:
    status, _ = await cluster.frontends[0].call("PUT", "/api/secrets/ci", {"value": "t0p-s3cret"}, key=cluster.key)
    assert status in (200, 201)
    async with receiving_webhooks() as receiver:
        webhook = {"url": receiver.url, "headers": {"Authorization": "Bearer secret:ci"}}
        status, refused = await cluster.call(
            "POST", "/tasks", TASK | {"webhooks": [webhook | {"headers": {"Authorization": "Bearer t0p-s3cret"}}]}
        )
        assert (status, refused["error"]["code"]) == (400, "secret_in_clear")
        assert "t0p-s3cret" not in str(refused)
        await cluster.create(webhooks=[webhook])
        job_id = await cluster.execute()
        await cluster.call("POST", f"/jobs/{job_id}/cancel", at=1)

        async def look() -> bool:
            return bool((await cluster.read(job_id))["webhook_sent"])

        await eventually(look)
    assert [one.headers["Authorization"] for one in receiver.received] == ["Bearer t0p-s3cret"]
