"""Engines and progress over a real bus: processes, logs, and the stream of operations."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from corral.domain.cluster import ORIGIN
from corral.store import models as model_store
from corral.store import outbox
from tests.api.backends import BACKEND, ask, install, report, shown, until_state
from tests.api.engines import Engines, on_the_bus
from tests.api.operations import assert_envelope
from tests.api.streams import open_stream
from tests.bus.nats_server import NatsServer
from tests.loading.scene import put_loaded, put_model
from tests.operations.scene import sql
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import join_node
from tests.support.polling import eventually

STREAM = "/api/operations/events"
LOG = "/api/nodes/a/backend-logs/m%230"


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path) as running:
        yield running


@pytest.fixture
async def cluster(nats: NatsServer, database_url: str) -> AsyncIterator[RunningFrontend]:
    async with running_frontend(database_url, authority=nats.authority, nats_url=nats.url) as running:
        yield running


@pytest.fixture
async def engines(nats: NatsServer, cluster: RunningFrontend) -> AsyncIterator[Engines]:
    node = await join_node(cluster, "a", total_ram=4 * 2**30)

    async def is_connected() -> bool:
        return cluster.bus.is_connected

    await eventually(is_connected)
    async with on_the_bus(nats, node) as found:
        yield found


async def test_engines_are_started_listed_and_stopped_by_their_worker(
    cluster: RunningFrontend, engines: Engines
) -> None:
    assert await cluster.call("GET", "/api/nodes/a/processes") == (200, [])
    body = {"backend": BACKEND, "model": "m", "options": {"context": "512"}}
    status, started = await cluster.call("POST", "/api/nodes/a/backends/start", body)
    assert (status, started["key"], started["state"]) == (202, "m#0", "running")
    engines.running.clear()
    twice = [await cluster.call("POST", "/api/nodes/a/backends/start", body, Idempotency_Key="s") for _ in range(2)]
    assert twice[0] == twice[1]
    assert twice[0][1]["jobID"] != started["jobID"]
    engines.running[:] = ["m#0"]
    listed = (await cluster.call("GET", "/api/nodes/a/processes"))[1]
    assert [(one["key"], one["state"]) for one in listed] == [("m#0", "ready")]
    status, stopped = await cluster.call("POST", "/api/nodes/a/backends/stop", {"key": "m#0"})
    assert (status, stopped["stopped"], stopped["survivors"]) == (200, ["m#0"], [])
    status, answer = await cluster.call("POST", "/api/nodes/a/backends/stop", {"key": "m#0"})
    assert status == 404
    assert assert_envelope(answer, code="process_not_found")["hint"]
    engines.running, engines.survivors = ["x#0", "y#0"], ("y#0",)
    status, stopped = await cluster.call("POST", "/api/nodes/a/backends/stop", {"all": True})
    assert (stopped["stopped"], stopped["survivors"]) == (["x#0"], ["y#0"])


async def test_unused_files_of_a_node_are_listed_in_a_dry_run_and_deleted_by_its_worker(
    cluster: RunningFrontend, engines: Engines
) -> None:
    engines.garbage = {"store/sha256-old": 3000, "downloads/a.partial": 5}
    path = "/api/nodes/a/backends/collect"
    status, collected = await cluster.call("POST", f"{path}?dry_run=true")
    assert (status, collected["count"], collected["freed_bytes"], collected["dry_run"]) == (200, 2, 3005, True)
    assert collected["items"][0] == {"name": "store/sha256-old", "size_bytes": 3000}
    assert "Dry run: nothing was changed." in collected["message"]
    status, collected = await cluster.call("POST", path)
    assert (status, collected["freed_bytes"], collected["dry_run"]) == (200, 3005, False)
    assert engines.garbage == {}
    assert (await cluster.call("POST", path))[1]["message"] == "There are no unused items."
    assert (await cluster.call("POST", "/api/nodes/nobody/backends/collect"))[0] == 404
    await engines.bus.stop()
    status, answer = await cluster.call("POST", path)
    assert status == 503
    assert_envelope(answer, code="node_unreachable")


async def test_node_that_left_the_bus_is_503_and_known_to_be_off_it(cluster: RunningFrontend, engines: Engines) -> None:
    await engines.bus.stop()
    status, answer = await cluster.call("GET", "/api/nodes/a/processes")
    assert status == 503
    assert_envelope(answer, code="node_unreachable")
    facts = {fact["name"]: fact["holds"] for fact in (await engines.node.read_as_admin())["conditions"]}
    assert facts["on_bus"] is False


async def test_log_gives_its_last_lines_and_a_stream_goes_on_and_resumes(
    cluster: RunningFrontend, engines: Engines
) -> None:
    engines.prints("m#0", *(f"line {number}" for number in range(1, 1501)))
    assert await cluster.call("GET", "/api/nodes/a/backend-logs") == (200, ["m#0"])
    status, log = await cluster.call("GET", f"{LOG}?lines=3")
    assert status == 200, log
    assert [line["text"] for line in log["lines"]] == ["line 1498", "line 1499", "line 1500"]
    assert (log["first"], log["next"]) == (1, 1500)
    async with open_stream(cluster.url, path=f"{LOG}/stream") as stream:
        assert (await stream.next()).event == "hello"
        seen = [await stream.next() for _ in range(200)]
        assert (seen[0].id, seen[-1].id) == ("1301", "1500")
        engines.prints("m#0", "fresh", "and more")
        fresh = [await stream.next() for _ in range(2)]
        assert [json.loads(frame.data)["data"]["text"] for frame in fresh] == ["fresh", "and more"]
        engines.prints("m#0", "later")
        assert [fresh[0].id, fresh[1].id, (await stream.next()).id] == ["1501", "1502", "1503"]
    engines.prints("m#0", "missed", "missed too")
    async with open_stream(cluster.url, path=f"{LOG}/stream", last_id="1503") as stream:
        assert (await stream.next()).event == "hello"
        assert [(await stream.next()).id for _ in range(2)] == ["1504", "1505"]
        await engines.bus.stop()
        await stream.read_to_end()


@pytest.mark.behaviour("API-7")
async def test_log_stream_ends_when_its_key_is_revoked(cluster: RunningFrontend, engines: Engines) -> None:
    engines.prints("m#0", "line")
    status, made = await cluster.call("POST", "/api/keys", {"name": "reader", "scope": "operate"})
    assert status == 201, made
    async with open_stream(cluster.url, path=f"{LOG}/stream", key=made["key"]) as stream:
        assert (await stream.next()).event == "hello"
        assert (await cluster.call("DELETE", f"/api/keys/{made['id']}"))[0] == 200
        await stream.read_to_end()


@pytest.mark.behaviour("PAGE-78")
async def test_log_is_downloaded_whole_as_a_text_file(cluster: RunningFrontend, engines: Engines) -> None:
    engines.prints("m#0", *(f"line {number}" for number in range(1, 2501)))
    status, body, headers = await download(cluster, LOG)
    assert status == 200, body
    lines = body.splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == [f"line {number}" for number in range(1, 2501)]
    assert lines[0].split(" ")[1] == "stdout"
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''a-m-0.log"
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"


async def test_log_that_cannot_be_downloaded_is_an_error_and_no_file(
    cluster: RunningFrontend, engines: Engines
) -> None:
    engines.prints("m#0", "line")
    status, body, headers = await download(cluster, "/api/nodes/a/backend-logs/none%230")
    assert (status, json.loads(body)["error"]["code"]) == (404, "log_not_found")
    assert "Content-Disposition" not in headers
    # An operator may read logs; who may only infer, or has no key, may not.
    _, made = await cluster.call("POST", "/api/keys", {"name": "ann", "scope": "infer"})
    assert (await download(cluster, LOG, key=made["key"]))[0] == 403
    assert (await download(cluster, LOG, key="ck_unknown"))[0] == 401
    await engines.bus.stop()
    status, body, _ = await download(cluster, LOG)
    assert (status, json.loads(body)["error"]["code"]) == (503, "node_unreachable")


async def download(cluster: RunningFrontend, log: str, key: str = ADMIN_KEY) -> tuple[int, str, Mapping[str, str]]:
    headers = {"Authorization": f"Bearer {key}"}
    address = URL(f"{cluster.url}{log}/download", encoded=True)
    async with cluster.http.get(address, headers=headers) as answer:
        return answer.status, await answer.text(), answer.headers


async def test_log_stream_sends_reset_when_the_log_has_started_over(cluster: RunningFrontend, engines: Engines) -> None:
    engines.prints("m#0", "of old", "and more")
    async with open_stream(cluster.url, path=f"{LOG}/stream?after=1") as stream:
        assert [((frame := await stream.next()).event, frame.id) for _ in range(2)] == [("hello", "1"), ("line", "2")]
        engines.lines.clear()
        engines.prints("m#0", "of another log")
        assert [((frame := await stream.next()).event, frame.id) for _ in range(2)] == [("reset", "0"), ("line", "1")]
    # The header is what a browser sends by itself later: it wins.
    async with open_stream(cluster.url, path=f"{LOG}/stream?after=1", last_id="9") as stream:
        seen = [await stream.next() for _ in range(3)]
        assert [(frame.event, frame.id) for frame in seen] == [("hello", "0"), ("reset", "0"), ("line", "1")]
    assert (await cluster.call("GET", f"{LOG}/stream?after=x"))[0] == 400


async def test_log_that_does_not_exist_is_404_and_a_number_that_is_none_is_400(
    cluster: RunningFrontend, engines: Engines
) -> None:
    assert not engines.lines
    for path in (LOG, f"{LOG}/stream"):
        status, answer = await cluster.call("GET", path)
        assert status == 404, answer
        assert_envelope(answer, code="log_not_found")
    assert (await cluster.call("GET", f"{LOG}/stream", Last_Event_Id="x"))[0] == 400


async def _command(engines: Engines) -> Any:
    async def look() -> Any:
        return engines.jobs[-1] if engines.jobs else None

    return await eventually(look)


async def _places(cluster: RunningFrontend) -> set[str]:
    """Where the outbox has something."""
    async with cluster.database.transaction() as tx:
        return {str(event.position) for event in await outbox.read(tx, ORIGIN)}


async def test_stream_tells_changes_with_ids_and_progress_without(cluster: RunningFrontend, engines: Engines) -> None:
    async with open_stream(cluster.url, path=STREAM) as stream:
        hello = await stream.next()
        assert hello.event == "hello"
        operation = await install(cluster)
        created = (await stream.until("operation.created", id=operation["id"]))[-1]
        assert created.id != hello.id
        command = await _command(engines)
        total = 1000
        await engines.tell(
            command, 2, "running", phase="downloading", percent=40.0, current_bytes=400, total_bytes=total
        )
        while True:
            frame = await stream.next()
            data = json.loads(frame.data).get("data", {})
            if frame.event == "operation.progress" and data.get("nodes", [{}])[0].get("current") == 400:
                break
        assert json.loads(frame.data)["key"] == data["id"] == operation["id"]
        assert json.loads(frame.data)["id"] == ""
        node = data["nodes"][0]
        assert (node["node_name"], node["phase"], node["total"], node["state"]) == (
            "a",
            "downloading",
            total,
            "working",
        )
        # The place to resume from is still that of a change.
        place = frame.id
        assert place in await _places(cluster)
        await engines.tell(command, 3, "done", percent=100.0)
        ended = (await stream.until("operation.changed", id=operation["id"], state="completed"))[-1]
        assert ended.id != place
    assert (await shown(cluster, operation["id"]))["nodes"][0]["state"] == "success"
    async with open_stream(cluster.url, path=STREAM, last_id=place) as resumed:
        assert (await resumed.next()).event == "hello"
        assert (await resumed.until("operation.changed", id=operation["id"], state="completed"))[-1].id == ended.id


async def test_watcher_at_another_frontend_sees_the_same_and_a_stopping_frontend_ends_its_streams(
    cluster: RunningFrontend, engines: Engines, nats: NatsServer, database_url: str
) -> None:
    async with running_frontend(database_url, authority=nats.authority, nats_url=nats.url) as other:

        async def is_connected() -> bool:
            return other.bus.is_connected

        await eventually(is_connected)
        watching = open_stream(other.url, path=STREAM)
        stream = await watching.__aenter__()
        await stream.next()
        operation = await ask(cluster, "/api/nodes/a/backends/install", {"backend": BACKEND})
        command = await _command(engines)
        seq = 2
        while True:
            await engines.tell(command, seq, "running", phase="downloading", percent=5.0 + seq)
            frame = await stream.next()
            seq += 1
            if frame.event == "operation.progress" and json.loads(frame.data)["key"] == operation["id"]:
                break
        await engines.tell(command, seq + 1, "done", percent=100.0)
        await stream.until("operation.changed", id=operation["id"], state="completed")
    # Read to its end without an error: the connection was not cut.
    while await stream.next_or_end() is not None:
        pass
    await watching.__aexit__(None, None, None)
    assert (await until_state(cluster, operation["id"], "completed"))["progress"] == 100.0


async def test_operation_stream_carries_operations_only_and_refuses_an_invalid_event_id(
    cluster: RunningFrontend,
) -> None:
    async with open_stream(cluster.url, path=STREAM) as stream:
        await stream.next()
        await join_node(cluster, "b")
        operation = await install(cluster, "piper")
        seen = await stream.until("operation.created", id=operation["id"])
        assert {frame.event.partition(".")[0] for frame in seen} == {"operation"}
    status, answer = await cluster.call("GET", STREAM, Last_Event_Id="nowhere")
    assert status == 400
    assert_envelope(answer)


async def _load(cluster: RunningFrontend, engines: Engines, *models: str) -> None:
    for name in models:
        model = await put_model(cluster.database, name)
        await put_loaded(cluster.database, engines.node.id, model)
        engines.running.append(f"{name}#0")


async def test_node_processes_are_listed_with_memory_and_cpu(cluster: RunningFrontend, engines: Engines) -> None:
    engines.running.append("m#0")
    status, (process,) = await cluster.call("GET", "/api/nodes/a/processes")
    assert (status, process["ram_bytes"], process["cpu_percent"]) == (200, 2**30, 150.0)


async def test_monitor_sums_up_the_engines_of_one_model_and_lists_each(
    cluster: RunningFrontend, engines: Engines
) -> None:
    await _load(cluster, engines, "chat", "other")
    status, seen = await cluster.call("GET", "/backend/monitor?model=chat")
    assert (status, seen["memory_info"], seen["cpu_percent"]) == (200, {"rss": 2**30}, 150.0)
    assert [(one["key"], one["node_name"], one["pid"]) for one in seen["processes"]] == [("chat#0", "a", 7)]
    assert seen["memory_percent"] == 25.0
    _, every = await cluster.call("GET", "/backend/monitor")
    assert (len(every["processes"]), every["cpu_percent"]) == (2, 300.0)


async def test_monitor_refuses_a_model_that_is_loaded_nowhere(cluster: RunningFrontend, engines: Engines) -> None:
    await put_model(cluster.database, "cold")
    for model, code in (("cold", "model_not_loaded"), ("nobody", "model_not_found")):
        status, answer = await cluster.call("GET", f"/backend/monitor?model={model}")
        assert status == 404
        assert_envelope(answer, code=code)


async def test_monitor_names_a_node_that_does_not_answer(cluster: RunningFrontend, engines: Engines) -> None:
    await _load(cluster, engines, "chat")
    silent = await join_node(cluster, "silent")
    async with cluster.database.transaction() as tx:
        model = await model_store.get_model(tx, "chat")
    await put_loaded(cluster.database, silent.id, model)
    status, seen = await cluster.call("GET", "/backend/monitor?model=chat")
    assert (status, list(seen["unreachable"]), len(seen["processes"])) == (200, ["silent"], 1)


async def test_system_lists_installed_backends_and_loaded_models(cluster: RunningFrontend, engines: Engines) -> None:
    await _load(cluster, engines, "chat", "unready")
    await sql(cluster.database, "UPDATE replicas SET state = 'loading' WHERE model = 'unready'")
    await report(engines.node, BACKEND)
    status, system = await cluster.call("GET", "/system")
    assert (status, system["backends"]) == (200, [BACKEND])
    assert [(one["id"], one["backend"], one["node_name"]) for one in system["loaded_models"]] == [
        ("chat", "cpu-engine", "a")
    ]


async def test_replicas_are_listed_with_backend_and_times_as_localai_has_them(
    cluster: RunningFrontend, engines: Engines
) -> None:
    await _load(cluster, engines, "chat")
    await sql(cluster.database, "UPDATE nodes SET bus_ok = TRUE")
    _, (everywhere,) = await cluster.call("GET", "/api/nodes/models")
    _, (replica,) = await cluster.call("GET", "/api/nodes/a/models")
    assert everywhere == replica
    assert (replica["backend_type"], replica["loading_by"]) == ("cpu-engine", "")
    assert replica["created_at"] <= replica["updated_at"]


async def test_replica_that_is_loading_names_the_operation_that_loads_it(
    cluster: RunningFrontend, engines: Engines
) -> None:
    await _load(cluster, engines, "chat")
    key = "00000000-0000-0000-0000-000000000007"
    await sql(cluster.database, f"UPDATE replicas SET state = 'loading', operation_id = '{key}'")
    _, (replica,) = await cluster.call("GET", "/api/nodes/a/models")
    assert (replica["state"], replica["loading_by"]) == ("loading", key)
