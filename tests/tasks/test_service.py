"""Tasks are saved, executed with parameters and attachments, and their runs keep what they were made of."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from aiohttp import web

from corral.api.tasks import job_to_wire
from corral.domain.access import Owner
from corral.domain.agent import RemoteMcpServer
from corral.domain.errors import Conflict, CorralError, InvalidRequest, NotFound, Unavailable
from corral.domain.run import RunEventType, RunState, RunTrigger
from corral.domain.task import MediaKind, MediaSource, TaskBudgets, TaskRunStatus, TaskSpec, TaskWebhook
from corral.models.model_servers import select_model_servers
from corral.policy.tasks import MEDIA_BYTES_MAX
from corral.reconcile.maintenance import Pruner, RetentionOptions
from corral.store import agents as agent_store
from corral.store import models as model_store
from corral.store import run_places as place_store
from corral.store import tasks as store
from corral.tasks import media
from corral.tasks.media import FETCHES_MAX, FETCHES_OF_OWNER_MAX
from corral.tasks.service import ExecutionRequest
from tests.loading.scene import edit
from tests.operations.fake_bus import Hub
from tests.operations.scene import sql
from tests.runs.scene import RunWorker, put_owner, put_workers
from tests.support.polling import eventually
from tests.tasks.scene import PNG, TaskFrontend, make_principal, serve_picture, serving, set_time, slow_source

PICTURE = "data:image/png;base64," + base64.b64encode(PNG).decode()


async def refuse(work: Any) -> CorralError:
    with pytest.raises(CorralError) as refused:
        await work
    return refused.value


@pytest.mark.behaviour("TASK-1")
async def test_task_needs_a_name_a_model_and_a_prompt(frontend: TaskFrontend, owner: Owner) -> None:
    for field in ("name", "model", "prompt"):
        assert isinstance(await refuse(frontend.create(owner, **{field: "  "})), InvalidRequest)
    assert await frontend.tasks.list_tasks(None) == []


@pytest.mark.behaviour("TASK-1")
async def test_task_that_is_created_disabled_stays_disabled_and_is_not_executed(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    task = await frontend.create(owner, is_enabled=False, cron="* * * * *")
    assert not task.spec.is_enabled
    assert task.next_run_at is None
    assert (await refuse(frontend.execute(owner))).slug == "task_disabled"
    enabled = await frontend.tasks.set_enabled(task.id, None, make_principal(owner), is_enabled=True)
    assert enabled.next_run_at is not None
    assert (await frontend.execute(owner)).status is TaskRunStatus.PENDING
    assert worker.starts == []


async def test_task_of_an_unknown_model_is_refused_with_its_name(frontend: TaskFrontend, owner: Owner) -> None:
    error = await refuse(frontend.create(owner, model="chatt"))
    assert (error.status, error.slug) == (404, "model_not_found")
    assert "'chatt'" in error.message
    assert "chat" in (error.hint or "")


async def test_task_of_a_model_that_the_key_may_not_use_is_refused(frontend: TaskFrontend, owner: Owner) -> None:
    narrow = make_principal(owner, models=("other-*",))
    async with frontend.database.transaction() as tx:
        error = await refuse(frontend.tasks.create(tx, narrow, TaskSpec(name="t", model="chat", prompt="p")))
    assert error.slug == "model_not_found"


async def test_two_tasks_of_one_owner_have_different_names_and_owners_share_none(
    frontend: TaskFrontend, owner: Owner
) -> None:
    other = await put_owner(frontend.database, "bob")
    first = await frontend.create(owner)
    second = await frontend.create(other)
    assert (await refuse(frontend.create(owner))).slug == "task_exists"
    renamed = TaskSpec(name="again", model="chat", prompt="p")
    third = await frontend.create(owner, name="again")
    error = await refuse(frontend.tasks.edit(first.id, None, make_principal(owner), renamed))
    assert error.slug == "task_exists"
    assert {task.id for task in await frontend.tasks.list_tasks(str(owner))} == {first.id, third.id}
    assert (await refuse(frontend.tasks.get(second.id, str(owner)))).slug == "task_not_found"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "a/b"}, "bad_task"),
        ({"name": "x" * 101}, "bad_task"),
        ({"prompt": "{{ unclosed"}, "bad_template"),
        ({"prompt": "{{ x.__class__.mro() }}"}, "bad_template"),
        ({"cron": "61 * * * *"}, "bad_task"),
        ({"cron": "0 0 31 2 *"}, "bad_task"),
        ({"time_zone": "Mars/Olympus"}, "bad_task"),
        ({"labels": {"a b": "c"}}, "bad_label"),
        ({"cron_parameters": {"_x": 1}}, "bad_parameter"),
        ({"webhooks": (TaskWebhook(url="ftp://x.example/"),)}, "bad_task"),
        ({"webhooks": (TaskWebhook(url="http://u:p@x.example/"),)}, "bad_task"),
        ({"webhooks": (TaskWebhook(url="http://x.example/", method="GET"),)}, "bad_task"),
        ({"webhooks": (TaskWebhook(url="http://x.example/", headers={"X-Token": "Bearer x"}),)}, "secret_in_clear"),
        ({"webhooks": (TaskWebhook(url="http://x.example/", headers={"Webhook-Id": "x"}),)}, "bad_task"),
        ({"webhooks": (TaskWebhook(url="http://x.example/", headers={"a\nb": "x"}),)}, "bad_task"),
        ({"webhooks": (TaskWebhook(url="http://x.example/", payload_template="{% set a = 1 %}"),)}, "bad_template"),
        ({"webhook_secret": "whsec_clear"}, "bad_task"),
        ({"webhook_secret": "cluster-secret:x"}, "cluster_secret_refused"),
        ({"mcp_servers": (RemoteMcpServer(name="a__b", url="https://m.example"),)}, "bad_mcp_server"),
        ({"mcp_servers": (RemoteMcpServer(name="m", url="stdio://m"),)}, "bad_uri"),
        ({"declared_servers": ("nope",)}, "mcp_server_not_found"),
        ({"mcp_servers": (RemoteMcpServer(name="m", url="https://m.example", token="clear"),)}, "bad_secret_reference"),
        ({"media_sources": (MediaSource(kind=MediaKind.IMAGE, url="file:///etc/passwd"),)}, "bad_task"),
    ],
)  # fmt: skip
async def test_task_with_an_invalid_field_is_refused(
    frontend: TaskFrontend, owner: Owner, fields: dict[str, Any], code: str
) -> None:
    assert (await refuse(frontend.create(owner, **fields))).slug == code


async def test_stored_task_is_read_as_it_was_saved(frontend: TaskFrontend, owner: Owner) -> None:
    task = await frontend.create(
        owner,
        prompt="Hello {{.name}}",
        cron="@daily",
        webhooks=(TaskWebhook(url="https://x.example/h", method="put", headers={"X-Api-Key": "Bearer secret:ci"}),),
        media_sources=(MediaSource(kind=MediaKind.IMAGE, url="https://x.example/i.png"),),
        labels={"zone": "a"},
        budgets=TaskBudgets(wall_s=60, steps=None),
        mcp_servers=(RemoteMcpServer(name="m", url="https://m.example", token="secret:m"),),
    )
    assert (task.spec.prompt, task.spec.cron) == ("Hello {{ name }}", "0 0 * * *")
    assert task.spec.webhooks[0].method == "PUT"
    assert await frontend.reload(task) == task


@pytest.mark.behaviour("TASK-2")
async def test_parameters_reach_the_worker_and_a_missing_one_is_refused_before_anything_is_stored(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await frontend.create(owner, prompt="Weather in {{ city }} on {{ day }}?")
    error = await refuse(frontend.execute(owner, parameters={"day": "Monday"}))
    assert (error.status, error.slug, error.details["parameter"]) == (400, "missing_parameter", "city")
    assert await sql(frontend.database, "SELECT id FROM runs UNION SELECT id FROM operations") == []
    job = await frontend.execute(owner, parameters={"day": "Monday", "city": "Rome"})
    await frontend.run()
    spec = await frontend.build(job.run.id)
    assert worker.run_id == job.run.id
    assert spec["model"] == "chat"
    assert spec["messages"] == [{"role": "user", "content": "Weather in Rome on Monday?"}]
    assert spec["options"] == {"max_attempts": 3, "compaction_tokens": 0}
    assert spec["budgets"] == {"wall_s": 600.0, "steps": 3, "tool_calls": None, "tokens": None}


@pytest.mark.behaviour("TASK-3")
async def test_attachments_of_a_request_reach_the_worker(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await frontend.create(owner, prompt="Describe it.")
    sound = base64.b64encode(b"RIFF").decode()
    note = base64.b64encode("größe".encode()).decode()
    job = await frontend.execute(
        owner,
        images=[PICTURE],
        audios=[f"data:audio/mpeg;base64,{sound}"],
        videos=["data:video/mp4;base64,AAAA"],
        files=[f"data:text/plain;charset=utf-8;base64,{note}", "data:application/pdf;base64,JVBE"],
    )
    await frontend.run()
    [message] = (await frontend.build(worker.run_id))["messages"]
    assert message["content"] == [
        {"type": "text", "text": "Describe it."},
        {"type": "image_url", "image_url": {"url": PICTURE}},
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": sound, "format": "mp3"}},
        {"type": "text", "text": "File without a name:\ngröße"},
        {"type": "file", "file": {"filename": "file", "file_data": "data:application/pdf;base64,JVBE"}},
    ]
    assert [one["size_bytes"] for one in job.run.request["media"]] == [len(PNG), 3, 4, 7, 3]


@pytest.mark.behaviour("TASK-3")
async def test_sources_of_a_task_are_fetched_unless_the_request_brings_that_kind(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    seen: list[str] = []

    async def serve(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(body=PNG, content_type="image/png")

    frontend.secrets.values["camera"] = "s3cret"
    async with serving("/now.png", serve) as url:
        headers = {"Authorization": "Bearer secret:camera"}
        source = MediaSource(kind=MediaKind.IMAGE, url=f"{url}/now.png", headers=headers)
        await frontend.create(owner, media_sources=(source,))
        job = await frontend.execute(owner)
        own = await frontend.execute(owner, images=["data:image/gif;base64,R0lG"])
        by_address = await frontend.execute(owner, images=[f"{url}/now.png?signature=s3cret"])
    assert seen == ["Bearer s3cret", ""]
    assert [one["type"] for one in job.run.request["media"]] == ["image/png"]
    assert [one["type"] for one in own.run.request["media"]] == ["image/gif"]
    assert [(one["name"], one["address"]) for one in by_address.run.request["media"]] == [("now.png", f"{url}/now.png")]
    assert [job_to_wire(one).images for one in (job, own, by_address)] == [
        [f"{url}/now.png"], ["image/gif"], [f"{url}/now.png"],
    ]  # fmt: skip
    [stored] = await sql(frontend.database, "SELECT string_agg(request::text, '') AS text FROM runs")
    assert "s3cret" not in stored.text
    assert worker.starts == []


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (404, b"", "image/png", "bad_media"),
        (503, b"", "image/png", "source_unavailable"),
        (200, b"<html>", "text/html", "bad_media"),
        (200, b"x" * (MEDIA_BYTES_MAX + 1), "image/png", "source_unavailable"),
    ],
)
async def test_source_that_fails_refuses_the_execution(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, status: int, body: bytes, kind: str, code: str
) -> None:
    async def serve(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body, content_type=kind)

    async with serving("/x", serve) as url:
        await frontend.create(owner, media_sources=(MediaSource(kind=MediaKind.IMAGE, url=f"{url}/x"),))
        assert (await refuse(frontend.execute(owner))).slug == code
    assert await sql(frontend.database, "SELECT id FROM runs") == []
    assert worker.starts == []


@pytest.mark.behaviour("TASK-19")
async def test_owner_whose_sources_do_not_answer_leaves_places_to_others(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    other = await put_owner(frontend.database, "bob")
    async with slow_source() as source, serving("/x.png", serve_picture) as url, asyncio.TaskGroup() as group:
        for one in (owner, other):
            await frontend.create(one)
        slow = [group.create_task(frontend.execute(owner, images=[source.media.url])) for _ in range(FETCHES_MAX)]
        await eventually(lambda: source.is_called(FETCHES_OF_OWNER_MAX))
        await frontend.execute(other, images=[f"{url}/x.png"])
        source.released.set()
        assert [(await one).status for one in slow] == [TaskRunStatus.PENDING] * FETCHES_MAX
    assert worker.starts == []


async def test_wait_for_a_place_to_fetch_counts_for_the_time_that_a_caller_waits(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await frontend.create(owner)
    async with slow_source() as source, asyncio.TaskGroup() as group:
        for _ in range(FETCHES_OF_OWNER_MAX):
            group.create_task(frontend.execute(owner, images=[source.media.url]))
        await eventually(lambda: source.is_called(FETCHES_OF_OWNER_MAX))
        monkeypatch.setattr(media, "TOTAL_TIMEOUT_S", 0.01)
        assert (await refuse(frontend.execute(owner, images=[source.media.url]))).slug == "source_unavailable"
        assert source.calls == FETCHES_OF_OWNER_MAX
        source.released.set()
    assert worker.starts == []


@pytest.mark.behaviour("TASK-13")
async def test_source_in_a_private_network_is_refused_unless_the_operator_allows_it(
    frontend: TaskFrontend, owner: Owner, hub: Hub, worker: RunWorker
) -> None:
    strict = TaskFrontend(frontend.database, hub, "frontend-2", allows_private=False)
    called: list[str] = []

    async def serve(request: web.Request) -> web.Response:
        called.append(request.path)
        return web.Response(body=PNG, content_type="image/png")

    async with serving("/x.png", serve) as url:
        await strict.create(owner)
        for address in (f"{url}/x.png", url.replace("127.0.0.1", "localhost") + "/x.png", "http://169.254.169.254/"):
            error = await refuse(strict.execute(owner, images=[address]))
            assert (error.status, error.slug) == (422, "private_address")
    await strict.fetcher.stop()
    assert called == []
    assert worker.starts == []


@pytest.mark.parametrize(
    ("images", "code"),
    [
        (["not an address"], "bad_media"),
        (["file:///etc/passwd"], "bad_media"),
        (["data:image/png;base64,%%%"], "bad_media"),
        (["data:image/png;base64,AAAA"] * 17, "bad_media"),
        (["data:image/png;base64," + "AAAA" * (MEDIA_BYTES_MAX // 3 + 2)], "media_too_large"),
        (["data:image/png;base64," + "AAAA" * (MEDIA_BYTES_MAX // 6)] * 3, "media_too_large"),
        (["https://user:password@x.example/i.png"], "bad_task"),
    ],
)  # fmt: skip
async def test_attachment_that_cannot_be_used_is_refused(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, images: list[str], code: str
) -> None:
    await frontend.create(owner)
    error = await refuse(frontend.execute(owner, images=images))
    assert error.slug == code
    assert worker.starts == []


async def test_execution_is_refused_without_an_agent_worker(frontend: TaskFrontend, owner: Owner) -> None:
    await frontend.create(owner)
    error = await refuse(frontend.execute(owner))
    assert isinstance(error, Unavailable)
    assert error.slug == "no_agent_worker"


@pytest.mark.behaviour("TASK-5")
async def test_job_goes_from_pending_to_running_with_node_and_time_to_its_end_which_never_changes(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await frontend.create(owner)
    job = await frontend.execute(owner, trigger=RunTrigger.MANUAL)
    assert (job.status, job.run.started_at) == (TaskRunStatus.PENDING, None)
    await frontend.run()
    running = await frontend.tasks.get_run(job.run.id, str(owner))
    assert (running.status, running.run.node_name, running.run.trigger) == (
        TaskRunStatus.RUNNING, "agent-1", RunTrigger.MANUAL)  # fmt: skip
    assert running.run.started_at is not None
    await worker.end(frontend, content="Hello!")
    await frontend.run()
    ended = await frontend.tasks.get_run(job.run.id, str(owner))
    assert (ended.status, (ended.run.result or {})["content"]) == (TaskRunStatus.COMPLETED, "Hello!")
    late = await worker.end(frontend, state="failed", error_code="x", error_text="late")
    assert late.must_stop
    with pytest.raises(Conflict):
        await frontend.runs.cancel(job.run.id, str(owner), "ann")
    assert (await frontend.tasks.get_run(job.run.id, str(owner))) == ended


@pytest.mark.behaviour("TASK-7")
async def test_cancelled_job_does_not_start_or_is_stopped_from_any_frontend(
    frontend: TaskFrontend, owner: Owner, hub: Hub, worker: RunWorker
) -> None:
    other = TaskFrontend(frontend.database, hub, "frontend-2")
    await frontend.create(owner)
    async with frontend.database.transaction() as tx:
        # Another frontend chooses a node just now, so this job gets none yet.
        await place_store.lock_places(tx)
        pending = await frontend.execute(owner)
    await other.runs.cancel(pending.run.id, str(owner), "ann")
    await frontend.run()
    assert worker.starts == []
    running = await frontend.execute(owner)
    await frontend.run()
    await other.runs.cancel(running.run.id, str(owner), "ann")
    await frontend.run()
    assert [command.job_id for command in worker.cancelled] == [worker.job]
    for job in (pending, running):
        assert (await other.tasks.get_run(job.run.id, str(owner))).status is TaskRunStatus.CANCELLED


@pytest.mark.behaviour("TASK-8")
async def test_job_whose_worker_is_lost_during_a_call_is_failed_with_the_reason(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await frontend.create(owner)
    job = await frontend.execute(owner)
    await frontend.run()
    await worker.deliver(frontend, (RunEventType.TOOL_CALL, {"call_id": "c", "name": "mail__send"}))
    worker.jobs.clear()
    await frontend.wait_out(job.run.id, 60)
    lost = await frontend.tasks.get_run(job.run.id, str(owner))
    assert (lost.run.state, lost.status) == (RunState.LOST, TaskRunStatus.FAILED)
    assert lost.run.fault is not None
    assert "mail__send" in lost.run.fault.text


async def test_tools_of_a_task_reach_the_worker_with_references_in_place_of_secrets(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    server = RemoteMcpServer(name="files", url="https://m.example", headers={"X-Team": "a"}, token="secret:m")
    config = {"transport": "stdio", "command": "run-it", "env": {"TOKEN": "cluster-secret:x"}}
    async with frontend.database.transaction() as tx:
        await agent_store.put_server(tx, "shell", config, "admin")
    await frontend.create(owner, mcp_servers=(server,), declared_servers=("shell",))
    job = await frontend.execute(owner)
    await frontend.run()
    spec = await frontend.build(worker.run_id)
    declared = spec["mcp_servers"].pop()
    assert (declared["name"], declared["command"], declared["is_declared"]) == ("shell", "run-it", True)
    assert spec["mcp_servers"] == [
        {
            "name": "files",
            "transport": "http",
            "url": "https://m.example",
            "is_public_only": False,
            "headers": {"X-Team": "a", "Authorization": "Bearer secret:m"},
        }
    ]
    assert spec["session_key"] == job.run.session_key != ""


async def put_model_with_servers(frontend: TaskFrontend, *names: str) -> None:
    """Give the model `chat` MCP servers, each at an address of its own."""
    remote = {name: {"url": f"https://{name}.example/mcp"} for name in names}
    await edit(frontend.database, "chat", mcp={"remote": remote})


@pytest.mark.behaviour("TASK-18")
async def test_job_uses_the_servers_of_its_model_in_the_sessions_of_its_owners_chats(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await put_model_with_servers(frontend, "docs", "time")
    await frontend.create(owner)
    job = await frontend.execute(owner)
    await frontend.run()
    spec = await frontend.build(worker.run_id)
    assert [server["name"] for server in spec["mcp_servers"]] == ["docs", "time"]
    async with frontend.database.transaction() as tx:
        found = await model_store.get_model(tx, "chat")
        chats = await select_model_servers(tx, found.config, str(owner))
    assert spec["session_key"] == job.run.session_key == chats.session_key


@pytest.mark.behaviour("TASK-18")
async def test_server_of_a_task_wins_over_one_of_its_model_with_the_same_name(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await put_model_with_servers(frontend, "docs", "time")
    own = RemoteMcpServer(name="docs", url="https://own.example/mcp")
    await frontend.create(owner, mcp_servers=(own,))
    job = await frontend.execute(owner)
    await frontend.run()
    spec = await frontend.build(worker.run_id)
    assert {server["name"]: server["url"] for server in spec["mcp_servers"]} == {
        "docs": "https://own.example/mcp",
        "time": "https://time.example/mcp",
    }
    assert spec["session_key"] == job.run.session_key != ""


@pytest.mark.behaviour("TASK-18")
async def test_job_of_a_task_that_uses_no_servers_of_its_model_gets_none(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await put_model_with_servers(frontend, "docs")
    await frontend.create(owner, uses_model_servers=False)
    job = await frontend.execute(owner)
    await frontend.run()
    spec = await frontend.build(worker.run_id)
    assert (spec["mcp_servers"], spec["session_key"], job.run.session_key) == ([], "", "")


@pytest.mark.behaviour("TASK-12")
async def test_job_of_a_model_without_tools_runs(frontend: TaskFrontend, owner: Owner, worker: RunWorker) -> None:
    task = await frontend.create(owner)
    assert task.spec.mcp_servers == ()
    job = await frontend.execute(owner)
    await frontend.run()
    await worker.end(frontend, content="done")
    await frontend.run()
    assert (await frontend.tasks.get_run(job.run.id, None)).status is TaskRunStatus.COMPLETED


async def test_job_goes_on_as_it_was_when_its_task_is_edited_or_deleted(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    task = await frontend.create(owner, prompt="Old {{ x }}")
    job = await frontend.execute(owner, parameters={"x": 1})
    changed = TaskSpec(name="other", model="chat", prompt="New")
    edited = await frontend.tasks.edit(task.id, str(owner), make_principal(owner), changed)
    assert (edited.id, edited.created_at, edited.revision) == (task.id, task.created_at, 2)
    await frontend.tasks.delete("other", str(owner), make_principal(owner))
    await frontend.run()
    assert (await frontend.build(worker.run_id))["messages"][0]["content"] == "Old 1"
    await worker.end(frontend)
    await frontend.run()
    ended = await frontend.tasks.get_run(job.run.id, str(owner))
    assert (ended.status, ended.run.task_id, ended.run.subject) == (TaskRunStatus.COMPLETED, None, "greet")


async def test_execution_of_a_task_that_is_deleted_meanwhile_is_not_found(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    task = await frontend.create(owner)
    prepared = await frontend.tasks.prepare("greet", make_principal(owner), ExecutionRequest())
    await frontend.tasks.delete(task.id, None, make_principal(owner))
    with pytest.raises(NotFound):
        async with frontend.database.transaction() as tx:
            await frontend.tasks.admit(tx, prepared)
    assert worker.starts == []


@pytest.mark.behaviour("TASK-11")
async def test_attachments_go_when_their_job_has_ended_and_not_before(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await frontend.create(owner)
    open_job = await frontend.execute(owner, images=[PICTURE])
    ended = await frontend.execute(owner, images=[PICTURE])
    await frontend.runs.cancel(ended.run.id, None, "ann")
    async with frontend.database.transaction() as tx:
        assert await store.prune_media(tx) == 1
        assert len(await store.list_media(tx, open_job.run.id)) == 1
    assert worker.starts == []


async def test_next_time_of_a_pattern_is_computed_at_creation_and_at_every_edit(
    frontend: TaskFrontend, owner: Owner
) -> None:
    await set_time(frontend.database, "2026-01-05 08:30:00")
    task = await frontend.create(owner, cron="0 9 * * *", time_zone="Europe/Rome")
    assert f"{task.next_run_at:%d %H:%M}" == "06 08:00"
    edited = await frontend.tasks.edit(
        task.id, None, make_principal(owner), TaskSpec(name="greet", model="chat", prompt="p", cron="45 * * * *")
    )
    assert f"{edited.next_run_at:%d %H:%M}" == "05 08:45"
    plain = await frontend.tasks.edit(
        task.id, None, make_principal(owner), TaskSpec(name="greet", model="chat", prompt="p")
    )
    assert plain.next_run_at is None


async def test_admin_who_edits_a_task_of_another_user_does_not_lend_it_rights(
    frontend: TaskFrontend, owner: Owner
) -> None:
    admin = await put_owner(frontend.database, "root")
    task = await frontend.create(owner)
    edited = await frontend.tasks.edit(
        task.id, None, make_principal(admin), TaskSpec(name="greet", model="chat", prompt="changed")
    )
    assert (edited.key_id, edited.owner) == (task.key_id, owner)


async def test_worker_with_the_labels_of_a_task_gets_its_jobs(frontend: TaskFrontend, owner: Owner, hub: Hub) -> None:
    await put_workers(frontend.database, hub, "agent-1")
    await frontend.create(owner, labels={"zone": "lab"})
    assert (await refuse(frontend.execute(owner))).slug == "no_agent_worker"
    [second] = await put_workers(frontend.database, hub, "agent-2")
    statement = "INSERT INTO node_labels (node_id, key, source, value) VALUES (:node, 'zone', 'admin', 'lab')"
    await sql(frontend.database, statement, node=second.node)
    job = await frontend.execute(owner)
    await frontend.run()
    assert second.run_id == job.run.id


@pytest.mark.behaviour("TASK-11")
async def test_jobs_that_ended_longer_ago_than_the_retention_are_deleted_and_open_ones_never(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-01 12:00:00")
    webhook = TaskWebhook(url="https://x.example/hook")
    await frontend.create(owner, webhooks=(webhook,))
    old, still_open = await frontend.execute(owner), await frontend.execute(owner)
    await frontend.runs.cancel(old.run.id, None, "ann")
    await set_time(frontend.database, "2026-01-10 12:00:00")
    recent = await frontend.execute(owner)
    await frontend.runs.cancel(recent.run.id, None, "ann")
    await set_time(frontend.database, "2026-01-31 12:00:00")
    await frontend.leader.tick()
    pruner = Pruner(frontend.database, frontend.leader, RetentionOptions(outbox_s=86400, runs_s=25 * 86400))
    assert (await pruner.tick()).runs == 1
    left = {row.id for row in await sql(frontend.database, "SELECT id::text AS id FROM runs")}
    assert left == {still_open.run.id, recent.run.id}
    for table in ("run_events", "webhook_deliveries"):
        rows = await sql(frontend.database, f"SELECT DISTINCT run_id::text AS id FROM {table}")
        assert {row.id for row in rows} <= left
    assert worker.starts == []
