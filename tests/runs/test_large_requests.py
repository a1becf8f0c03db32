"""Requests and results that are large: lists and locks leave them out, and little of them is kept behind the end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral.domain.access import Owner
from corral.domain.run import RunEventType, RunState
from corral.store import runs as store
from corral.store.database import Database
from corral.store.runs import KEPT_CHARS_MAX, SHOWN_BYTES_MAX, SHOWN_CHARS_MAX, RunFilter
from tests.operations.fake_bus import Hub
from tests.operations.scene import sql
from tests.runs.scene import RunFrontend, RunWorker, put_owner, put_workers

LONG = "é" * 1_000_000
CONVERSATION: dict[str, Any] = {
    "messages": [{"role": "user", "content": LONG}, {"role": "user", "content": f"last {LONG}"}],
    "history": [{"role": "user", "content": LONG}],
    "client_tools": [{"name": "tool", "description": LONG}],
    "instructions": LONG,
    "options": {"temperature": 0.5},
    "call_id": "c1",
}


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def frontend(database: Database, hub: Hub) -> RunFrontend:
    return await RunFrontend(database, hub).plug_in()


@pytest.fixture
async def owner(database: Database) -> Owner:
    return await put_owner(database)


@pytest.fixture
async def worker(frontend: RunFrontend, hub: Hub) -> RunWorker:
    [made] = await put_workers(frontend.database, hub, "agent-1")
    return made


@pytest.mark.behaviour("RUNS-40")
async def test_list_holds_the_parts_that_it_shows_with_texts_that_are_cut(
    frontend: RunFrontend, owner: Owner, worker: RunWorker
) -> None:
    await frontend.start(owner, request=CONVERSATION | {"parameters": {"a": None}, "media": [{"name": "x"}]})
    await frontend.run()
    await worker.end(frontend, content=LONG, reason="answer", messages=[{"role": "assistant", "content": LONG}])
    await frontend.run()
    await frontend.start(owner, request={"model": "m", "parameters": {"a": LONG}})
    picture = {"type": "image_url", "image_url": {"url": LONG}}
    await frontend.start(owner, request={"messages": [{"role": "user", "content": [picture]}]})
    async with frontend.database.transaction() as tx:
        pictured, large, ended = await store.list_runs(tx, RunFilter(owner=str(owner)))
    assert ended.request == {
        "parameters": {"a": None},
        "media": [{"name": "x"}],
        "messages": [{"role": "user", "content": f"last {LONG}"[:SHOWN_CHARS_MAX]}],
    }
    assert ended.result == {"content": LONG[:SHOWN_CHARS_MAX], "reason": "answer"}
    assert (large.request, large.result) == ({"model": "m"}, None)
    assert pictured.request == {"messages": [{"role": "user", "content": None}]}


@pytest.mark.behaviour("RUNS-40")
async def test_parameters_and_attachments_that_are_short_are_listed_as_they_are(
    frontend: RunFrontend, owner: Owner, worker: RunWorker
) -> None:
    fits = {"a": "x" * (SHOWN_BYTES_MAX - len(json.dumps({"a": ""})))}
    await frontend.start(owner, request={"parameters": fits})
    async with frontend.database.transaction() as tx:
        [listed] = await store.list_runs(tx, RunFilter())
    assert listed.request == {"parameters": fits}
    assert worker.starts == []


async def test_locks_and_polls_read_no_request(frontend: RunFrontend, owner: Owner, worker: RunWorker) -> None:
    parent = await frontend.start(owner, request=CONVERSATION)
    child = await frontend.start(owner, request=CONVERSATION, parent_id=parent.id)
    async with frontend.database.transaction() as tx:
        locked = await store.lock_run(tx, child.id)
        free = await store.lock_free_runs(tx, [parent.id])
        found = await store.find_child(tx, parent.id, "c1")
        light = await store.find_run(tx, parent.id, reads_request=False)
    assert locked is not None
    assert found is not None
    assert light is not None
    assert [dict(run.request) for run in (locked.run, free[parent.id].run, found, light)] == [{}] * 4
    assert worker.starts == []


@pytest.mark.behaviour("RUNS-40")
@pytest.mark.parametrize("end", ["reported", "cancelled"])
async def test_run_that_has_ended_keeps_the_last_message_of_its_conversation(
    frontend: RunFrontend, owner: Owner, worker: RunWorker, end: str
) -> None:
    run = await frontend.start(owner, request=CONVERSATION)
    await frontend.run()
    assert (await frontend.get(run.id)).request == {"text": "hello"} | CONVERSATION
    if end == "cancelled":
        await frontend.runs.cancel(run.id, None, "ann")
    else:
        messages = [{"role": "assistant", "content": LONG}]
        await worker.deliver(frontend, (RunEventType.END, {"state": "completed", "content": "x", "messages": messages}))
        await frontend.run()
        [ending] = frontend.kind.endings
        assert ending.outcome["messages"] == messages
    ended = await frontend.get(run.id)
    assert ended.state is (RunState.CANCELLED if end == "cancelled" else RunState.COMPLETED)
    assert ended.request == {
        "text": "hello",
        "messages": [{"role": "user", "content": f"last {LONG}"[:KEPT_CHARS_MAX]}],
        "options": {"temperature": 0.5},
        "call_id": "c1",
    }
    [row] = await sql(frontend.database, "SELECT outcome, result FROM runs")
    assert row.outcome is None
    assert row.result == (None if end == "cancelled" else {"content": "x", "reason": ""})
