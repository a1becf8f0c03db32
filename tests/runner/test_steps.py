"""Calls of the model: reasoning, guided steps, schemas, compaction, frontends that refuse or are away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.runner.chat_server import ModelReply, ScriptedModel, call, refuse, run_scripted_model, say
from tests.runner.scene import Scene, make_server
from tests.support.engines import AfterResponse, EngineBehaviour, ResponseScript, run_misbehaving_engine
from tests.support.ports import find_free_port

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


async def test_reasoning_of_the_engine_is_no_part_of_the_answer(scene: Scene, model: ScriptedModel) -> None:
    model.script(ModelReply(reasoning=["let me ", "think"], content=["42"]))
    outcome = await scene.run()
    assert (scene.text("reasoning"), scene.text("content"), outcome.content) == ("let me think", "42", "42")
    assert outcome.messages == [{"role": "assistant", "content": "42"}]


@pytest.mark.parametrize("tag", ["think", "thinking"])
async def test_think_tags_in_any_pieces_become_reasoning(scene: Scene, model: ScriptedModel, tag: str) -> None:
    text = f"<{tag}>a < b</{tag}>\n\nAnswer <b>bold</b>"
    model.script(say(*text))
    outcome = await scene.run()
    assert (scene.text("reasoning"), outcome.content) == ("a < b", "Answer <b>bold</b>")
    assert scene.text("content") == outcome.content


async def test_think_tags_stay_if_the_run_says_so(scene: Scene, model: ScriptedModel) -> None:
    model.script(say("<think>a</think>b"))
    outcome = await scene.run(options={"strips_thinking": False})
    assert (outcome.content, scene.events("reasoning")) == ("<think>a</think>b", [])


async def test_outcome_says_that_the_last_answer_ended_at_the_limit_of_its_tokens(
    scene: Scene, model: ScriptedModel
) -> None:
    model.script(say("Once upon a", finish="length"))
    assert (await scene.run()).result == {"is_cut": True}
    model.script(say("The end."))
    assert (await scene.run(run_id="r2")).result == {}


async def test_outcome_of_a_refused_model_has_the_status_of_the_refusal(scene: Scene, model: ScriptedModel) -> None:
    model.script(refuse(400, "context_too_long", "Too long."))
    outcome = await scene.run()
    assert (outcome.state, outcome.error_code, outcome.result) == ("failed", "context_too_long", {"status": 400})


def _step(value: Any) -> ModelReply:
    text = json.dumps(value)
    return say(*(text[start : start + 5] for start in range(0, len(text), 5)))


@pytest.mark.behaviour("RUNNER-5")
async def test_guided_steps_call_tools_and_answer(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    model.script(_step({"tool": "tools__add", "arguments": {"a": 1, "b": 2}}), _step({"answer": 'It is "3".'}))
    outcome = await scene.run(
        instructions="be brief", mcp_servers=[make_server(tmp_path, tools=["add"])], options={"tool_mode": "guided"}
    )
    assert outcome.content == 'It is "3".'
    assert scene.text("content") == 'It is "3".'
    assert len(scene.events("content")) > 1
    assert [data["mode"] for data in scene.events("step")] == ["guided", "guided"]
    variants = model.requests[0]["response_format"]["json_schema"]["schema"]["anyOf"]
    assert [list(variant["properties"]) for variant in variants] == [["tool", "arguments"], ["answer"]]
    assert variants[0]["properties"]["tool"] == {"const": "tools__add"}
    assert variants[0]["properties"]["arguments"]["required"] == ["a", "b"]
    assert "tools" not in model.requests[0]
    assert model.messages(0)[0]["content"].startswith("be brief")
    assert "tools__add" in model.messages(0)[0]["content"]
    # The model is shown text, the thread gets a call and its result.
    assert [message["role"] for message in model.messages(1)] == ["system", "user", "assistant", "user"]
    assert model.messages(1)[-1]["content"] == "Result of tools__add:\n3"
    assert [message["role"] for message in outcome.messages] == ["assistant", "tool", "assistant"]
    assert outcome.messages[0]["tool_calls"][0]["function"]["name"] == "tools__add"


@pytest.mark.behaviour("RUNNER-5")
async def test_model_that_refuses_tools_is_guided_and_remembered(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    server = make_server(tmp_path, tools=["add"])
    model.script(refuse(400, "tools_not_supported"), _step({"answer": "yes"}), _step({"answer": "again"}))
    assert (await scene.run(mcp_servers=[server], session_key="k")).content == "yes"
    assert (await scene.run(run_id="r2", mcp_servers=[server], session_key="k")).content == "again"
    assert ["tools" in request for request in model.requests] == [True, False, False]


async def test_refused_tools_fail_a_run_that_must_be_native(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    model.script(refuse(400, "tools_not_supported", "no tools here"))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)], options={"tool_mode": "native"})
    assert (outcome.state, outcome.error_code, outcome.error_text) == ("failed", "tools_not_supported", "no tools here")


@pytest.mark.parametrize(
    "written",
    [
        '{"name": "tools__add", "arguments": {"a": 1, "b": 2}}',
        '```json\n{"tool": "tools__add", "arguments": {"a": 1, "b": 2}}\n```',
        '<tool_call>\n{"name": "tools__add", "parameters": {"a": 1, "b": 2}}\n</tool_call>',
        '[TOOL_CALLS] [{"name": "tools__add", "arguments": "{\\"a\\": 1, \\"b\\": 2}"}]',
    ],
)
async def test_call_that_is_written_as_text_is_executed_and_not_shown(
    scene: Scene, model: ScriptedModel, tmp_path: Path, written: str
) -> None:
    model.script(say(*written), _step({"answer": "3"}))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path, tools=["add"])])
    assert scene.text("content") == "3"
    assert outcome.messages[1]["content"] == "3"
    assert [data["mode"] for data in scene.events("step")] == ["native", "guided"]


async def test_answer_that_only_looks_like_a_call_is_shown(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    text = '{"name": "Ada", "arguments": "for and against"}'
    model.script(say(*text))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path, tools=["add"])])
    assert outcome.content == scene.text("content") == text


@pytest.mark.behaviour("AGENT-40")
async def test_required_tool_call_leaves_a_guided_first_step_no_other_choice(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(_step({"tool": "tools__add", "arguments": {"a": 1, "b": 2}}), _step({"answer": "3"}))
    options = {"tool_mode": "guided", "tool_choice": "required"}
    outcome = await scene.run(mcp_servers=[make_server(tmp_path, tools=["add", "fail"])], options=options)
    assert (outcome.content, outcome.reason) == ("3", "answer")
    first, second = (request["response_format"]["json_schema"]["schema"]["anyOf"] for request in model.requests)
    assert [list(variant["properties"]) for variant in first] == [["tool", "arguments"]] * 2
    assert "answer" not in model.messages(0)[0]["content"].replace("Answer with", "")
    assert list(second[-1]["properties"]) == ["answer"]


@pytest.mark.behaviour("AGENT-40")
async def test_required_tool_call_is_passed_on_to_the_first_native_step_only(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(call("tools__add", a=1, b=2), say("It is 3."))
    await scene.run(mcp_servers=[make_server(tmp_path, tools=["add"])], options={"tool_choice": "required"})
    assert [request.get("tool_choice") for request in model.requests] == ["required", None]


async def test_guided_run_answers_by_schema_when_its_budget_is_spent(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(_step({"tool": "tools__add", "arguments": {"a": 1, "b": 2}}), _step({"answer": "It is 3."}))
    outcome = await scene.run(
        mcp_servers=[make_server(tmp_path, tools=["add"])], options={"tool_mode": "guided"}, budgets={"steps": 2}
    )
    assert (outcome.state, outcome.content, outcome.reason) == ("completed", "It is 3.", "steps")
    schema = model.requests[1]["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]) == ["answer"]
    # Calls are written as text for a model that has none of its own.
    assert [message["role"] for message in model.messages(1)] == ["system", "user", "assistant", "user"]
    assert [data["mode"] for data in scene.events("step")] == ["guided", "guided"]


async def test_guided_model_that_answers_plain_text_is_understood(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(say("just ", "text"))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path, tools=["add"])], options={"tool_mode": "guided"})
    assert outcome.content == scene.text("content") == "just text"


async def test_answer_has_to_match_its_schema(scene: Scene, model: ScriptedModel) -> None:
    model.script(say('{"n": "one"}'), say('{"n": ', "1}"))
    outcome = await scene.run(options={"response_schema": SCHEMA})
    assert (outcome.state, outcome.content) == ("completed", '{"n": 1}')
    assert model.requests[0]["response_format"]["json_schema"]["schema"] == SCHEMA
    assert "'one' is not of type 'integer'" in model.messages(1)[-1]["content"]
    # An answer that was not good enough is neither shown nor kept.
    assert scene.text("content") == '{"n": 1}'
    assert outcome.messages == [{"role": "assistant", "content": '{"n": 1}'}]


async def test_answer_that_never_matches_its_schema_fails_the_run(scene: Scene, model: ScriptedModel) -> None:
    model.rest = say("no")
    outcome = await scene.run(options={"response_schema": SCHEMA, "max_attempts": 1})
    assert (outcome.state, outcome.error_code, len(model.requests)) == ("failed", "answer_invalid", 2)


async def test_schema_is_enforced_once_tools_are_done(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    model.script(call("tools__add", a=1, b=2), say("It is 3."), say('{"n": 3}'))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)], options={"response_schema": SCHEMA})
    assert outcome.content == '{"n": 3}'
    assert ["response_format" in request for request in model.requests] == [False, False, True]


async def test_guided_answer_has_the_schema_of_the_answer(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    model.script(_step({"answer": {"n": 3}}))
    options = {"tool_mode": "guided", "response_schema": SCHEMA}
    outcome = await scene.run(mcp_servers=[make_server(tmp_path, tools=["add"])], options=options)
    assert json.loads(outcome.content) == {"n": 3}
    assert scene.text("content") == outcome.content
    schema = model.requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["anyOf"][-1]["properties"]["answer"] == SCHEMA


async def test_earlier_messages_are_replaced_by_a_summary(scene: Scene, model: ScriptedModel) -> None:
    pair = [{"role": "user", "content": "x" * 4000}, {"role": "assistant", "content": "y" * 4000}]
    model.rest = lambda body: say("They spoke of x." if body.get("max_tokens") else "answer")
    last = "z" * 1200
    outcome = await scene.run(last, instructions="be brief", history=pair, options={"compaction_tokens": 1000})
    assert outcome.content == "answer"
    summarised = "".join(message["content"] for request in model.requests[:-1] for message in request["messages"])
    assert (summarised.count("x") >= 4000, summarised.count("y") >= 4000, "zzz" in summarised) == (True, True, False)
    system, *rest = model.messages(-1)
    assert system["content"].startswith("be brief")
    assert "They spoke of x." in system["content"]
    assert rest[-1] == {"role": "user", "content": last}
    (compacted,) = scene.events("compacted")
    assert compacted["messages"] == 2
    assert compacted["tokens_before"] > 1000 > compacted["tokens_after"]
    # The summary is no part of the answer, but its tokens count.
    assert scene.text("content") == "answer"
    assert outcome.usage["prompt_tokens"] == 10 * len(model.requests)


async def test_call_and_result_stay_together_when_a_run_outgrows_its_limit(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    def answer(body: dict[str, Any]) -> ModelReply:
        if "tools" not in body:
            return say("summary")
        calls = next(numbers)
        return call("tools__echo", text="e" * 2000) if calls < 3 else say("answer")

    numbers = iter(range(100))
    model.rest = answer
    outcome = await scene.run("question", mcp_servers=[make_server(tmp_path)], options={"compaction_tokens": 1200})
    assert outcome.content == "answer"
    assert scene.events("compacted")
    for request in model.requests:
        roles = [message["role"] for message in request["messages"]]
        if "tools" in request:
            assert {"role": "user", "content": "question"} in request["messages"]
            open_calls = {c["id"] for m in request["messages"] for c in m.get("tool_calls", ())}
            assert open_calls == {m["tool_call_id"] for m in request["messages"] if m["role"] == "tool"}, roles
    # The thread gets everything, whatever the model was shown.
    assert sum(message["role"] == "tool" for message in outcome.messages) == 3


async def test_counted_tokens_lower_the_limit_of_compaction(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    # 500 estimated tokens of history fit; the engine counts three times as many.
    history = [{"role": "user", "content": "x" * 1600}, {"role": "assistant", "content": "ok"}]
    first = ModelReply(calls=[("tools__add", {"a": 1, "b": 2})], usage=(9000, 5))
    model.script(first, say("summary"), say("answer"))
    outcome = await scene.run(
        history=history, mcp_servers=[make_server(tmp_path, tools=["add"])], options={"compaction_tokens": 1000}
    )
    assert outcome.content == "answer"
    assert len(scene.events("compacted")) == 1


async def test_refused_summary_does_not_stop_the_run(scene: Scene, model: ScriptedModel) -> None:
    history = [{"role": "user", "content": "x" * 8000}, {"role": "assistant", "content": "ok"}]
    model.rest = lambda body: refuse(400, "context_too_long") if "max_tokens" in body else say("answer")
    outcome = await scene.run(history=history, options={"compaction_tokens": 1000})
    assert outcome.content == "answer"


async def test_next_frontend_answers_if_the_first_is_away(scene: Scene, model: ScriptedModel) -> None:
    scene.model_urls = [f"http://127.0.0.1:{find_free_port()}/v1", model.url]
    assert (await scene.run()).content == "done"


@pytest.mark.parametrize("behaviour", [EngineBehaviour.CLOSES, EngineBehaviour.RESETS, EngineBehaviour.HALF_HEAD])
async def test_next_frontend_answers_if_the_first_hangs_up(
    scene: Scene, model: ScriptedModel, behaviour: EngineBehaviour
) -> None:
    async with run_misbehaving_engine(behaviour) as broken:
        scene.model_urls = [f"http://{broken.address}/v1", model.url]
        assert (await scene.run()).content == "done"


async def test_run_fails_if_no_frontend_can_be_reached(scene: Scene) -> None:
    scene.model_urls = [f"http://127.0.0.1:{find_free_port()}/v1"]
    outcome = await scene.run()
    assert (outcome.state, outcome.error_code) == ("failed", "frontend_unreachable")


@pytest.mark.parametrize("status", [429, 503])
async def test_refusal_with_a_time_is_waited_for(scene: Scene, model: ScriptedModel, status: int) -> None:
    model.script(refuse(status, "busy", retry_after="0"), refuse(status, "busy", retry_after="1"), say("now"))
    assert (await scene.run()).content == "now"


async def test_refusal_with_a_date_is_waited_for(scene: Scene, model: ScriptedModel) -> None:
    model.script(refuse(503, "busy", retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), say("now"))
    assert (await scene.run()).content == "now"


async def test_refusal_with_more_time_than_the_run_has_fails_it(scene: Scene, model: ScriptedModel) -> None:
    model.script(refuse(429, "rate_limit", "slow down", retry_after="3600"))
    outcome = await scene.run(budgets={"wall_s": 60})
    assert (outcome.state, outcome.error_code, outcome.error_text) == ("failed", "rate_limit", "slow down")


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_other_refusals_fail_the_run_with_code_and_sentence(
    scene: Scene, model: ScriptedModel, status: int
) -> None:
    model.script(refuse(status, "model_not_found", "There is no model chat."))
    outcome = await scene.run()
    assert (outcome.state, outcome.error_code) == ("failed", "model_not_found")
    assert outcome.error_text == "There is no model chat."
    assert len(model.requests) == 1


async def test_error_in_the_stream_fails_the_run_with_its_sentence(scene: Scene, model: ScriptedModel) -> None:
    model.script(ModelReply(content=["a"], error={"code": "engine_lost", "message": "The engine has gone."}))
    outcome = await scene.run()
    assert (outcome.state, outcome.error_code, outcome.error_text) == ("failed", "engine_lost", "The engine has gone.")


async def test_answer_that_breaks_off_fails_the_run(scene: Scene, model: ScriptedModel) -> None:
    model.script(ModelReply(content=["a"], breaks_off=True))
    outcome = await scene.run()
    assert (outcome.state, outcome.error_code) == ("failed", "model_stream_broken")
    assert outcome.messages == []


async def test_connection_that_is_cut_in_an_answer_fails_the_run(scene: Scene) -> None:
    async with run_misbehaving_engine(EngineBehaviour.HALF_CHUNK_RESET) as broken:
        scene.model_urls = [f"http://{broken.address}/v1"]
        outcome = await scene.run()
    assert (outcome.state, outcome.error_code) == ("failed", "model_stream_broken")


async def test_engine_that_does_not_stream_is_understood(scene: Scene) -> None:
    body = json.dumps({"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with run_misbehaving_engine(ResponseScript((head, body), AfterResponse.KEEP)) as engine:
        scene.model_urls = [f"http://{engine.address}/v1"]
        assert (await scene.run()).content == "whole"


async def test_redirect_is_not_followed_with_the_key(scene: Scene, model: ScriptedModel) -> None:
    async with run_scripted_model() as other:
        model.script(ModelReply(status=307, headers={"Location": f"{other.url}/chat/completions"}))
        outcome = await scene.run()
        assert other.requests == []
    assert (outcome.state, outcome.error_code) == ("failed", "http_307")


async def test_messages_before_a_failure_are_kept(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    model.script(call("tools__add", a=1, b=2), refuse(500, "broken"))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)])
    assert outcome.state == "failed"
    assert [message["role"] for message in outcome.messages] == ["assistant", "tool"]
