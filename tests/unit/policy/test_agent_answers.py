"""What a turn of an agent adds to its thread."""

from __future__ import annotations

import pytest

from corral.policy.agents import ANSWER_BYTES_MAX, ANSWER_MESSAGES_MAX, list_answer_messages

CALL = {"role": "assistant", "content": "Let me look.", "tool_calls": [{"id": "c1"}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "found"}
ANSWER = {"role": "assistant", "content": "Done."}


def test_turn_adds_its_calls_and_its_answer_to_the_thread() -> None:
    outcome = {"content": "Done.", "messages": [CALL, RESULT, ANSWER]}
    assert list_answer_messages(outcome) == [CALL, RESULT, ANSWER]


@pytest.mark.parametrize(
    "messages",
    [
        [CALL, RESULT] * (ANSWER_MESSAGES_MAX // 2) + [ANSWER],
        [CALL, {**RESULT, "content": "x" * ANSWER_BYTES_MAX}, ANSWER],
    ],
    ids=["messages", "bytes"],
)
def test_turn_beyond_the_limits_adds_its_answer_alone(messages: list[dict[str, object]]) -> None:
    assert list_answer_messages({"content": "Done.", "messages": messages}) == [ANSWER]
