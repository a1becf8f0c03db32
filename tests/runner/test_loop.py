"""The loop of a turn: steps, tool calls, budgets and ends, with a scripted model and a real MCP server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from corral.runner import tool_executor
from tests.runner.chat_server import ModelReply, ScriptedModel, call, say
from tests.runner.scene import TICKET, Scene, make_server
from tests.support.polling import eventually

ADD = ("tools__add", {"a": 1, "b": 2})
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


async def test_run_without_tools_streams_answer_and_completes(scene: Scene, model: ScriptedModel) -> None:
    model.script(say("Hel", "lo ", "there"))
    outcome = await scene.run("hi", instructions="be brief")
    assert (outcome.state, outcome.reason, outcome.content) == ("completed", "answer", "Hello there")
    assert outcome.messages == [{"role": "assistant", "content": "Hello there"}]
    assert outcome.usage == {"prompt_tokens": 10, "completion_tokens": 5, "steps": 1, "tool_calls": 0}
    assert [data["text"] for data in scene.events("content")] == ["Hel", "lo ", "there"]
    assert scene.types() == ["step", "content", "usage"]
    assert model.messages(0) == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    assert model.keys == [f"Bearer {TICKET}"]


async def test_tool_call_goes_to_its_server_and_result_to_the_model(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(call(*ADD[:1], **ADD[1]), say("It is 3."))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)])
    assert outcome.content == "It is 3."
    assert scene.types() == ["step", "usage", "tool_call", "tool_result", "step", "content", "usage"]
    (made,) = scene.events("tool_call")
    assert (made["name"], made["arguments"], made["is_repeatable"]) == ("tools__add", {"a": 1, "b": 2}, True)
    (result,) = scene.events("tool_result")
    assert (result["call_id"], result["content"], result["is_error"]) == (made["call_id"], "3", False)
    assert [message["role"] for message in outcome.messages] == ["assistant", "tool", "assistant"]
    assert outcome.messages[1] == {"role": "tool", "tool_call_id": made["call_id"], "content": "3"}
    assert model.messages(1)[-2:] == outcome.messages[:2]
    tools = {tool["function"]["name"]: tool["function"] for tool in model.requests[0]["tools"]}
    assert tools["tools__add"]["parameters"]["required"] == ["a", "b"]
    assert outcome.usage["tool_calls"] == 1


async def test_history_comes_before_messages_and_pictures_pass_through(scene: Scene, model: ScriptedModel) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    question = {"role": "user", "content": [{"type": "text", "text": "what is this?"}, picture]}
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    await scene.run(history=history, messages=[question])
    assert model.messages(0) == [*history, question]


async def test_system_message_of_the_caller_is_joined_with_the_instructions(scene: Scene, model: ScriptedModel) -> None:
    messages = [{"role": "system", "content": "theirs"}, {"role": "user", "content": "hi"}]
    await scene.run(instructions="ours", messages=messages)
    assert model.messages(0) == [{"role": "system", "content": "ours\n\ntheirs"}, {"role": "user", "content": "hi"}]


async def test_settings_of_the_run_reach_the_model_but_not_its_own_fields(scene: Scene, model: ScriptedModel) -> None:
    settings = {"top_p": 0.5, "model": "other", "n": 3, "stream": False}
    await scene.run(options={"temperature": 0.25, "max_tokens": 99, "model_settings": settings})
    request = model.requests[0]
    assert (request["top_p"], request["temperature"], request["max_tokens"]) == (0.5, 0.25, 99)
    assert (request["model"], request["stream"], "n" in request) == ("chat", True, False)


async def test_calls_of_one_step_run_beside_each_other_and_report_when_done(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    both = ModelReply(calls=[("tools__wait", {"name": "slow"}), ADD])
    model.script(both, say("ok"))
    await scene.start(mcp_servers=[make_server(tmp_path)])
    await scene.wait_event("tool_result", name="tools__add")
    assert [data["name"] for data in scene.events("tool_result")] == ["tools__add"]
    (tmp_path / "go-slow").touch()
    outcome = await scene.finish()
    # To the model the results come in the order of the calls.
    assert [message["content"] for message in outcome.messages[1:3]] == ["waited for slow", "3"]


async def test_no_more_than_eight_calls_run_at_the_same_time(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    calls = [("tools__wait", {"name": f"n{number}"}) for number in range(10)]
    model.script(ModelReply(calls=calls))
    await scene.start(mcp_servers=[make_server(tmp_path)])

    async def list_begun() -> list[Path]:
        begun = sorted(tmp_path.glob("began-*"))
        return begun if len(begun) >= 8 else []

    first = await eventually(list_begun)
    assert len(first) == 8
    assert len(scene.events("tool_call")) == 8
    for number in range(10):
        (tmp_path / f"go-n{number}").touch()
    assert (await scene.finish()).usage["tool_calls"] == 10


async def test_servers_with_the_same_tool_are_both_callable(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    model.script(ModelReply(calls=[("one__add", {"a": 1, "b": 1}), ("two_x__add", {"a": 2, "b": 2})]), say("ok"))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path, "one"), make_server(tmp_path, "two x")])
    assert [message["content"] for message in outcome.messages[1:3]] == ["2", "4"]


async def test_names_that_become_equal_get_a_number(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    servers = [make_server(tmp_path, "a b", tools=["add"]), make_server(tmp_path, "a/b", tools=["add", "echo"])]
    await scene.run(mcp_servers=servers)
    names = [tool["function"]["name"] for tool in model.requests[0]["tools"]]
    assert names == ["a_b__add", "a_b__add_2", "a_b__echo"]


async def test_long_tool_result_is_cut_with_a_note(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    model.script(call("tools__echo", text="ä" * 40_000), say("ok"))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)])
    (result,) = scene.events("tool_result")
    assert len(result["content"].encode()) < 33 * 1024
    assert "80000 bytes" in result["content"]
    assert outcome.messages[1]["content"] == result["content"]


async def test_failed_tool_is_reported_to_the_model(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    model.script(call("tools__fail", text="out of paper"), say("ok"))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)])
    (result,) = scene.events("tool_result")
    assert result["is_error"] is True
    assert "out of paper" in result["content"]
    assert outcome.state == "completed"


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("tools__ad", {"a": 1, "b": 2}, "There is no tool tools__ad"),
        ("tools__add", {"a": 1}, "'b' is a required property"),
        ("tools__add", '{"a": 1, "b":', "no JSON object"),
        ("tools__add", "[1, 2]", "no JSON object"),
    ],
)
async def test_call_that_cannot_be_used_is_explained_to_the_model(
    scene: Scene, model: ScriptedModel, tmp_path: Path, name: str, arguments: Any, problem: str
) -> None:
    model.script(ModelReply(calls=[(name, arguments)]), call("tools__add", a=1, b=2), say("3"))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)])
    first = scene.events("tool_result")[0]
    assert (first["is_error"], problem in first["content"]) == (True, True), first
    assert (outcome.state, outcome.reason, outcome.content) == ("completed", "answer", "3")
    sent = model.messages(1)[-2]["tool_calls"][0]["function"]["arguments"]
    assert sent.startswith("{")


async def test_model_that_never_calls_correctly_has_to_answer(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.rest = lambda body: call("tools__nothing") if body.get("tools") else say("I give up.")
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)], options={"max_attempts": 2})
    assert (outcome.state, outcome.reason, outcome.content) == ("completed", "attempts", "I give up.")
    # Two further attempts after the first call, then the answer.
    assert len(model.requests) == 4


@pytest.mark.behaviour("RUNNER-2")
async def test_last_step_asks_for_an_answer_without_tools(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    numbers = iter(range(100))
    model.rest = lambda body: call("tools__add", a=next(numbers), b=0) if body.get("tools") else say("enough")
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)], budgets={"steps": 3})
    assert (outcome.state, outcome.reason, outcome.content) == ("completed", "steps", "enough")
    assert outcome.usage["steps"] == 3
    assert outcome.usage["tool_calls"] == 2
    assert [data["is_final"] for data in scene.events("step")] == [False, False, True]
    assert model.messages(2)[-1]["role"] == "user"


async def test_reason_is_answer_if_the_last_step_needed_no_tools(scene: Scene, model: ScriptedModel) -> None:
    outcome = await scene.run(budgets={"steps": 1})
    assert outcome.reason == "answer"


@pytest.mark.behaviour("RUNNER-2")
async def test_budget_of_tool_calls_ends_the_loop_with_an_answer(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    three = ModelReply(calls=[("tools__add", {"a": number, "b": 0}) for number in range(3)])
    model.rest = lambda body: three if body.get("tools") else say("enough")
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)], budgets={"tool_calls": 2})
    assert (outcome.reason, outcome.content, outcome.usage["tool_calls"]) == ("tool_calls", "enough", 2)
    results = [data["content"] for data in scene.events("tool_result")]
    assert sorted(results)[:2] == ["0", "1"]
    assert "no more tool calls" in sorted(results)[2]


@pytest.mark.behaviour("RUNNER-2")
async def test_budget_of_tokens_ends_the_loop_with_an_answer(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    asking = ModelReply(calls=[ADD], usage=(80, 20))
    model.rest = lambda body: asking if body.get("tools") else say("enough")
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)], budgets={"tokens": 150})
    assert (outcome.reason, outcome.content) == ("tokens", "enough")
    assert outcome.usage["steps"] == 3


async def test_tokens_are_estimated_if_the_engine_reports_none(scene: Scene, model: ScriptedModel) -> None:
    model.script(say("x" * 40, usage=None))
    outcome = await scene.run("y" * 400)
    assert scene.events("usage") == [{"prompt_tokens": 100, "completion_tokens": 10, "is_estimated": True}]
    assert outcome.usage["prompt_tokens"] == 100


@pytest.mark.behaviour("RUNNER-2")
async def test_repeated_call_is_recognised_as_a_loop(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    model.rest = lambda body: call("tools__add", b=2, a=1) if body.get("tools") else say("I was going in circles.")
    outcome = await scene.run(
        mcp_servers=[make_server(tmp_path)], budgets={"steps": None}, options={"loop_detection": 4}
    )
    assert (outcome.state, outcome.reason, outcome.content) == ("completed", "loop", "I was going in circles.")
    assert outcome.usage["tool_calls"] == 4


async def test_other_calls_in_between_are_no_loop(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    for number in range(4):
        model.script(call("tools__add", a=1, b=2), call("tools__add", a=number, b=5))
    outcome = await scene.run(
        mcp_servers=[make_server(tmp_path)], budgets={"steps": None}, options={"loop_detection": 2}
    )
    assert (outcome.reason, outcome.usage["tool_calls"]) == ("answer", 8)


@pytest.mark.behaviour("RUNNER-2")
async def test_wall_clock_fails_the_run_and_names_its_budget(scene: Scene, model: ScriptedModel) -> None:
    model.script(say("a", gate=asyncio.Event()))
    outcome = await scene.run(budgets={"wall_s": 0.3})
    assert (outcome.state, outcome.error_code, outcome.reason) == ("failed", "run_timeout", "wall_clock")
    assert "wall_s" in outcome.error_text


@pytest.mark.behaviour("RUNNER-2")
async def test_time_of_a_waiting_approval_does_not_count(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    model.script(call("tools__add", a=1, b=2), say("3"))
    server = make_server(tmp_path)
    await scene.mcp("ping", server, session_key="k")
    await scene.start(
        mcp_servers=[server], session_key="k", tool_rules={"*": "ask"}, budgets={"wall_s": 5}, run_id="r1"
    )
    request = await scene.wait_event("approval_requested")
    # Another run with a longer time runs into its limit while the first one waits.
    model.replies.insert(0, say("a", gate=asyncio.Event()))
    assert (await scene.run(run_id="r2", budgets={"wall_s": 6})).error_code == "run_timeout"
    await scene.send("decide", run_id="r1", call_id=request["data"]["call_id"], approved=True)
    assert (await scene.finish("r1")).content == "3"


async def test_call_of_a_callers_tool_ends_the_run_with_the_open_call(scene: Scene, model: ScriptedModel) -> None:
    model.script(ModelReply(content=["Let me look."], calls=[("weather", {"city": "Bonn"})]))
    outcome = await scene.run(client_tools=[WEATHER])
    assert (outcome.state, outcome.reason) == ("completed", "client_tool")
    (message,) = outcome.messages
    assert message["content"] == "Let me look."
    assert message["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Bonn"}'}
    assert scene.events("tool_call") == []


async def test_server_tools_of_the_same_step_are_executed_before_a_callers_tool_ends_the_run(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(ModelReply(calls=[("weather", {"city": "Bonn"}), ADD]))
    outcome = await scene.run(client_tools=[WEATHER], mcp_servers=[make_server(tmp_path)])
    assert outcome.reason == "client_tool"
    assert [message["role"] for message in outcome.messages] == ["assistant", "tool"]
    assert outcome.messages[1]["content"] == "3"


async def test_other_agent_is_called_through_the_worker(scene: Scene, model: ScriptedModel) -> None:
    agents = [{"name": "Data Expert", "description": "Knows data."}]
    scene.ask_answers = lambda _: {"result": {"run_id": "r9", "state": "completed", "content": "42"}}
    model.script(call("ask_Data_Expert", message="how many?"), say("42 it is"))
    outcome = await scene.run(agents=agents)
    made_call = await scene.wait(lambda message: message["type"] == "call")
    (made,) = scene.events("tool_call")
    assert made_call["method"] == "ask_agent"
    assert made_call["params"] == {"name": "Data Expert", "message": "how many?", "call_id": made["call_id"]}
    assert made["is_repeatable"] is True
    assert outcome.messages[1]["content"] == "42"


@pytest.mark.parametrize(
    "reply",
    [
        {"error": {"code": "depth", "message": "too deep"}},
        {"result": {"run_id": "r9", "state": "failed", "error_text": "too deep"}},
    ],
)
async def test_agent_that_fails_is_reported_to_the_model(
    scene: Scene, model: ScriptedModel, reply: dict[str, Any]
) -> None:
    scene.ask_answers = lambda _: reply
    model.script(call("ask_b", message="?"), say("no"))
    outcome = await scene.run(agents=[{"name": "b"}])
    (result,) = scene.events("tool_result")
    assert (result["is_error"], "too deep" in result["content"], outcome.content) == (True, True, "no")


async def test_same_call_has_the_same_id_when_the_run_is_repeated(scene: Scene, model: ScriptedModel) -> None:
    scene.ask_answers = lambda _: {"result": {"run_id": "r9", "state": "completed", "content": "42"}}
    for _ in range(2):
        model.script(call("ask_b", message="?"), call("ask_b", message="?"), say("done"))
        await scene.run(agents=[{"name": "b"}])
        await scene.send("cancel", run_id="r1")
        scene.messages = [message for message in scene.messages if message["type"] != "end"]
    ids = [data["call_id"] for data in scene.events("tool_call")]
    assert ids[:2] == ids[2:]
    assert len(set(ids)) == 2


async def test_run_that_goes_on_behind_earlier_calls_shows_them_and_gives_an_equal_call_another_id(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(call("tools__add", a=1, b=2), call("tools__add", a=1, b=2), say("done"))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)])
    question = {"role": "user", "content": "add"}
    earlier = outcome.messages[:2]
    await scene.send("cancel", run_id="r1")
    scene.messages.clear()
    model.script(call("tools__add", a=1, b=2), say("done"))
    await scene.run(messages=[question, *earlier], mcp_servers=[make_server(tmp_path)])
    assert model.messages(3)[-3:] == [question, *earlier]
    (made,) = scene.events("tool_call")
    assert made["call_id"] == outcome.messages[2]["tool_calls"][0]["id"]


@pytest.mark.behaviour("RUNNER-7")
async def test_denied_tool_is_refused_at_once(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    model.script(call("tools__add", a=1, b=2), say("sorry"))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)], tool_rules={"tools__a*": "deny", "*": "auto"})
    (result,) = scene.events("tool_result")
    assert (result["is_error"], "not allowed" in result["content"]) == (True, True)
    assert outcome.content == "sorry"


async def test_first_rule_that_matches_counts(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    model.script(call("tools__add", a=1, b=2), say("3"))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)], tool_rules={"tools__add": "auto", "*": "deny"})
    assert outcome.messages[1]["content"] == "3"


@pytest.mark.behaviour("RUNNER-7")
@pytest.mark.parametrize("approved", [True, False])
async def test_call_with_the_rule_ask_waits_for_a_decision(
    scene: Scene, model: ScriptedModel, tmp_path: Path, approved: bool
) -> None:
    model.script(call("tools__add", a=1, b=2), say("ok"))
    await scene.start(mcp_servers=[make_server(tmp_path)], tool_rules={"tools__add": "ask"})
    request = await scene.wait_event("approval_requested", name="tools__add", arguments={"a": 1, "b": 2})
    assert request["tool"] == "tools__add"
    assert scene.events("tool_call") == []
    call_id = request["data"]["call_id"]
    await scene.send("decide", run_id="r1", call_id="another", approved=True)
    await scene.send("decide", run_id="r1", call_id=call_id, approved=approved, reason="too costly")
    outcome = await scene.finish()
    resolved = {"call_id": call_id, "name": "tools__add", "approved": approved, "reason": "too costly"}
    assert scene.events("approval_resolved") == [resolved]
    (result,) = scene.events("tool_result")
    assert result["is_error"] is not approved
    assert ("3" if approved else "too costly") in outcome.messages[1]["content"]


async def test_call_that_waits_for_approval_holds_up_no_other_call(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(ModelReply(calls=[("tools__echo", {"text": "x"}), ADD]), say("ok"))
    await scene.start(mcp_servers=[make_server(tmp_path)], tool_rules={"tools__echo": "ask"})
    await scene.wait_event("tool_result", name="tools__add")
    request = await scene.wait_event("approval_requested")
    await scene.send("decide", run_id="r1", call_id=request["data"]["call_id"], approved=False)
    assert (await scene.finish()).state == "completed"


async def test_cancel_while_a_call_waits_for_approval_ends_the_run(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(call("tools__add", a=1, b=2))
    await scene.start(mcp_servers=[make_server(tmp_path)], tool_rules={"*": "ask"})
    await scene.wait_event("approval_requested")
    await scene.send("cancel", run_id="r1")
    outcome = await scene.finish()
    # The call has no result: it is no part of the thread.
    assert (outcome.state, outcome.messages) == ("cancelled", [])


async def test_cancel_ends_the_model_call(scene: Scene, model: ScriptedModel) -> None:
    model.script(say("a", "b", gate=asyncio.Event()))
    await scene.start()
    await model.begun.wait()
    await scene.send("cancel", run_id="r1")
    assert (await scene.finish()).state == "cancelled"


@pytest.mark.behaviour("AGENT-12")
async def test_cancel_reaches_the_tool(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    model.script(call("tools__wait", name="x"))
    await scene.start(mcp_servers=[make_server(tmp_path)], session_key="k")
    await eventually(_exists(tmp_path / "began-x"))
    await scene.send("cancel", run_id="r1")
    assert (await scene.finish()).state == "cancelled"
    await eventually(_exists(tmp_path / "cancelled-x"))


async def test_answer_without_any_text_completes_the_run(scene: Scene, model: ScriptedModel) -> None:
    model.script(ModelReply(reasoning=["hm"]))
    outcome = await scene.run()
    assert (outcome.state, outcome.content) == ("completed", "")


async def test_runs_are_executed_beside_each_other(scene: Scene, model: ScriptedModel) -> None:
    gate = asyncio.Event()
    model.script(say("first", gate=gate), say("second"))
    await scene.start(run_id="a")
    await model.begun.wait()
    assert (await scene.run(run_id="b")).content == "second"
    gate.set()
    assert (await scene.finish("a")).content == "first"


def _exists(path: Path) -> Any:
    async def look() -> bool:
        return path.exists()

    return look


async def test_call_without_a_decision_is_refused_after_a_while(
    scene: Scene, model: ScriptedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_executor, "APPROVAL_LIMIT_S", 0.01)
    model.script(call("tools__echo", text="x"), say("done"))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)], tool_rules={"*": "ask"})
    assert outcome.content == "done"
    assert scene.events("approval_resolved")[0]["approved"] is False
    assert "No decision was made" in scene.events("tool_result")[0]["content"]
