"""The trace of a run as a chat completion: text of several steps, attempts that begin again, budgets and tool calls."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from corral.api.turns.run_errors import RunInterrupted
from corral.api.turns.turn_renderer import AnswerHead, TurnRenderer
from corral.domain.errors import CorralError
from corral.domain.run import RunEvent, RunEventType

HEAD = AnswerHead(run_id="0-1", model="helper", created=5)
CALLS = [{"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in ("mine", "theirs")]


def make_renderer(*, keeps_text: bool = False) -> TurnRenderer:
    return TurnRenderer(HEAD, keeps_text=keeps_text)


def entry(kind: str, /, **data: Any) -> RunEvent:
    return RunEvent(seq=1, at=datetime(2026, 1, 1, tzinfo=UTC), type=RunEventType(kind), data=data)


def end(content: str = "", **outcome: Any) -> RunEvent:
    return entry("end", **{"state": "completed", "content": content, "reason": "answer"} | outcome)


def render(renderer: TurnRenderer, *events: RunEvent) -> list[dict[str, Any]]:
    return [chunk for event in events for chunk in renderer.render_event(event)]


def join_text(chunks: list[dict[str, Any]]) -> str:
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)


def test_texts_of_steps_are_separated_and_the_same_whole_and_streamed() -> None:
    events = (
        entry("step"),
        entry("content", text="Let me "),
        entry("content", text="see."),
        entry("step"),
        entry("content", text="Noon."),
        end("Noon."),
    )
    renderer = make_renderer()
    assert join_text(render(renderer, *events)) == "Let me see.\n\nNoon."
    assert renderer.build_completion()["choices"][0]["message"]["content"] == "Let me see.\n\nNoon."


def test_text_that_came_with_the_outcome_alone_is_sent() -> None:
    assert join_text(render(make_renderer(), entry("step"), end("Noon."))) == "Noon."
    assert join_text(render(make_renderer(), entry("content", text="No"), end("Noon."))) == "Noon."


def test_text_that_was_left_out_of_the_trace_makes_the_answer_an_error() -> None:
    with pytest.raises(RunInterrupted) as caught:
        render(make_renderer(), entry("content", dropped=True), entry("content", text="b"), end("a and b"))
    assert caught.value.slug == "answer_incomplete"


@pytest.mark.parametrize(
    ("outcome", "finish"),
    [
        ({}, "stop"),
        ({"reason": "steps"}, "stop"),
        ({"reason": "loop"}, "stop"),
        ({"reason": "tokens"}, "length"),
        ({"result": {"is_cut": True}}, "length"),
    ],
)
def test_end_at_a_budget_has_a_finish_reason_and_a_flag(outcome: dict[str, Any], finish: str) -> None:
    renderer = make_renderer()
    last = render(renderer, end("x", **outcome))[-1]
    assert last["choices"][0]["finish_reason"] == finish
    assert last["run"] == {"id": "0-1", "ended_by": outcome.get("reason", "answer")}
    assert renderer.build_completion()["run"] == last["run"]


def test_only_calls_without_a_result_are_for_the_caller() -> None:
    messages = [
        {"role": "assistant", "content": "", "tool_calls": CALLS},
        {"role": "tool", "tool_call_id": "mine", "content": "done"},
    ]
    renderer = make_renderer()
    chunks = render(renderer, end(reason="client_tool", messages=messages))
    assert [call["id"] for call in chunks[0]["choices"][0]["delta"]["tool_calls"]] == ["theirs"]
    assert chunks[0]["choices"][0]["delta"]["tool_calls"][0]["index"] == 0
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    [call] = renderer.build_completion()["choices"][0]["message"]["tool_calls"]
    assert call == CALLS[1]


def test_call_that_was_too_large_for_its_outcome_is_an_error() -> None:
    with pytest.raises(RunInterrupted):
        render(make_renderer(), end(reason="client_tool", messages=[]))


def test_attempt_that_begins_again_replaces_text_that_was_not_sent() -> None:
    renderer = make_renderer(keeps_text=True)
    lost = entry("end", state="failed", error_code="runner_lost")
    render(renderer, entry("content", text="Half an"), lost, entry("retried"), entry("content", text="Whole"))
    assert not renderer.is_done
    render(renderer, end("Whole"))
    assert renderer.build_completion()["choices"][0]["message"]["content"] == "Whole"


def test_attempt_that_begins_again_ends_a_stream_that_has_sent_text() -> None:
    renderer = make_renderer()
    render(renderer, entry("content", text="Half an"))
    with pytest.raises(RunInterrupted):
        render(renderer, entry("retried"))
    quiet = make_renderer()
    render(quiet, entry("step"), entry("retried"))
    assert join_text(render(quiet, end("Whole"))) == "Whole"


@pytest.mark.parametrize(("status", "expected"), [(404, 404), (429, 429), (401, 502), (None, 502), (599, 502)])
def test_refusal_of_the_model_keeps_its_status_unless_it_is_about_the_run(status: Any, expected: int) -> None:
    failed = entry("end", state="failed", error_code="some_code", error_text="Because.", result={"status": status})
    with pytest.raises(CorralError) as caught:
        render(make_renderer(), failed)
    assert (caught.value.status, caught.value.slug, caught.value.message) == (expected, "some_code", "Because.")
