"""Messages become turns, and turns become messages of their thread."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from sqlalchemy import text

from corral.reconcile.maintenance import Pruner, RetentionOptions
from tests.agents.hand_worker import HandWorker, chat, create, join_worker, make_key
from tests.support.frontends import RunningFrontend, running_frontend


@pytest.fixture
async def worker(frontend: RunningFrontend) -> HandWorker:
    return await join_worker(frontend)


@pytest.mark.behaviour("AGENT-8")
async def test_second_message_of_a_thread_is_answered_with_knowledge_of_the_first(
    frontend: RunningFrontend, worker: HandWorker, database_url: str
) -> None:
    await create(frontend, system_prompt="Be brief.")
    first = await chat(frontend, "My name is Ann.\nRemember it.")
    spec = await worker.take(first["run_id"])
    assert (spec["instructions"], spec["history"]) == ("Be brief.", [])
    assert spec["messages"] == [{"role": "user", "content": "My name is Ann.\nRemember it."}]
    call = {"id": "c1", "type": "function", "function": {"name": "notes__add", "arguments": "{}"}}
    spoken = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "noted"},
        {"role": "assistant", "content": "Hello Ann."},
    ]
    await worker.end(first["run_id"], "Hello Ann.", messages=spoken)
    # The second message comes at another frontend, and another worker gets it.
    async with running_frontend(database_url) as other:
        colleague = await join_worker(other, "agent-2")
        async with frontend.database.transaction() as tx:
            await tx.execute(text("UPDATE nodes SET max_runs = NULL WHERE name = 'agent-1'"))
        second = await chat(other, "Who am I?", thread=first["thread_id"])
        spec = await colleague.answer(second["run_id"], "Ann.")
    assert [message["role"] for message in spec["history"]] == ["user", "assistant", "tool", "assistant"]
    assert spec["history"][0]["content"] == "My name is Ann.\nRemember it."
    assert spec["history"][1]["tool_calls"] == [call]
    assert spec["messages"] == [{"role": "user", "content": "Who am I?"}]
    status, thread = await frontend.call("GET", f"/api/agents/helper/threads/{first['thread_id']}")
    assert (status, thread["title"], thread["messages"]) == (200, "My name is Ann. Remember it.", 6)
    _, messages = await frontend.call("GET", f"/api/agents/helper/threads/{first['thread_id']}/messages")
    assert [(one["seq"], one["role"]) for one in messages["messages"]][-2:] == [(5, "user"), (6, "assistant")]
    assert {one["run_id"] for one in messages["messages"]} == {first["run_id"], second["run_id"]}


@pytest.mark.behaviour("AGENT-63")
async def test_new_thread_begins_with_the_earlier_messages_that_come_with_its_first(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    earlier = [{"role": "user", "content": "My name is Ann."}, {"role": "assistant", "content": "Hello Ann."}]
    body = {"message": "Who am I?", "history": earlier}
    status, sent = await frontend.call("POST", "/api/agents/helper/chat", body)
    assert status == 202, sent
    spec = await worker.answer(sent["run_id"], "Ann.")
    assert (spec["history"], spec["messages"]) == (earlier, [{"role": "user", "content": "Who am I?"}])
    path = f"/api/agents/helper/threads/{sent['thread_id']}"
    _, thread = await frontend.call("GET", path)
    assert (thread["title"], thread["messages"]) == ("Who am I?", 4)
    second = await chat(frontend, "Sure?", thread=sent["thread_id"])
    assert [message["content"] for message in (await worker.answer(second["run_id"]))["history"]] == [
        "My name is Ann.", "Hello Ann.", "Who am I?", "Ann.",
    ]  # fmt: skip
    for wrong in (body | {"thread_id": sent["thread_id"]}, {"message": "x", "history": [{"role": "system"}]}):
        status, refused = await frontend.call("POST", "/api/agents/helper/chat", wrong)
        assert (status, refused["error"]["code"]) == (400, "invalid_request")
    # LocalAI's page sends an empty list with the first message.
    assert (await frontend.call("POST", "/api/agents/helper/chat", {"message": "hi", "history": []}))[0] == 202


@pytest.mark.behaviour("AGENT-13")
async def test_new_message_cancels_the_turn_of_its_thread_and_of_no_other(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    first, elsewhere = await chat(frontend, "one"), await chat(frontend, "elsewhere")
    await worker.take(first["run_id"])
    second = await chat(frontend, "two", thread=first["thread_id"])
    _, cancelled = await frontend.call("GET", f"/api/runs/{first['run_id']}")
    assert cancelled["state"] == "cancelled"
    assert (await worker.deliver(first["run_id"]))["must_stop"] is True
    _, kept = await frontend.call("GET", f"/api/runs/{elsewhere['run_id']}")
    assert kept["finished_at"] is None
    spec = await worker.answer(second["run_id"])
    assert spec["history"] == [{"role": "user", "content": "one"}]


@pytest.mark.behaviour("AGENT-13")
async def test_new_message_keeps_the_answer_of_a_turn_that_has_ended_and_was_not_concluded(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    first = await chat(frontend, "one")
    await worker.take(first["run_id"])
    # As another frontend stores the last entry; the one that drives the run does not know of it yet.
    answer = {"state": "completed", "content": "first", "messages": [{"role": "assistant", "content": "first"}]}
    async with frontend.database.transaction() as tx:
        await tx.execute(
            text("UPDATE runs SET outcome = CAST(:outcome AS jsonb) WHERE id = CAST(:id AS uuid)"),
            {"outcome": json.dumps(answer), "id": first["run_id"]},
        )
    second = await chat(frontend, "two", thread=first["thread_id"])
    await worker.deliver(first["run_id"], ("end", answer))
    assert (await worker.wait_until_ended(first["run_id"]))["state"] == "completed"
    spec = await worker.answer(second["run_id"], "second")
    assert [message["content"] for message in spec["history"]] == ["one", "first"]


@pytest.mark.behaviour("AGENT-13")
async def test_message_waits_behind_the_turn_of_its_thread_and_knows_its_answer(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend, cancel_previous_on_new_message=False)
    first = await chat(frontend, "one")
    spec = await worker.take(first["run_id"])
    second = await chat(frontend, "two", thread=first["thread_id"])
    third = await chat(frontend, "three", thread=first["thread_id"])
    _, waiting = await frontend.call("GET", f"/api/runs/{second['run_id']}")
    assert (waiting["state"], waiting["message"][:7]) == ("queued", "Waiting")
    assert spec["history"] == []
    await worker.end(first["run_id"], "first")
    spec = await worker.answer(second["run_id"], "second")
    assert [message["content"] for message in spec["history"]] == ["one", "first"]
    spec = await worker.answer(third["run_id"], "third")
    assert [message["content"] for message in spec["history"]] == ["one", "first", "two", "second"]


@pytest.mark.behaviour("AGENT-7")
async def test_message_without_an_agent_worker_is_refused_and_nothing_is_stored(frontend: RunningFrontend) -> None:
    await create(frontend)
    status, refused = await frontend.call("POST", "/api/agents/helper/chat", {"message": "hello"})
    assert (status, refused["error"]["code"]) == (503, "no_agent_worker")
    async with frontend.database.transaction() as tx:
        for table in ("threads", "thread_messages", "runs"):
            assert (await tx.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one() == 0, table


@pytest.mark.behaviour("AGENT-7")
async def test_message_without_an_agent_worker_leaves_the_turn_that_runs(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    first = await chat(frontend, "one")
    async with frontend.database.transaction() as tx:
        await tx.execute(text("UPDATE nodes SET max_runs = NULL"))
    status, _ = await frontend.call(
        "POST", "/api/agents/helper/chat", {"message": "two", "thread_id": first["thread_id"]}
    )
    assert status == 503
    _, run = await frontend.call("GET", f"/api/runs/{first['run_id']}")
    assert run["finished_at"] is None


@pytest.mark.behaviour("AGENT-6")
@pytest.mark.parametrize("message", ["", "  \n "])
async def test_empty_message_is_refused(frontend: RunningFrontend, worker: HandWorker, message: str) -> None:
    del worker
    await create(frontend)
    status, refused = await frontend.call("POST", "/api/agents/helper/chat", {"message": message})
    assert (status, refused["error"]["code"]) == (400, "empty_message")


async def test_message_that_is_sent_twice_with_one_idempotency_key_is_one_turn(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    del worker
    await create(frontend)
    body = {"message": "hello"}
    sent = [await frontend.call("POST", "/api/agents/helper/chat", body, Idempotency_Key="k1") for _ in range(2)]
    assert sent[0] == sent[1]
    assert sent[0][0] == 202
    assert len((await frontend.call("GET", "/api/runs"))[1]["runs"]) == 1


async def test_failed_turn_adds_nothing_to_its_thread(frontend: RunningFrontend, worker: HandWorker) -> None:
    await create(frontend)
    first = await chat(frontend, "one")
    await worker.answer(first["run_id"], state="failed", error_code="model_failed", error_text="The model is away.")
    _, messages = await frontend.call("GET", f"/api/agents/helper/threads/{first['thread_id']}/messages")
    assert [one["content"] for one in messages["messages"]] == ["one"]
    _, run = await frontend.call("GET", f"/api/runs/{first['run_id']}")
    assert (run["state"], run["error_code"]) == ("failed", "model_failed")


async def test_thread_is_listed_read_and_deleted_with_its_turn_by_its_owner_only(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    del worker
    await create(frontend, shared=True)
    key = (await make_key(frontend, "ann"))["key"]
    status, empty = await frontend.call("POST", "/api/agents/helper/threads", {"title": "Plans"}, key=key)
    assert (status, empty["title"], empty["messages"]) == (201, "Plans", 0)
    mine = await chat(frontend, "hello", key=key)
    _, listed = await frontend.call("GET", "/api/agents/helper/threads", key=key)
    assert [thread["id"] for thread in listed["threads"]] == [mine["thread_id"], empty["id"]]
    assert (await frontend.call("GET", "/api/agents/helper/threads"))[1]["threads"] == []
    path = f"/api/agents/helper/threads/{mine['thread_id']}"
    for method, suffix in (("GET", ""), ("GET", "/messages"), ("DELETE", "")):
        status, refused = await frontend.call(method, f"{path}{suffix}")
        assert (status, refused["error"]["code"]) == (404, "thread_not_found")
    _, seen = await frontend.call("GET", "/api/agents/helper/threads?all_users=true")
    assert len(seen["threads"]) == 2
    assert (await frontend.call("DELETE", path, key=key))[0] == 204
    assert (await frontend.call("GET", path, key=key))[0] == 404
    _, run = await frontend.call("GET", f"/api/runs/{mine['run_id']}", key=key)
    assert run["state"] == "cancelled"


async def test_history_of_a_long_thread_is_bounded(frontend: RunningFrontend, worker: HandWorker) -> None:
    await create(frontend)
    first = await chat(frontend, "one")
    await worker.answer(first["run_id"], "x")
    async with frontend.database.transaction() as tx:
        await tx.execute(
            text("""
                INSERT INTO thread_messages (thread_id, seq, role, message)
                SELECT CAST(:id AS uuid), n, 'user', jsonb_build_object('role', 'user', 'content', n)
                  FROM generate_series(3, 500) AS n"""),
            {"id": first["thread_id"]},
        )
        await tx.execute(text("UPDATE threads SET last_seq = 500"))
    second = await chat(frontend, "two", thread=first["thread_id"])
    spec = await worker.answer(second["run_id"])
    assert [message["content"] for message in spec["history"]] == list(range(301, 501))


@pytest.mark.behaviour("AGENT-35")
async def test_threads_go_when_their_last_message_is_older_than_the_retention_unless_a_turn_is_open(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    old, still_open, recent = [await chat(frontend, word) for word in ("old", "open", "recent")]
    await worker.answer(old["run_id"])
    await worker.answer(recent["run_id"])
    async with frontend.database.transaction() as tx:
        await tx.execute(
            text("UPDATE threads SET updated_at = corral_now() - interval '11 days' WHERE id IN (:old, :open)"),
            {"old": UUID(old["thread_id"]), "open": UUID(still_open["thread_id"])},
        )
    await frontend.core.leader.tick()
    pruner = Pruner(frontend.database, frontend.core.leader, RetentionOptions(outbox_s=86400, threads_s=10 * 86400))
    assert (await pruner.tick()).threads == 1
    _, listed = await frontend.call("GET", "/api/agents/helper/threads")
    assert {thread["id"] for thread in listed["threads"]} == {still_open["thread_id"], recent["thread_id"]}
