"""Agents as models of the official clients of OpenAI and Anthropic, on a worker that the test plays."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from corral.api.turns import turn_calls
from corral.gateway.connection.protocol import ConnectionRegistry
from corral.runs import trace
from tests.agents.hand_worker import HandWorker, create, join_worker, make_key
from tests.serving.scene import put_model
from tests.support.cuttable_proxy import run_cuttable_proxy
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.polling import eventually

USAGE = {"prompt_tokens": 30, "completion_tokens": 12, "steps": 2, "tool_calls": 1}
WEATHER: Any = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
RESULT = {"call_id": "c1", "name": "time__now", "content": "noon", "is_error": False}
# The caller's own tools, and the answer with which a run calls one.
CALLS_TOOL = {
    "reason": "client_tool",
    "messages": [{"role": "assistant", "content": "", "tool_calls": [CALL]}],
    "usage": USAGE,
}


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    async with running_frontend(database_url) as running:
        yield running


@pytest.fixture
async def worker(frontend: RunningFrontend) -> HandWorker:
    return await join_worker(frontend)


@pytest.fixture
async def client(frontend: RunningFrontend) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{frontend.url}/v1", api_key=ADMIN_KEY, timeout=60) as opened:
        yield opened


@pytest.fixture
async def claude(frontend: RunningFrontend) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=frontend.url, api_key=ADMIN_KEY, timeout=60) as opened:
        yield opened


def ask(text: str = "hello") -> Any:
    return [{"role": "user", "content": text}]


async def take_first(worker: HandWorker) -> tuple[str, dict[str, Any]]:
    """Take the run that a call has started, and return its id and its specification."""
    [run_id] = await worker.wait_for_run()
    return run_id, await worker.take(run_id)


@pytest.mark.behaviour("AGENT-10")
async def test_chat_for_an_agent_is_answered_by_its_run_with_usage(
    client: AsyncOpenAI, frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend, system_prompt="Be brief.")
    asking = asyncio.create_task(
        client.chat.completions.create(
            model="helper",
            messages=[
                {"role": "developer", "content": "Speak Latin."},
                *ask("My name is Ada."),
                {"role": "assistant", "content": "Salve, Ada."},
                *ask("Who am I?"),
            ],
            temperature=0.3,
            max_tokens=50,
            seed=7,
            stop=["END"],
        )
    )
    run_id, spec = await take_first(worker)
    assert spec["instructions"] == "Be brief.\n\nSpeak Latin."
    assert [message["content"] for message in spec["messages"]] == ["My name is Ada.", "Salve, Ada.", "Who am I?"]
    assert (spec["options"]["temperature"], spec["options"]["max_tokens"]) == (0.3, 50)
    assert spec["options"]["model_settings"] == {"seed": 7, "stop": ["END"]}
    await worker.deliver(run_id, ("step", {}), ("reasoning", {"text": "Hm."}), ("content", {"text": "Ada "}))
    await worker.end(run_id, "Ada es.", usage=USAGE)
    answer = await asking
    [choice] = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("Ada es.", "stop")
    assert choice.message.model_extra is not None
    assert choice.message.model_extra["reasoning_content"] == "Hm."
    assert answer.model == "helper"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (30, 12, 42)
    assert answer.model_extra is not None
    assert answer.model_extra["run"] == {"id": run_id, "ended_by": "answer"}


async def test_chat_stream_relays_reasoning_text_and_tool_results_as_they_come(
    client: AsyncOpenAI, frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    stream = asyncio.create_task(
        client.chat.completions.create(
            model="agent/helper", messages=ask(), stream=True, stream_options={"include_usage": True}
        )
    )
    run_id, _ = await take_first(worker)
    await worker.deliver(run_id, ("step", {}), ("reasoning", {"text": "Hm."}), ("content", {"text": "Let me look."}))
    chunks = await stream
    first = [await anext(chunks), await anext(chunks)]
    assert [chunk.choices[0].delta.content for chunk in first] == [None, "Let me look."]
    assert first[0].choices[0].delta.model_extra == {"reasoning_content": "Hm."}
    await worker.deliver(run_id, ("tool_call", RESULT), ("tool_result", RESULT), ("step", {}))
    shown = await anext(chunks)
    assert shown.model_extra is not None
    assert shown.model_extra["mcp_tool_result"] == RESULT
    await worker.deliver(run_id, ("content", {"text": "It is noon."}))
    await worker.end(run_id, "It is noon.", usage=USAGE, reason="steps")
    rest = [chunk async for chunk in chunks]
    assert [chunk.choices[0].delta.content for chunk in rest[:-1]] == ["\n\nIt is noon.", None]
    assert rest[-2].choices[0].finish_reason == "stop"
    assert rest[-2].model_extra is not None
    assert rest[-2].model_extra["run"] == {"id": run_id, "ended_by": "steps"}
    assert rest[-1].choices == []
    assert rest[-1].usage is not None
    assert rest[-1].usage.total_tokens == 42
    assert {chunk.id for chunk in (*first, shown, *rest)} == {f"chatcmpl-{run_id.replace('-', '')}"}


@pytest.mark.parametrize("is_stream", [False, True])
async def test_call_of_a_tool_of_the_caller_ends_the_answer_and_takes_its_result(
    client: AsyncOpenAI, frontend: RunningFrontend, worker: HandWorker, is_stream: bool
) -> None:
    await create(frontend)

    async def call(messages: Any) -> Any:
        if not is_stream:
            return await client.chat.completions.create(model="helper", messages=messages, tools=[WEATHER])
        async with client.chat.completions.stream(model="helper", messages=messages, tools=[WEATHER]) as stream:
            return await stream.get_final_completion()

    asking = asyncio.create_task(call(ask("Weather in Rome?")))
    run_id, spec = await take_first(worker)
    assert spec["client_tools"] == [WEATHER]
    await worker.end(run_id, "", **CALLS_TOOL)
    [choice] = (await asking).choices
    assert choice.finish_reason == "tool_calls"
    [made] = choice.message.tool_calls
    assert (made.id, made.function.name, made.function.arguments) == ("call_1", "weather", '{"city": "Rome"}')
    history = [
        *ask("Weather in Rome?"),
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    again = asyncio.create_task(call(history))
    run_id, spec = await take_first(worker)
    assert spec["messages"] == history
    await worker.end(run_id, "It is sunny.")
    assert (await again).choices[0].message.content == "It is sunny."


@pytest.mark.behaviour("AGENT-10")
async def test_response_passes_the_whole_input_to_the_agent_and_counts_tokens(
    client: AsyncOpenAI, frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend, system_prompt="Be brief.")
    picture = "data:image/png;base64,iVBORw0KGgo="
    conversation: Any = [
        {"role": "user", "content": "My name is Ada."},
        {"role": "assistant", "content": "Hello Ada."},
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": picture, "detail": "auto"},
            ],
        },
    ]
    asking = asyncio.create_task(
        client.responses.create(
            model="helper", instructions="Be kind.", input=conversation, max_output_tokens=9, temperature=0
        )
    )
    run_id, spec = await take_first(worker)
    assert spec["instructions"] == "Be brief.\n\nBe kind."
    assert [message["role"] for message in spec["messages"]] == ["user", "assistant", "tool", "user"]
    assert spec["messages"][1]["tool_calls"][0]["function"]["name"] == "weather"
    assert spec["messages"][3]["content"][1]["image_url"]["url"] == picture
    assert (spec["options"]["temperature"], spec["options"]["max_tokens"]) == (0, 9)
    await worker.end(run_id, "A picture, Ada.", usage=USAGE)
    answer = await asking
    assert (answer.status, answer.output_text, answer.model) == ("completed", "A picture, Ada.", "helper")
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (30, 12, 42)


async def test_response_stream_relays_a_run_and_names_results_of_tools(
    client: AsyncOpenAI, frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)

    async def call() -> tuple[list[Any], Any]:
        async with client.responses.stream(model="agent/helper", input="hello") as stream:
            events = [event async for event in stream]
            return events, await stream.get_final_response()

    asking = asyncio.create_task(call())
    run_id, _ = await take_first(worker)
    await worker.deliver(run_id, ("step", {}), ("tool_call", RESULT), ("tool_result", RESULT))
    await worker.end(run_id, "It is noon.", usage=USAGE)
    events, final = await asking
    assert (final.output_text, final.usage.total_tokens) == ("It is noon.", 42)
    [shown] = [event for event in events if event.type == "response.mcp_tool_result"]
    assert (shown.name, shown.content) == ("time__now", "noon")
    numbers = [event.sequence_number for event in events if hasattr(event, "sequence_number")]
    assert numbers == sorted(set(numbers))


async def test_message_for_an_agent_is_answered_whole_and_as_a_stream(
    claude: AsyncAnthropic, frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    asking = asyncio.create_task(
        claude.messages.create(model="helper", max_tokens=20, system="Be kind.", messages=ask("hi"))
    )
    run_id, spec = await take_first(worker)
    assert spec["instructions"].endswith("Be kind.")
    await worker.end(run_id, "Hello.", usage=USAGE)
    message = await asking
    assert (message.content[0].to_dict()["text"], message.stop_reason) == ("Hello.", "end_turn")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (30, 12)

    async def stream() -> Any:
        async with claude.messages.stream(model="agent/helper", max_tokens=20, messages=ask("hi")) as events:
            return await events.get_final_message()

    streaming = asyncio.create_task(stream())
    run_id, _ = await take_first(worker)
    await worker.deliver(run_id, ("step", {}), ("reasoning", {"text": "Hm."}), ("tool_result", RESULT))
    await worker.deliver(run_id, ("content", {"text": "Hel"}), ("content", {"text": "lo."}))
    await worker.end(run_id, "Hello.", usage=USAGE)
    final = await streaming
    assert [block.type for block in final.content] == ["thinking", "text"]
    assert (final.content[1].text, final.usage.output_tokens) == ("Hello.", 12)


@pytest.mark.behaviour("AGENT-9")
async def test_calls_at_the_same_time_each_get_the_answer_of_their_own_run(
    client: AsyncOpenAI, frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    asking = [asyncio.create_task(client.responses.create(model="helper", input=f"number {n}")) for n in range(4)]
    run_ids = await worker.wait_for_run(number=4)
    specs = {run_id: await worker.take(run_id) for run_id in run_ids}
    for run_id in reversed(run_ids):
        await worker.end(run_id, f"about {specs[run_id]['messages'][-1]['content']}")
    assert [(await one).output_text for one in asking] == [f"about number {n}" for n in range(4)]


@pytest.mark.behaviour("AGENT-9")
@pytest.mark.parametrize("is_stream", [False, True])
async def test_failed_run_is_an_error_with_a_status_and_is_not_tried_again(
    client: AsyncOpenAI,
    frontend: RunningFrontend,
    worker: HandWorker,
    monkeypatch: pytest.MonkeyPatch,
    is_stream: bool,
) -> None:
    # On a slow machine a stream would begin with a sign of life, and have its status, before the run has failed.
    monkeypatch.setattr(trace, "LOOK_INTERVAL_S", 100.0)
    await create(frontend)
    asking = asyncio.create_task(client.responses.create(model="helper", input="hello", stream=is_stream))
    run_id, _ = await take_first(worker)
    await worker.end(
        run_id, "", state="failed", error_code="context_too_long", error_text="Too long.", result={"status": 400}
    )
    with pytest.raises(openai.BadRequestError) as caught:
        await asking
    assert caught.value.code == "context_too_long"
    assert "Too long." in caught.value.message
    _, listed = await frontend.call("GET", "/api/runs")
    assert len(listed["runs"]) == 1


@pytest.mark.parametrize(
    ("outcome", "status", "code"),
    [
        ({"state": "failed", "error_code": "run_timeout", "error_text": "Time is up."}, 504, "run_timeout"),
        ({"state": "failed", "error_code": "internal", "error_text": "A bug."}, 500, "internal"),
        ({"state": "failed", "error_code": "answer_invalid", "error_text": "No JSON."}, 502, "answer_invalid"),
        ({"state": "cancelled"}, 409, "run_cancelled"),
    ],
)
async def test_end_without_an_answer_is_an_error_with_the_status_of_its_cause(
    frontend: RunningFrontend, worker: HandWorker, outcome: dict[str, Any], status: int, code: str
) -> None:
    await create(frontend)
    body = {"model": "helper", "messages": ask()}
    asking = asyncio.create_task(frontend.call("POST", "/v1/chat/completions", body))
    run_id, _ = await take_first(worker)
    await worker.end(run_id, "", **outcome)
    answered, error = await asking
    assert (answered, error["error"]["code"]) == (status, code)


async def test_stream_that_has_begun_ends_with_an_error_event_when_its_run_fails(
    client: AsyncOpenAI, claude: AsyncAnthropic, frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    opening = asyncio.create_task(client.chat.completions.create(model="helper", messages=ask(), stream=True))
    run_id, _ = await take_first(worker)
    await worker.deliver(run_id, ("content", {"text": "So "}))
    stream = await opening
    assert (await anext(stream)).choices[0].delta.content == "So "
    await worker.end(run_id, "", state="failed", error_code="model_failed", error_text="The engine is gone.")
    with pytest.raises(openai.APIError, match="The engine is gone"):
        await anext(stream)

    async def read() -> None:
        async with claude.messages.stream(model="helper", max_tokens=9, messages=ask()) as events:
            await events.get_final_message()

    reading = asyncio.create_task(read())
    run_id, _ = await take_first(worker)
    await worker.deliver(run_id, ("content", {"text": "So "}))
    await worker.end(run_id, "", state="failed", error_code="model_failed", error_text="The engine is gone.")
    with pytest.raises(anthropic.APIStatusError, match="The engine is gone"):
        await reading


@pytest.mark.behaviour("AGENT-9")
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_call_that_a_stopping_frontend_interrupts_cancels_its_run_and_is_not_tried_again(
    frontend: RunningFrontend, worker: HandWorker, path: str
) -> None:
    await create(frontend)
    body = {"model": "helper", "messages": ask(), "max_tokens": 9}
    posting = asyncio.create_task(_post(frontend, path, body))
    run_id, _ = await take_first(worker)
    assert frontend.core.gateway.stop() == 1
    status, headers, error = await posting
    assert (status, error["error"].get("code", "stopping")) == (503, "stopping")
    assert (headers.get("x-should-retry"), headers.get("retry-after")) == ("false", None)
    assert (await worker.wait_until_ended(run_id))["state"] == "cancelled"
    # A call that comes now has begun nothing, so any other frontend may answer it.
    status, headers, error = await _post(frontend, path, body)
    assert (status, headers.get("x-should-retry"), headers.get("retry-after")) == (503, None, "2")
    assert len((await frontend.call("GET", "/api/runs"))[1]["runs"]) == 1


@pytest.mark.behaviour("AGENT-9")
async def test_answer_that_lost_a_part_is_not_tried_again(frontend: RunningFrontend, worker: HandWorker) -> None:
    await create(frontend)
    posting = asyncio.create_task(_post(frontend, "/v1/chat/completions", {"model": "helper", "messages": ask()}))
    run_id, _ = await take_first(worker)
    await worker.deliver(run_id, ("step", {}), ("content", {"text": "So "}), ("content", {"dropped": True}))
    await worker.end(run_id, "It is noon.")
    status, headers, error = await posting
    assert (status, error["error"]["code"]) == (502, "answer_incomplete")
    assert headers.get("x-should-retry") == "false"


async def _post(
    frontend: RunningFrontend, path: str, body: dict[str, Any]
) -> tuple[int, Mapping[str, str], dict[str, Any]]:
    """Make a call and return its status, its headers and its JSON."""
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    async with frontend.http.post(f"{frontend.url}{path}", json=body, headers=headers) as answer:
        return answer.status, answer.headers, await answer.json()


@pytest.mark.behaviour("AGENT-33")
async def test_run_of_an_open_call_is_cancelled_when_its_frontend_ends(
    frontend: RunningFrontend, worker: HandWorker, database_url: str
) -> None:
    async with running_frontend(database_url) as other:
        await create(frontend)
        posting = asyncio.create_task(_post(other, "/v1/chat/completions", {"model": "helper", "messages": ask()}))
        run_id, _ = await take_first(worker)
    assert (await worker.wait_until_ended(run_id))["state"] == "cancelled"
    await asyncio.wait({posting})
    assert posting.exception() is not None


async def test_stream_goes_on_after_postgresql_was_away(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without news a stream is quiet, so that a sign of life means that the trace could not be read.
    monkeypatch.setattr(trace, "LOOK_INTERVAL_S", 100.0)
    place = urlsplit(database_url)
    assert place.hostname is not None
    assert place.port is not None
    async with (
        run_cuttable_proxy(place.hostname, place.port) as wire,
        running_frontend(database_url) as well,
        running_frontend(place._replace(netloc=f"{place.username}@{wire.address}").geturl()) as frontend,
    ):
        worker = await join_worker(well)
        await create(well)
        body = {"model": "helper", "messages": ask(), "stream": True}
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        posting = asyncio.create_task(
            frontend.http.post(f"{frontend.url}/v1/chat/completions", json=body, headers=headers)
        )
        run_id, _ = await take_first(worker)
        await wire.cut()
        frontend.core.runs.readers.wake(run_id)
        async with await posting as answer:
            assert answer.status == 200
            assert await answer.content.readuntil(b"\n\n") == b": queued\n\n"
            await wire.restore()
            await worker.deliver(run_id, ("content", {"text": "It is "}))
            await worker.end(run_id, "It is noon.")
            frontend.core.runs.readers.wake(run_id)
            rest = (await answer.content.read()).decode()
    assert "[DONE]" in rest
    pieces = [json.loads(line[6:]) for line in rest.splitlines() if line.startswith("data: {")]
    text = "".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces)
    assert text == "It is noon."


@pytest.mark.behaviour("AGENT-33")
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
@pytest.mark.parametrize("is_stream", [False, True])
async def test_client_that_disconnects_cancels_its_run(
    frontend: RunningFrontend, worker: HandWorker, path: str, is_stream: bool
) -> None:
    await create(frontend)
    body = {"model": "helper", "messages": ask(), "max_tokens": 9, "stream": is_stream}
    if path == "/v1/responses":
        body = {"model": "helper", "input": "hello", "stream": is_stream}
    asking = asyncio.create_task(frontend.call("POST", path, body))
    run_id, _ = await take_first(worker)
    asking.cancel()
    ended = await worker.wait_until_ended(run_id)
    assert ended["state"] == "cancelled"


@pytest.mark.behaviour("AGENT-34")
async def test_call_without_an_agent_worker_is_refused_with_the_reason_and_starts_nothing(
    client: AsyncOpenAI, frontend: RunningFrontend
) -> None:
    await create(frontend)
    with pytest.raises(openai.InternalServerError) as caught:
        await client.with_options(max_retries=0).chat.completions.create(model="helper", messages=ask(), stream=True)
    assert (caught.value.status_code, caught.value.code) == (503, "no_agent_worker")
    _, listed = await frontend.call("GET", "/api/runs")
    assert listed["runs"] == []


@pytest.mark.behaviour("AGENT-34")
async def test_call_that_waits_for_a_place_is_kept_alive_by_comments_and_ends_after_the_time_of_its_run(
    frontend: RunningFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_calls, "TIMEOUT_GRACE_S", 0.0)
    worker = await join_worker(frontend, max_runs=1)
    await create(frontend, budgets={"wall": "3s"})
    async with frontend.http.post(
        f"{frontend.url}/v1/chat/completions",
        json={"model": "helper", "messages": ask(), "stream": True},
        headers={"Authorization": f"Bearer {ADMIN_KEY}"},
    ) as response:
        assert response.status == 200
        lines = (await response.read()).decode().split("\n\n")
    assert lines[0] == ": queued"
    error = json.loads(lines[-2].removeprefix("data: "))["error"]
    assert error["code"] == "run_timeout"
    [run_id] = [response.headers["x-corral-run"]]
    assert (await worker.wait_until_ended(run_id))["state"] == "cancelled"


@pytest.mark.behaviour("AGENT-32")
async def test_name_of_a_model_wins_and_the_prefix_always_means_the_agent(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    await put_model(frontend.database, "helper", backend="fake", serves=["embeddings"], aliases=("agent/helper",))
    await eventually(lambda: _is_served(frontend, "helper"))
    status, refused = await frontend.call("POST", "/v1/chat/completions", {"model": "helper", "messages": ask()})
    assert (status, refused["error"]["code"]) == (400, "model_serves_other")
    asking = asyncio.create_task(
        frontend.call("POST", "/v1/chat/completions", {"model": "agent/helper", "messages": ask()})
    )
    run_id, _ = await take_first(worker)
    await worker.end(run_id, "The agent.")
    status, answer = await asking
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "The agent.")


async def _is_served(frontend: RunningFrontend, name: str) -> bool:
    return frontend.core.gateway.router.snapshot.find(name) is not None


@pytest.mark.behaviour("AGENT-32")
async def test_agents_of_others_do_not_exist_as_models_and_shared_ones_do(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    ann, ben = [(await make_key(frontend, name))["key"] for name in ("ann", "ben")]
    await create(frontend, "secret", key=ann)
    await create(frontend, "for-all", shared=True)
    for name, code in (("secret", "model_not_found"), ("agent/secret", "agent_not_found")):
        for path, body in (
            ("/v1/chat/completions", {"messages": ask()}),
            ("/v1/responses", {"input": "hello"}),
        ):
            status, refused = await frontend.call("POST", path, body | {"model": name}, key=ben)
            assert (status, refused["error"]["code"]) == (404, code)
    asking = asyncio.create_task(
        frontend.call("POST", "/v1/chat/completions", {"model": "for-all", "messages": ask()}, key=ben)
    )
    run_id, _ = await take_first(worker)
    await worker.end(run_id, "yes")
    assert (await asking)[0] == 200


async def test_paused_agent_refuses_calls(frontend: RunningFrontend, worker: HandWorker) -> None:
    await create(frontend)
    await frontend.call("PUT", "/api/agents/helper/pause")
    status, refused = await frontend.call("POST", "/v1/chat/completions", {"model": "helper", "messages": ask()})
    assert (status, refused["error"]["code"]) == (409, "agent_paused")


async def test_run_cannot_name_an_agent_as_its_model(frontend: RunningFrontend, worker: HandWorker) -> None:
    await create(frontend)
    asking = asyncio.create_task(frontend.call("POST", "/v1/chat/completions", {"model": "helper", "messages": ask()}))
    run_id, spec = await take_first(worker)
    for name in ("helper", "agent/helper"):
        status, refused = await frontend.call(
            "POST", "/v1/chat/completions", {"model": name, "messages": ask()}, key=spec["ticket"]
        )
        assert (status, refused["error"]["code"]) == (404, "model_not_found")
    await worker.end(run_id)
    assert (await asking)[0] == 200


async def test_list_of_models_shows_agents_of_the_caller_behind_models(
    client: AsyncOpenAI, claude: AsyncAnthropic, frontend: RunningFrontend
) -> None:
    ann = (await make_key(frontend, "ann"))["key"]
    await create(frontend)
    await create(frontend, "other", key=ann)
    await put_model(frontend.database, "tiny", backend="fake")
    await eventually(lambda: _is_served(frontend, "tiny"))
    listed = {model.id: model.owned_by async for model in client.models.list()}
    assert listed == {"tiny": "corral", "agent/helper": "corral-agent"}
    assert (await client.models.retrieve("agent/helper")).owned_by == "corral-agent"
    assert [model.id async for model in claude.models.list()] == ["tiny", "agent/helper"]
    assert (await frontend.call("GET", "/v1/models/agent/other"))[0] == 404


async def test_large_conversation_is_refused_before_a_run_is_started(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    for path, content in (
        ("chat/completions", {"messages": ask("x" * 5_000_000)}),
        ("responses", {"input": "x" * 5_000_000}),
    ):
        data = io.BytesIO(json.dumps({"model": "helper"} | content).encode())
        headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
        async with frontend.http.post(f"{frontend.url}/v1/{path}", data=data, headers=headers) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (413, "body_too_large")
    _, listed = await frontend.call("GET", "/api/runs")
    assert listed["runs"] == []


async def test_request_behind_the_answer_of_a_run_is_answered_on_the_same_connection(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(frontend.url.rsplit(":", 1)[1]))

    def write(body: Any) -> None:
        data = json.dumps(body).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN_KEY}\r\n"
        writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)

    write({"model": "helper", "messages": ask("first"), "stream": True})
    write({"model": "nobody", "messages": ask("second")})
    run_id, _ = await take_first(worker)
    await worker.end(run_id, "one")
    first = await reader.readuntil(b"0\r\n\r\n")
    assert b"200 OK" in first.split(b"\r\n")[0]
    assert b"[DONE]" in first
    assert b" 404 " in (await reader.readline())
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("is_stream", [False, True])
async def test_request_whose_body_comes_in_chunks_is_answered_by_a_run_too(
    frontend: RunningFrontend, worker: HandWorker, is_stream: bool
) -> None:
    await create(frontend)

    async def send() -> AsyncIterator[bytes]:
        yield json.dumps({"model": "helper", "messages": ask(), "stream": is_stream}).encode()

    async def call() -> tuple[int, str, str]:
        headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
        async with frontend.http.post(f"{frontend.url}/v1/chat/completions", data=send(), headers=headers) as response:
            return response.status, response.headers["x-corral-run"], await response.text()

    asking = asyncio.create_task(call())
    run_id, _ = await take_first(worker)
    await worker.end(run_id, "Noon.")
    status, named, text = await asking
    assert (status, named, "Noon." in text, "[DONE]" in text) == (200, run_id, True, is_stream)


async def test_unknown_name_is_refused_as_such_whatever_else_the_request_says(frontend: RunningFrontend) -> None:
    for body in ({"messages": "x"}, {"messages": ask(), "n": 3}, {"messages": ask(), "metadata": {"mcp_servers": "x"}}):
        status, refused = await frontend.call("POST", "/v1/chat/completions", {"model": "nobody"} | body)
        assert (status, refused["error"]["code"]) == (404, "model_not_found")


async def test_slow_reader_of_a_run_does_not_make_the_frontend_keep_its_answer(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(frontend.url.rsplit(":", 1)[1]), limit=1024)
    data = json.dumps({"model": "helper", "messages": ask(), "stream": True}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN_KEY}\r\n"
    writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
    run_id, _ = await take_first(worker)
    piece = "x" * 60_000
    for _ in range(10):
        await worker.deliver(run_id, *(("content", {"text": piece}) for _ in range(10)))
    [registry] = [sweep.__self__ for sweep in frontend.core.gateway.sweepers if hasattr(sweep, "__self__")]
    assert isinstance(registry, ConnectionRegistry)
    connection = next(one for one in registry.connections if one._lookup_task is not None)

    async def is_waiting() -> bool:
        return connection._writable is not None

    await eventually(is_waiting)
    assert connection.transport.get_write_buffer_size() < 3_000_000
    await worker.end(run_id, "")
    received = b""
    while b"[DONE]" not in received[-200:]:
        received += await reader.read(1 << 20)
    assert received.count(b"x") >= 100 * len(piece)
    writer.close()
    await writer.wait_closed()


@pytest.mark.behaviour("API-40")
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"])
async def test_text_that_cannot_be_stored_is_400_in_every_dialect(
    frontend: RunningFrontend, worker: HandWorker, path: str
) -> None:
    await create(frontend)
    body = {"model": "agent/helper"} | ({"input": "HALF"} if path == "/v1/responses" else {"messages": ask("HALF")})
    sent = json.dumps(body | ({"max_tokens": 5} if path == "/v1/messages" else {})).replace("HALF", r"\ud83d")
    status, refused = await frontend.call("POST", path, sent, content_type="application/json")
    assert (status, "cannot be stored" in str(refused)) == (400, True), refused
    assert (await frontend.call("GET", "/api/runs"))[1]["runs"] == []
