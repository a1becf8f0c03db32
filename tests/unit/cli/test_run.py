"""`corral run` and `corral chat`: what is sent, what is printed where, and loads on the way."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from aiohttp import web

from corral.cli.command import make_tasks
from tests.unit.cli.conftest import Corral, bodies
from tests.unit.client.standin import (
    KEY,
    OPERATION,
    Answer,
    StandIn,
    a_node,
    admitted,
    an_operation,
    json_answer,
    refusal,
)
from tools.source import ROOT

ROUTE = "POST /v1/chat/completions"
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def says(*words: str, ends: bool = True, error: str = "") -> Answer:
    """A stream of OpenAI's kind."""

    async def answer(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Corral-Node": "attic"})
        await stream.prepare(request)
        for word in words:
            chunk = {"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}
            await stream.write(f"data: {json.dumps(chunk)}\n\n".encode())
        if error:
            payload = {"error": {"message": error, "type": "server_error", "code": "engine_lost", "param": None}}
            await stream.write(f"data: {json.dumps(payload)}\n\n".encode())
        elif ends:
            last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            usage = {"choices": [], "usage": USAGE}
            await stream.write(f"data: {json.dumps(last)}\n\ndata: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())
        return stream

    return answer


def is_loading(**loading: Any) -> Answer:
    hint = "The load continues. Retry after the time in Retry-After."
    details = {"loading": {"model": "smollm2", "state": "staging", "progress": 40.0} | loading}
    error = {
        "code": "model_loading",
        "type": "model_loading",
        "message": f"Model smollm2 is loading. {hint}",
        "hint": hint,
        "details": details,
    }
    return json_answer({"error": error} | details, 503)


@pytest.mark.behaviour("CLI-RUN-1")
def test_answer_goes_to_standard_output_and_nothing_else_does(corral: Corral, frontend: StandIn) -> None:
    frontend.on(ROUTE, says("Because", " of\n", "hay."))
    done = corral("run", "smollm2", "Why", "is", "it?", "--system", "Be brief.", "--max-tokens", "9")
    assert (done.code, done.out, done.err) == (0, "Because of\nhay.\n", "")
    (sent,) = bodies(frontend, ROUTE)
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why is it?"},
    ]
    assert (sent["model"], sent["stream"], sent["max_tokens"]) == ("smollm2", True, 9)
    assert "temperature" not in sent


@pytest.mark.behaviour("CLI-RUN-1")
def test_question_may_come_from_standard_input_alone_or_beside_words(corral: Corral, frontend: StandIn) -> None:
    frontend.on(ROUTE, says("yes"))
    assert corral("run", "smollm2", typed="from a pipe\n").code == 0
    assert corral("run", "smollm2", "Summarise this:", "-", typed="a long text\n").code == 0
    questions = [sent["messages"][-1]["content"] for sent in bodies(frontend, ROUTE)]
    assert questions == ["from a pipe", "Summarise this:\n\na long text"]
    for nothing in (corral("run", "smollm2", is_terminal=True), corral("run", "smollm2", typed=" \n")):
        assert nothing.code == 1
        assert "hint: corral run MODEL" in nothing.err


@pytest.mark.behaviour("CLI-RUN-1")
def test_documented_pipe_sends_the_text_with_the_question_and_a_limit_of_tokens(
    corral: Corral, frontend: StandIn
) -> None:
    """Without a limit a small model may go on for ever."""
    page = (ROOT / "docs/how-to/ask-models.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if "| corral run " in line]
    words = shlex.split(line.partition("| corral ")[2])
    frontend.on(ROUTE, says("three fixes"))
    done = corral(*words, typed="fix the parser\nfix the docs\n")
    assert (done.code, done.out, done.err) == (0, "three fixes\n", "")
    (sent,) = bodies(frontend, ROUTE)
    assert sent["messages"] == [{"role": "user", "content": "Summarise this:\n\nfix the parser\nfix the docs"}]
    assert sent["max_tokens"] == 100


@pytest.mark.behaviour("CLI-RUN-1")
def test_run_with_json_prints_one_object_with_the_usage(corral: Corral, frontend: StandIn) -> None:
    frontend.on(ROUTE, says("a", "b"))
    done = corral("run", "smollm2", "x", "--json")
    assert json.loads(done.out) == {
        "model": "smollm2",
        "node": "attic",
        "content": "ab",
        "finish_reason": "stop",
        "usage": USAGE,
    }


def test_run_follows_a_loading_model_and_then_repeats_the_request(corral: Corral, frontend: StandIn) -> None:
    frontend.on(ROUTE, is_loading(operation_id=OPERATION), says("at last"))
    done = an_operation(kind="model_load", name="smollm2", state="completed", isBackend=False, nodes=[])
    frontend.on(f"GET /api/operations/{OPERATION}", json_answer(done))
    outcome = corral("run", "smollm2", "x", "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out)["content"] == "at last"
    assert "smollm2: completed" in outcome.err
    assert [seen.headers["Prefer"] for seen in frontend.seen if seen.path == "/v1/chat/completions"] == ["wait=2"] * 2


def test_run_prints_a_refusal_once_with_its_hint(corral: Corral, frontend: StandIn) -> None:
    frontend.on(
        ROUTE, refusal(404, "model_not_found", "There is no model named 'x'. Did you mean y?", "Did you mean y?")
    )
    outcome = corral("run", "x", "hello")
    assert outcome.code == 1
    assert outcome.err == "error: There is no model named 'x'.\n\nhint: Did you mean y?\n"
    assert outcome.out == ""


def test_answer_that_breaks_off_is_an_error_after_the_received_text(corral: Corral, frontend: StandIn) -> None:
    frontend.on(ROUTE, says("half", error="The engine went away."))
    outcome = corral("run", "smollm2", "x")
    assert (outcome.code, outcome.out) == (1, "half")
    assert "The engine went away." in outcome.err


def test_control_characters_of_a_model_do_not_reach_the_terminal(corral: Corral, frontend: StandIn) -> None:
    frontend.on(ROUTE, says("a\x1b[2Jb\n"))
    assert "\x1b" not in corral("run", "smollm2", "x").out


def test_chat_keeps_its_messages_until_it_is_reset(corral: Corral, frontend: StandIn) -> None:
    frontend.on("GET /v1/models/smollm2", json_answer(a_model("smollm2")))
    frontend.on(ROUTE, says("one"), says("two"), says("three"))
    done = corral("chat", "smollm2", "--system", "Be brief.", typed="first\n\nsecond\n/new\nthird\n")
    assert (done.code, done.out) == (0, "one\ntwo\nthree\n")
    turns = [[message["content"] for message in sent["messages"]] for sent in bodies(frontend, ROUTE)]
    assert turns == [
        ["Be brief.", "first"],
        ["Be brief.", "first", "one", "second"],
        ["Be brief.", "third"],
    ]


def test_chat_on_a_terminal_refuses_a_wrong_name_before_the_first_question(corral: Corral, frontend: StandIn) -> None:
    frontend.on("GET /v1/models/nope", refusal(404, "model_not_found", "There is no model named 'nope'."))
    outcome = corral("chat", "nope", typed="hello\n", is_terminal=True)
    assert outcome.code == 1
    assert "There is no model named 'nope'." in outcome.err
    assert bodies(frontend, ROUTE) == []


def test_chat_without_a_terminal_prints_only_a_sentence_for_a_wrong_name(corral: Corral, frontend: StandIn) -> None:
    frontend.on("GET /v1/models/nope", refusal(404, "model_not_found", "There is no model named 'nope'."))
    outcome = corral("chat", "nope", typed="hello\n")
    assert outcome.code == 1
    assert outcome.err.startswith("error: There is no model named 'nope'.")
    assert "Traceback" not in outcome.err + outcome.out
    assert KEY not in outcome.err + outcome.out


def test_chat_with_unknown_model_and_closed_input_is_refused(corral: Corral, frontend: StandIn) -> None:
    frontend.on("GET /v1/models/nope", refusal(404, "model_not_found", "There is no model named 'nope'."))
    assert corral("chat", "nope", typed="").code == 1


@pytest.mark.parametrize("words", [("chat", "nope"), ("run", "nope", "hello")])
def test_run_prints_an_unknown_model_once_with_the_models_that_exist(
    corral: Corral, frontend: StandIn, words: tuple[str, ...]
) -> None:
    hint = "GET /v1/models lists the models that it may use."
    wrong = refusal(404, "model_not_found", f"There is no model named 'nope'. {hint}", hint)
    frontend.on("GET /v1/models/nope", wrong)
    frontend.on(ROUTE, wrong)
    frontend.on("GET /v1/models", json_answer({"object": "list", "data": [a_model("smollm2"), a_model("qwen")]}))
    outcome = corral(*words)
    assert outcome.code == 1
    assert outcome.err == "error: There is no model named 'nope'.\n\nhint: There are: smollm2, qwen.\n"


def a_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1, "owned_by": "corral"}


async def test_task_of_a_command_that_crashes_shows_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    async def crash(key: str) -> None:
        raise ArithmeticError(f"a key of {len(key)} letters")

    work = make_tasks("test")
    work.start(crash(KEY), name="crash")
    await work.join()
    printed = capsys.readouterr()
    assert "ArithmeticError: a key of" in printed.err
    assert KEY not in printed.err + printed.out


def a_model_plan(**changes: Any) -> dict[str, Any]:
    plan = {"plan": True, "name": "smollm2-135m", "backend": "llama-cpp", "size_bytes": 98362432, "config": {}}
    return plan | {"exists": False} | changes


def make_admission(operation_id: str) -> dict[str, Any]:
    return admitted(id=operation_id, jobID=operation_id, uuid=operation_id) | {"name": "smollm2-135m", "status": "/x"}


ENGINE, FILES = "01a1df0f-711a-745f-ac40-911e6c48d001", "01a1df0f-711a-745f-ac40-911e6c48d002"
PLAN = "POST /api/models/install/smollm2-135m"
INSTALL = "POST /api/backends/install/llama-cpp"
HAS = "GET /api/nodes/id-gpu-a/backends"


@pytest.fixture
def empty(frontend: StandIn) -> StandIn:
    """A cluster with one node that has nothing."""
    frontend.on("GET /api/nodes", json_answer([a_node()]))
    frontend.on(HAS, json_answer([]))
    frontend.on(PLAN, json_answer(a_model_plan()), json_answer(make_admission(FILES), 202))
    frontend.on(INSTALL, json_answer(admitted(id=ENGINE, jobID=ENGINE, uuid=ENGINE), 202))
    for operation_id, kind in ((ENGINE, "backend_install"), (FILES, "model_install")):
        done = an_operation(id=operation_id, jobID=operation_id, kind=kind, state="completed", nodes=[])
        frontend.on(f"GET /api/operations/{operation_id}", json_answer(done))
    frontend.on(ROUTE, says("Because of hay."))
    return frontend


@pytest.mark.behaviour("CLI-RUN-4")
def test_try_installs_the_engine_and_the_model_asks_and_says_what_to_do_next(corral: Corral, empty: StandIn) -> None:
    done = corral("try")
    assert (done.code, done.out) == (0, "Because of hay.\n")
    for phrase in (
        "Installing the backend llama-cpp on gpu-a",
        "Downloading the model smollm2-135m (93.8 MiB)",
        "corral chat",
    ):
        assert phrase in done.err
    (sent,) = bodies(empty, INSTALL)
    assert sent["nodes"] == ["id-gpu-a"]
    calls = [seen.path for seen in empty.seen if seen.method == "POST"]
    assert calls == [PLAN[5:], INSTALL[5:], PLAN[5:], "/v1/chat/completions"]


@pytest.mark.behaviour("CLI-RUN-4")
def test_second_corral_try_only_sends_the_request(corral: Corral, empty: StandIn) -> None:
    empty.on(PLAN, json_answer(a_model_plan(exists=True)))
    empty.on(HAS, json_answer([{"name": "cpu-llama-cpp", "meta": "llama-cpp"}]))
    done = corral("try", "And why?", "--json")
    assert json.loads(done.out)["content"] == "Because of hay."
    assert [seen.path for seen in empty.seen if seen.method == "POST"] == [PLAN[5:], "/v1/chat/completions"]


@pytest.mark.behaviour("CLI-RUN-4")
def test_try_ends_with_the_first_thing_that_fails(corral: Corral, empty: StandIn) -> None:
    failed = an_operation(id=ENGINE, jobID=ENGINE, state="failed", error="The disk is full.", nodes=[])
    empty.on(f"GET /api/operations/{ENGINE}", json_answer(failed))
    outcome = corral("try")
    assert (outcome.code, outcome.out) == (1, "")
    assert "The disk is full." in outcome.err
    assert f"hint: corral operations show {ENGINE}" in outcome.err
    empty.on("GET /api/nodes", json_answer([a_node(status="pending", schedulable=False)]))
    assert "hint: corral nodes approve gpu-a" in corral("try").err
