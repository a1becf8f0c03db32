"""The pretend engine: what it promises is what other tests stand on."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from corral.engines import read_launcher
from tests.engines.engine_processes import Call, Engine, check, running
from tests.support.polling import eventually

LONG = " ".join(f"word{place}" for place in range(100))


def text_of(call: Call) -> str:
    assert call.status == 200, call.content
    return str(call.json()["choices"][0]["message"]["content"])


def events_of(call: Call) -> list[Any]:
    events = call.content.decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


async def order(engine: Engine, **changes: object) -> None:
    assert (await engine.post("/_control", changes)).status == 200


async def test_fake_engine_answers_equal_calls_equally_and_differs_by_model(tmp_path: Path):
    with running("fake", tmp_path / "a", version="1.0.0") as one, running("fake", tmp_path / "b") as two:
        await one.ready()
        await two.ready()
        first, second = await one.chat("Hello"), await two.chat("Hello")
        assert text_of(first) == text_of(second) == text_of(await one.chat("Hello"))
        assert text_of(await one.chat("Good bye")) != text_of(first)
        # An upgrade can be seen.
        assert first.json()["system_fingerprint"] == "fake-1.0.0"
        assert second.json()["system_fingerprint"] == "fake-2.0.0"
    with running("fake", tmp_path / "c", called="another-model") as three:
        await three.ready()
        assert text_of(await three.chat("Hello")) != text_of(first)


async def test_stream_has_the_text_of_the_whole_response_and_its_usage(tmp_path: Path):
    with running("fake", tmp_path) as engine:
        await engine.ready()
        whole = (await engine.chat("Hello", max_tokens=5)).json()
        streamed = await engine.chat("Hello", max_tokens=5, stream=True, stream_options={"include_usage": True})
        completed = (await engine.post("/v1/completions", {"prompt": "Hello", "max_tokens": 3})).json()
    events = events_of(streamed)
    words = [choice["delta"].get("content", "") for event in events for choice in event["choices"]]
    assert "".join(words) == whole["choices"][0]["message"]["content"]
    assert len([word for word in words if word]) == 5
    assert [choice["finish_reason"] for choice in events[-2]["choices"]] == ["length"]
    assert events[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"] == 5
    assert len(completed["choices"][0]["text"].split()) == 3


async def test_embeddings_of_similar_texts_are_similar(tmp_path: Path):
    with running("fake", tmp_path) as engine:
        await engine.ready()
        texts = ["the old horse ran home", "the old horse ran away", "seven ships sailed north"]
        answer = (await engine.post("/v1/embeddings", {"input": texts})).json()
    one, two, three = [item["embedding"] for item in answer["data"]]

    def likeness(left: list[float], right: list[float]) -> float:
        return sum(a * b for a, b in zip(left, right, strict=True))

    assert likeness(one, one) == pytest.approx(1.0)
    assert likeness(one, two) > likeness(one, three)


async def test_known_beginning_is_not_read_again(tmp_path: Path):
    with running("fake", tmp_path, cache_block=10) as engine:
        await engine.ready()
        first = (await engine.chat(LONG)).json()
        again = (await engine.chat(LONG)).json()
        longer = (await engine.chat(LONG + " and more of it")).json()
        other = (await engine.chat("Something else. " + LONG)).json()
        numbers = await engine.numbers()
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    # "user", ":", the words, "assistant", ":": whole blocks of ten, and never all of it.
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == again["timings"]["cache_n"] == 100
    assert again["timings"]["prompt_n"] == again["usage"]["prompt_tokens"] - 100
    assert longer["timings"]["cache_n"] == 100
    assert other["timings"]["cache_n"] == 0
    assert numbers["cached_tokens"] == 200
    assert numbers["prompt_tokens"] == sum(each["usage"]["prompt_tokens"] for each in (first, again, longer, other))


async def test_conversation_goes_on_from_the_cache(tmp_path: Path):
    with running("fake", tmp_path, cache_block=1) as engine:
        await engine.ready()
        messages = [{"role": "user", "content": "Hello there"}]
        first = await engine.post("/v1/chat/completions", {"messages": messages})
        messages += [{"role": "assistant", "content": text_of(first)}, {"role": "user", "content": "Go on"}]
        second = (await engine.post("/v1/chat/completions", {"messages": messages})).json()
    assert second["timings"]["cache_n"] == first.json()["usage"]["total_tokens"]


async def test_prompt_cache_evicts_the_least_recently_used_entry(tmp_path: Path):
    with running("fake", tmp_path, cache_block=10, cache_blocks=25, control=True) as engine:
        await engine.ready()

        async def cached(start: int) -> int:
            prompt = " ".join(f"word{start + place}" for place in range(100))
            body = {"prompt": prompt, "max_tokens": 1}
            return int((await engine.post("/v1/completions", body)).json()["timings"]["cache_n"])

        assert [await cached(0), await cached(1000), await cached(0)] == [0, 0, 99]
        # Room for two and a half: the third drives out the end of the one that was not used since.
        assert [await cached(2000), await cached(0)] == [0, 99]
        assert await cached(1000) == 50
        assert (await engine.numbers())["cache_blocks_used"] == 25
        await order(engine, clear_cache=True)
        assert await cached(0) == 0


async def test_time_passes_as_it_was_ordered(tmp_path: Path):
    with running("fake", tmp_path, prompt_s=2, tokens_per_s=50) as engine:
        await engine.ready()
        first = (await engine.chat(LONG, max_tokens=8, ignore_eos=True)).json()["timings"]
        again = (await engine.chat(LONG, max_tokens=8, ignore_eos=True)).json()["timings"]
    assert first["prompt_ms"] >= 0.9 * first["prompt_n"] * 2
    assert again["prompt_n"] < first["prompt_n"]
    assert first["predicted_ms"] >= 0.9 * 7 * 20


async def test_calls_wait_for_a_slot_and_a_client_that_leaves_frees_it(tmp_path: Path):
    with running("fake", tmp_path, slots=1, hang=1, control=True) as engine:
        await engine.ready()

        async def counts(running_now: int, waiting: int) -> bool:
            numbers = await engine.numbers()
            return (numbers["running"], numbers["waiting"]) == (running_now, waiting)

        served = asyncio.create_task(engine.chat("Hello"))
        await eventually(lambda: counts(1, 0))
        calls = [asyncio.create_task(engine.chat("Hello")) for _ in range(3)]
        await eventually(lambda: counts(1, 3))
        calls.pop().cancel()
        await eventually(lambda: counts(1, 2))
        served.cancel()
        await eventually(lambda: counts(1, 1))
        await order(engine, slots=2)
        await eventually(lambda: counts(2, 0))
        await order(engine, hang=0)
        answers = await asyncio.gather(*calls)
        assert text_of(answers[0]) == text_of(answers[1])
        await eventually(lambda: counts(0, 0))


async def test_fake_engine_dies_in_the_middle_of_a_response(tmp_path: Path):
    with running("fake", tmp_path, crash_after=2) as engine:
        await engine.ready()
        assert text_of(await engine.chat("Hello"))
        with pytest.raises(aiohttp.ClientError):
            await engine.chat("Hello", stream=True)
        assert await engine.ended() == 70


async def test_fake_engine_stops_after_some_tokens_and_continues_when_ordered(tmp_path: Path):
    with running("fake", tmp_path, stall_after=3, control=True) as engine:
        await engine.ready()
        asking = asyncio.create_task(engine.chat("Hello"))

        async def has_stalled() -> bool:
            return bool((await engine.get("/_control")).json()["counts"]["predicted_tokens"] == 3)

        await eventually(has_stalled)
        assert len(text_of(await engine.chat("Hello", max_tokens=3)).split()) == 3
        assert not asking.done()
        await order(engine, stall_after=0)
        assert len(text_of(await asking).split()) > 3


async def test_every_third_call_fails_and_a_wrong_order_changes_nothing(tmp_path: Path):
    with running("fake", tmp_path, fail_every=3, control=True) as engine:
        await engine.ready()
        assert [(await engine.chat("Hello")).status for _ in range(6)] == [200, 200, 500, 200, 200, 500]
        for wrong in ({"fail_ever": 1}, {"fail_every": "often"}, {"fail_every": 0, "slots": -1}):
            assert (await engine.post("/_control", wrong)).status == 400
        assert (await engine.get("/_control")).json()["fail_every"] == 3
        await order(engine, fail_every=0)
        assert [(await engine.chat("Hello")).status for _ in range(3)] == [200, 200, 200]
        with pytest.raises(aiohttp.ClientError):
            await engine.post("/_control", {"crash": True})
        assert await engine.ended() == 70


async def test_fake_engine_refuses_to_start(tmp_path: Path):
    with running("fake", tmp_path, refuse_start=True) as engine:
        assert await engine.ended() == 1
    assert "configured not to start" in engine.read_log()


async def test_fake_engine_health_is_slow_when_ordered(tmp_path: Path):
    with running("fake", tmp_path, control=True) as engine:
        await engine.ready()
        await order(engine, health_s=3600)
        asking = asyncio.create_task(engine.get("/health"))
        # Everything else goes on.
        assert text_of(await engine.chat("Hello"))
        assert not asking.done()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_fake_engine_holds_memory(tmp_path: Path):
    with running("fake", tmp_path, memory_mib=64, control=True) as engine:
        await engine.ready()

        seen = psutil.Process(engine.process.pid)
        before = seen.memory_info().rss
        await order(engine, memory_mib=0)
        assert before - seen.memory_info().rss > 50 << 20


async def test_fake_engine_loads_for_a_while_and_stops_cleanly(tmp_path: Path):
    with running("fake", tmp_path, load_s=0.3) as engine:
        await engine.ready()
        assert engine.end() == 0
    assert 503 in engine.healths


@pytest.mark.behaviour("ENG-5")
async def test_fake_engine_refuses_calls_and_control_without_the_key(tmp_path: Path):
    with running("fake", tmp_path, control=True) as engine:
        await engine.ready()
        for path in ("/v1/chat/completions", "/_control"):
            assert (await engine.post(path, {}, key="")).status == 401
            assert (await engine.post(path, {}, key="wrong")).status == 401


async def test_fake_engine_refuses_control_unless_it_is_enabled(tmp_path: Path):
    with running("fake", tmp_path) as engine:
        await engine.ready()
        assert (await engine.post("/_control", {"crash": True})).status == 404
        assert await engine.health() == 200


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/v1/chat/completions", {"messages": "Hello"}, "invalid_value"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 0.5}, "invalid_value"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": LONG}]}, "context_length_exceeded"),
        ("/v1/completions", {"prompt": [1, 2]}, "invalid_value"),
        ("/v1/embeddings", {"input": [1, 2]}, "invalid_value"),
        ("/v1/embeddings", b"no json", "invalid_value"),
    ],
)
async def test_fake_engine_refuses_an_invalid_call_with_its_code(path: str, body: object, code: str, tmp_path: Path):
    with running("fake", tmp_path, context_size=64) as engine:
        await engine.ready()
        answer = await engine.post(path, body)
        assert answer.status == 400
        assert answer.json()["error"]["code"] == code


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0", "2.0.0"])
def test_check_tells_the_version(version: str, tmp_path: Path):
    assert check("fake", tmp_path, version) == version


async def test_engine_whose_port_is_taken_does_not_say_that_it_is_ready(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = [f"--port={taken.getsockname()[1]}", f"--model={tmp_path / 'm'}", "--name=m"]
        engine = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-c", str(read_launcher("fake")), *words),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, printed = await engine.communicate()
    assert engine.returncode != 0
    assert b"ready:" not in printed


TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


async def test_fake_engine_calls_a_tool_when_a_line_of_the_prompt_orders_it(tmp_path: Path) -> None:
    order_line = 'Please.\ncall look {"at": "the sky"}'
    with running("fake", tmp_path) as engine:
        await engine.ready()
        whole = (await engine.chat(order_line, tools=TOOLS)).json()["choices"][0]
        events = events_of(await engine.chat(order_line, tools=TOOLS, stream=True))
        without = text_of(await engine.chat(order_line))
    (call,) = whole["message"]["tool_calls"]
    assert (call["function"], whole["finish_reason"]) == (
        {"name": "look", "arguments": '{"at": "the sky"}'},
        "tool_calls",
    )
    pieces = [one for event in events for one in event["choices"][0]["delta"].get("tool_calls", [])]
    assert "".join(piece["function"]["arguments"] for piece in pieces) == call["function"]["arguments"]
    assert (pieces[0]["id"], pieces[0]["function"]["name"]) == (call["id"], "look")
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert without


async def test_fake_engine_repeats_the_output_of_a_tool(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Look."}, {"role": "tool", "tool_call_id": "1", "content": "It is\nblue. "}]
    with running("fake", tmp_path) as engine:
        await engine.ready()
        assert text_of(await engine.post("/v1/chat/completions", {"messages": messages})) == "It is\nblue. "


async def test_fake_engine_tells_usage_of_choices_as_llama_cpp_does(tmp_path: Path) -> None:
    with running("fake", tmp_path) as engine:
        await engine.ready()
        whole = (await engine.chat("Hello", n=2, max_tokens=5)).json()
        streamed = await engine.chat("Hello", n=2, max_tokens=5, stream=True, stream_options={"include_usage": True})
        too_many = await engine.chat("Hello", n=5)
    assert [choice["index"] for choice in whole["choices"]] == [0, 1]
    assert len({choice["message"]["content"] for choice in whole["choices"]}) == 2
    assert whole["usage"]["completion_tokens"] == 5
    counts = [event["usage"]["completion_tokens"] for event in events_of(streamed) if "usage" in event]
    assert counts == [5, 5]
    assert too_many.status == 400
