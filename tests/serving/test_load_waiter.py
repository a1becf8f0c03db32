"""Requests for a model that is not loaded: one load, many waiters, and what each of them is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.app.settings.values import parse_limit_s
from corral.gateway.routing.router import EDITS_MAX
from corral.models import catalog as model_flow
from corral.store import models as model_store
from corral.store.database import Database
from tests.serving.scene import (
    PretendLoads,
    address_of,
    an_engine,
    keep_only_the_feed,
    no_replicas,
    put_model,
    put_replica,
    settled,
)
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import join_node
from tests.support.polling import eventually

CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def loads(database: Database) -> PretendLoads:
    return PretendLoads(database)


@asynccontextmanager
async def cluster(
    url: str, loads: PretendLoads, *, count: int = 1, wait_s: float = 60.0
) -> AsyncIterator[list[RunningFrontend]]:
    """Frontends on one registry, with a model that nobody has loaded."""
    async with AsyncExitStack() as stack:
        frontends = [
            await stack.enter_async_context(running_frontend(url, loads=loads, request_wait_s=wait_s))
            for _ in range(count)
        ]
        for frontend in frontends:
            await keep_only_the_feed(frontend)
        await put_model(loads.database)
        await settled(*frontends)
        yield frontends


async def ask(frontend: RunningFrontend) -> tuple[int, Any]:
    return await frontend.call("POST", "/v1/chat/completions", CHAT)


async def all_wait(count: int, *frontends: RunningFrontend) -> None:
    """Wait until so many requests wait, and the load for them was requested."""

    async def they_do() -> bool:
        waits = [wait for one in frontends for wait in one.core.router.load_waiter._pending.values()]
        return sum(wait.waiters for wait in waits) == count and all(wait.operation_id for wait in waits)

    await eventually(they_do)


@pytest.mark.behaviour("NODE-71")
async def test_fifty_requests_on_three_frontends_are_one_load_and_all_are_served(
    database_url: str, loads: PretendLoads, tmp_path: Path
) -> None:
    with an_engine(tmp_path) as engine:
        async with cluster(database_url, loads, count=3) as frontends, asyncio.TaskGroup() as group:
            await engine.ready()
            node = await join_node(frontends[0])
            requests = [group.create_task(ask(frontends[number % 3])) for number in range(50)]
            await all_wait(50, *frontends)
            assert loads.requests == 3
            assert len(loads.begun) == 1
            await put_replica(loads.database, node.id, address_of(engine))
            await loads.complete()
            answers = await asyncio.gather(*requests)
            assert {status for status, _ in answers} == {200}
            assert len(loads.begun) == 1


@pytest.mark.behaviour("NODE-75")
async def test_failed_load_raises_the_same_error_for_all_waiters_and_shortly_after(
    database_url: str, loads: PretendLoads
) -> None:
    async with cluster(database_url, loads, count=2) as frontends, asyncio.TaskGroup() as group:
        requests = [group.create_task(ask(frontends[number % 2])) for number in range(6)]
        await all_wait(6, *frontends)
        await loads.fail("no_room", "node-1 has 1 GiB of RAM free, 3 GiB are needed.")
        answers = [await one for one in requests]
        later = await ask(frontends[0])
        assert len(loads.begun) == 1
        for status, body in [*answers, later]:
            assert status == 503
            assert body["error"]["code"] == "no_room"
            assert body["error"]["type"] == "server_error"
            assert "3 GiB are needed" in body["error"]["message"]


async def test_load_that_cannot_succeed_is_no_503(database_url: str, loads: PretendLoads) -> None:
    async with cluster(database_url, loads) as (frontend,), asyncio.TaskGroup() as group:
        pending = group.create_task(ask(frontend))
        await all_wait(1, frontend)
        await loads.fail("digest_mismatch", "The file is not what was promised.")
        status, body = await pending
        assert (status, body["error"]["code"]) == (500, "digest_mismatch")


async def test_load_that_an_admin_cancels_ends_the_waiting(database_url: str, loads: PretendLoads) -> None:
    async with cluster(database_url, loads) as (frontend,), asyncio.TaskGroup() as group:
        pending = group.create_task(ask(frontend))
        await all_wait(1, frontend)
        await loads.move(state="cancelled")
        status, body = await pending
        assert (status, body["error"]["code"]) == (503, "load_cancelled")


@pytest.mark.behaviour("OPS-164")
async def test_waiting_request_gets_the_failed_installation_because_of_which_its_load_was_not_begun(
    database_url: str, loads: PretendLoads
) -> None:
    async with cluster(database_url, loads) as (frontend,), asyncio.TaskGroup() as group:
        pending = group.create_task(ask(frontend))
        await all_wait(1, frontend)
        await loads.fail_install("digest_mismatch", "The file is not what was promised.")
        status, body = await pending
        assert (status, body["error"]["code"]) == (500, "digest_mismatch")
        assert "The file is not what was promised." in body["error"]["message"]


@pytest.mark.behaviour("NODE-76")
async def test_client_that_leaves_ends_its_own_waiting_and_nothing_else(
    database_url: str, loads: PretendLoads, tmp_path: Path
) -> None:
    with an_engine(tmp_path) as engine:
        async with cluster(database_url, loads) as (frontend,), asyncio.TaskGroup() as group:
            await engine.ready()
            node = await join_node(frontend)
            leaving, staying = group.create_task(ask(frontend)), group.create_task(ask(frontend))
            await all_wait(2, frontend)
            leaving.cancel()
            await all_wait(1, frontend)
            await put_replica(loads.database, node.id, address_of(engine))
            await loads.complete()
            assert (await staying)[0] == 200
            assert len(loads.begun) == 1


async def test_load_continues_without_waiters(database_url: str, loads: PretendLoads) -> None:
    async with cluster(database_url, loads) as (frontend,), asyncio.TaskGroup() as group:
        leaving = group.create_task(ask(frontend))
        await all_wait(1, frontend)
        leaving.cancel()
        await all_wait(0, frontend)
        status, listed = await frontend.call("GET", "/api/operations")
        assert status == 200
        assert [one["state"] for one in listed["operations"]] == ["queued"]


@pytest.mark.behaviour("NODE-77")
async def test_request_that_waited_long_enough_gets_the_progress_of_the_load(
    database_url: str, loads: PretendLoads
) -> None:
    async with cluster(database_url, loads, wait_s=0.2) as (frontend,):
        headers = {"Authorization": "Bearer ck_the-admin-key-of-the-tests-0123456789abcdef"}
        files = [{"path": path, "uri": f"file:///{path}"} for path in ("first.gguf", "second.gguf")]
        await put_model(loads.database, files=files)
        await loads.request_load("chat")
        await loads.move(
            state="running",
            phase="staging",
            percent=40.0,
            current_bytes=40,
            total_bytes=100,
            scope_node_name="attic",
            file_name="second.gguf",
        )
        async with frontend.http.post(f"{frontend.url}/v1/chat/completions", json=CHAT, headers=headers) as answer:
            body = await answer.json()
            assert answer.status == 503
            assert 5 <= int(answer.headers["Retry-After"]) <= 300
        assert body["error"]["code"] == body["error"]["type"] == "model_loading"
        assert "attic" in body["error"]["message"]
        loading = body["loading"]
        assert loading == loading | {"model": "chat", "state": "staging", "node": "attic", "progress": 40.0}
        assert (loading["bytes_sent"], loading["total_bytes"]) == (40, 100)
        assert (loading["file_name"], loading["file_index"], loading["total_files"]) == ("second.gguf", 2, 2)
        assert len(loads.begun) == 1


@pytest.mark.behaviour("NODE-78")
async def test_request_waits_as_long_as_the_load_with_a_wait_of_zero(
    database_url: str, loads: PretendLoads, tmp_path: Path
) -> None:
    with an_engine(tmp_path) as engine:
        async with cluster(database_url, loads, wait_s=0.0) as (frontend,), asyncio.TaskGroup() as group:
            await engine.ready()
            node = await join_node(frontend)
            pending = group.create_task(ask(frontend))
            await all_wait(1, frontend)
            await put_replica(loads.database, node.id, address_of(engine))
            await loads.complete()
            assert (await pending)[0] == 200


@pytest.mark.behaviour("NODE-86")
async def test_load_of_a_model_that_is_evicted_at_once_is_requested_three_times_at_most(
    database_url: str, loads: PretendLoads
) -> None:
    async with cluster(database_url, loads) as (frontend,), asyncio.TaskGroup() as group:
        pending = group.create_task(ask(frontend))
        for number in (1, 2, 3):

            async def was_begun(number: int = number) -> bool:
                return len(loads.begun) == number

            await eventually(was_begun)
            await no_replicas(loads.database)
            await loads.complete()
        status, body = await pending
        assert (status, body["error"]["code"]) == (502, "model_evicted")
        assert len(loads.begun) == 3


@pytest.mark.parametrize("code", ["model_edited", "model_not_found"])
async def test_model_edited_or_recreated_while_a_request_waits_is_loaded_in_its_current_form(
    database_url: str, loads: PretendLoads, tmp_path: Path, code: str
) -> None:
    with an_engine(tmp_path) as engine:
        async with cluster(database_url, loads) as (frontend,), asyncio.TaskGroup() as group:
            await engine.ready()
            node = await join_node(frontend)
            pending = group.create_task(ask(frontend))
            await all_wait(1, frontend)
            await loads.supersede(code, "Model chat is not what it was when the load began.")

            async def was_begun() -> bool:
                return len(loads.begun) == 2

            await eventually(was_begun)
            await put_replica(loads.database, node.id, address_of(engine))
            await loads.complete()
            assert (await pending)[0] == 200


async def supersede_by_edit(loads: PretendLoads, times: int) -> None:
    """As often as this, the model is edited while it is loaded for somebody who waits."""
    for number in range(1, times + 1):

        async def was_begun(number: int = number) -> bool:
            return len(loads.begun) == number

        await eventually(was_begun)
        await loads.supersede("model_edited", "Model chat is not what it was when the load began.")


@pytest.mark.behaviour("NODE-86")
async def test_request_for_a_model_that_is_edited_often_waits_on_and_is_answered(
    database_url: str, loads: PretendLoads, tmp_path: Path
) -> None:
    with an_engine(tmp_path) as engine:
        async with cluster(database_url, loads) as (frontend,), asyncio.TaskGroup() as group:
            await engine.ready()
            node = await join_node(frontend)
            pending = group.create_task(ask(frontend))
            await supersede_by_edit(loads, 5)

            async def was_begun() -> bool:
                return len(loads.begun) == 6

            await eventually(was_begun)
            await put_replica(loads.database, node.id, address_of(engine))
            await loads.complete()
            assert (await pending)[0] == 200


@pytest.mark.behaviour("NODE-86")
async def test_request_for_a_model_that_is_edited_without_end_gets_503(database_url: str, loads: PretendLoads) -> None:
    async with cluster(database_url, loads) as (frontend,), asyncio.TaskGroup() as group:
        pending = group.create_task(ask(frontend))
        await supersede_by_edit(loads, EDITS_MAX)
        status, body = await pending
        assert (status, body["error"]["code"]) == (503, "model_edited")
        assert "corral models revisions chat" in body["error"]["hint"]


async def test_model_that_is_removed_while_it_is_waited_for_is_not_found(
    database_url: str, loads: PretendLoads
) -> None:
    async with cluster(database_url, loads) as (frontend,), asyncio.TaskGroup() as group:
        pending = group.create_task(ask(frontend))
        await all_wait(1, frontend)
        async with loads.database.transaction() as tx:
            model = await model_store.find_model(tx, "chat")
            assert model is not None
            await model_store.delete_model(tx, model)
        await loads.supersede("model_not_found", "It was deleted.")
        assert (await pending)[0] == 404


async def test_request_for_a_model_that_is_disabled_while_it_loads_gets_403(
    database_url: str, loads: PretendLoads
) -> None:
    async with cluster(database_url, loads) as (frontend,), asyncio.TaskGroup() as group:
        pending = group.create_task(ask(frontend))
        await all_wait(1, frontend)
        async with loads.database.transaction() as tx:
            await model_flow.set_enabled(tx, "chat", "ann", enabled=False)
        await loads.supersede("model_disabled", "Model chat was disabled.")
        status, body = await pending
        assert (status, body["error"]["code"]) == (403, "model_disabled")


@pytest.mark.behaviour("NODE-77")
async def test_client_may_want_to_wait_for_less_and_never_for_more(database_url: str, loads: PretendLoads) -> None:
    for wait_s, prefer in ((0.0, "wait=0"), (60.0, "respond-async, wait=0"), (0.2, "wait=600")):
        async with cluster(database_url, loads, wait_s=wait_s) as (frontend,):
            status, body = await frontend.call("POST", "/v1/chat/completions", CHAT, Prefer=prefer)
            assert (status, body["error"]["code"]) == (503, "model_loading")


@pytest.mark.parametrize(("written", "seconds"), [("0", 0.0), ("0s", 0.0), (0, 0.0), ("90s", 90.0), ("1m", 60.0)])
def test_wait_of_zero_can_be_set(written: object, seconds: float) -> None:
    assert parse_limit_s(written) == seconds
