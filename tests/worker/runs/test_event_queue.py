"""Entries of a trace on their way: joined, numbered, repeated unchanged, and bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.run import RunEventType
from corral.wire.run_work import (
    DELIVERY_BYTES_MAX,
    EVENTS_MAX,
    OUTCOME_BYTES_MAX,
    RunEventIn,
    RunEventsIn,
    RunOutcome,
    measure_json,
)
from corral.worker.runs.event_queue import WAITING_BYTES_MAX, RunEventQueue
from tests.support.hand_clock import HandClock

CONTENT, REASONING, STATUS = RunEventType.CONTENT, RunEventType.REASONING, RunEventType.STATUS
TOOL_CALL, TOOL_RESULT, END = RunEventType.TOOL_CALL, RunEventType.TOOL_RESULT, RunEventType.END


def make_queue(last_seq: int = 0) -> RunEventQueue:
    return RunEventQueue(last_seq, HandClock())


def say(queue: RunEventQueue, text: str, event_type: RunEventType = CONTENT) -> None:
    queue.put(event_type, "", {"text": text})


def deliver_all(queue: RunEventQueue) -> list[RunEventIn]:
    """Everything that waits, as a frontend that answers gets it."""
    delivered: list[RunEventIn] = []
    while batch := queue.make_batch():
        delivered += batch
        queue.acknowledge(batch[-1].seq)
    return delivered


def read_texts(events: list[RunEventIn]) -> list[tuple[RunEventType, str]]:
    """The texts in order, with consecutive ones of a kind joined."""
    texts: list[tuple[RunEventType, str]] = []
    for event in events:
        if event.type not in (CONTENT, REASONING):
            texts.append((event.type, json.dumps(event.data)))
        elif texts and texts[-1][0] is event.type:
            texts[-1] = (event.type, texts[-1][1] + event.data["text"])
        else:
            texts.append((event.type, event.data["text"]))
    return texts


pieces = st.lists(
    st.tuples(st.sampled_from([CONTENT, REASONING, STATUS]), st.text(alphabet="aé漢😀\n", min_size=1, max_size=12)),
    max_size=40,
)


@pytest.mark.behaviour("WRK-22")
@given(pieces, st.lists(st.integers(0, 40), max_size=8), st.integers(0, 10**6))
def test_deltas_are_joined_without_loss_and_in_order_however_they_are_cut_into_deliveries(
    entries: list[tuple[RunEventType, str]], deliveries_after: list[int], last_seq: int
):
    queue = make_queue(last_seq)
    delivered: list[RunEventIn] = []
    for number, (event_type, text) in enumerate(entries):
        queue.put(event_type, "", {"text": text} if event_type is not STATUS else {"message": text})
        if number in deliveries_after:
            delivered += deliver_all(queue)
    delivered += deliver_all(queue)
    expected = make_queue()
    for event_type, text in entries:
        expected.put(event_type, "", {"text": text} if event_type is not STATUS else {"message": text})
    assert read_texts(delivered) == read_texts(deliver_all(expected))
    joined = "".join(text for event_type, text in entries if event_type is CONTENT)
    assert "".join(event.data["text"] for event in delivered if event.type is CONTENT) == joined
    assert [event.seq for event in delivered] == list(range(last_seq + 1, last_seq + 1 + len(delivered)))


def test_consecutive_deltas_that_wait_become_one_entry():
    queue = make_queue()
    for word in ("Hel", "lo", " world"):
        say(queue, word)
    say(queue, "hm", REASONING)
    say(queue, "!")
    assert read_texts(queue.make_batch()) == [(CONTENT, "Hello world"), (REASONING, "hm"), (CONTENT, "!")]


def test_deltas_with_different_further_data_stay_apart():
    queue = make_queue()
    for step in (1, 1, 2):
        queue.put(CONTENT, "", {"text": "a", "step": step})
    assert [event.data for event in queue.make_batch()] == [{"text": "aa", "step": 1}, {"text": "a", "step": 2}]


def test_repeated_delivery_has_the_same_entries_although_more_text_has_come():
    queue = make_queue(7)
    say(queue, "one")
    first = queue.make_batch()
    say(queue, " two")
    assert queue.make_batch() == first
    queue.acknowledge(8)
    assert [(event.seq, event.data["text"]) for event in queue.make_batch()] == [(9, " two")]


def test_entries_that_were_stored_of_a_delivery_are_not_sent_again():
    queue = make_queue()
    for number in range(3):
        queue.put(STATUS, "", {"number": number})
    queue.make_batch()
    queue.acknowledge(2)
    assert [(event.seq, event.data["number"]) for event in queue.make_batch()] == [(3, 2)]


def test_numbers_follow_the_registry_after_it_has_lost_entries():
    queue = make_queue()
    for number in range(3):
        queue.put(STATUS, "", {"number": number})
    queue.make_batch()
    queue.acknowledge(3)
    queue.put(STATUS, "", {"number": 3})
    assert [event.seq for event in queue.make_batch()] == [4]
    queue.acknowledge(1)
    assert [(event.seq, event.data["number"]) for event in queue.make_batch()] == [(2, 3)]


def test_long_text_is_split_into_entries_and_none_of_it_is_lost():
    queue = make_queue()
    text = "😀漢 a" * 40_000
    say(queue, text)
    delivered = deliver_all(queue)
    assert "".join(event.data["text"] for event in delivered) == text
    assert not any(event.is_too_large() for event in delivered)


@pytest.mark.parametrize(
    "data",
    [
        {"output": "x" * 300_000},
        {"parts": ["é" * 50_000, {"deep": ["漢" * 90_000]}], "count": 3},
        {f"key {number}": number for number in range(20_000)},
    ],
)
def test_data_over_the_limit_is_cut_with_a_note(data: dict[str, Any]):
    queue = make_queue()
    queue.put(TOOL_RESULT, "shell", data)
    (event,) = queue.make_batch()
    assert not event.is_too_large()
    assert str(measure_json(data)) in event.data["note"]
    assert event.tool == "shell"


def test_end_holds_the_outcome_and_is_larger_than_other_entries_may_be():
    queue = make_queue()
    queue.put_end(RunOutcome(state="completed", content="x" * 200_000))
    (event,) = queue.make_batch()
    assert (event.type, RunOutcome.model_validate(event.data).content) == (END, "x" * 200_000)


def test_outcome_over_its_limit_keeps_what_says_how_the_run_ended():
    queue = make_queue()
    messages = [{"role": "tool", "content": "y" * 100_000} for _ in range(30)]
    queue.put_end(RunOutcome(state="failed", content="x", error_code="model_failed", messages=messages))
    (event,) = queue.make_batch()
    assert measure_json(event.data) <= OUTCOME_BYTES_MAX
    assert not event.is_too_large()
    outcome = RunOutcome.model_validate(event.data)
    assert (outcome.state, outcome.error_code, len(outcome.messages)) == ("failed", "model_failed", 30)


def test_nothing_follows_the_end():
    queue = make_queue()
    queue.put_end(RunOutcome(state="cancelled"))
    queue.put(STATUS, "", {})
    queue.put_end(RunOutcome(state="completed"))
    assert [event.data["state"] for event in deliver_all(queue)] == ["cancelled"]
    assert queue.is_complete


def test_delivery_is_within_the_limits_of_the_route():
    queue = make_queue()
    for number in range(700):
        queue.put(STATUS, "", {"number": number})
    for _ in range(40):
        queue.put(TOOL_RESULT, "shell", {"output": "x" * 60_000})
    queue.put_end(RunOutcome(state="completed", content="z" * 500_000))
    numbers = []
    while batch := queue.make_batch():
        body = RunEventsIn(boot_id="b" * 36, job_id="j" * 36, events=batch).model_dump_json()
        assert len(batch) <= EVENTS_MAX
        assert len(body) <= DELIVERY_BYTES_MAX + 1000
        numbers += [event.seq for event in batch]
        queue.acknowledge(batch[-1].seq)
    assert numbers == list(range(1, 742))


def test_characters_that_the_registry_cannot_hold_are_replaced():
    queue = make_queue()
    say(queue, "a\0b")
    queue.put(TOOL_RESULT, "t", {"out\0": ["x\ud800y", "😀"]})
    first, second = queue.make_batch()
    assert first.data == {"text": "a\ufffdb"}
    assert second.data == {"out\ufffd": ["x\ufffdy", "😀"]}


def test_refused_entries_are_reduced_and_the_end_still_says_how_the_run_ended():
    queue = make_queue()
    say(queue, "text")
    queue.put(TOOL_RESULT, "t", {"output": "x"})
    queue.put_end(RunOutcome(state="completed", content="the answer"))
    queue.make_batch()
    queue.shorten_batch()
    text, result, end = queue.make_batch()
    assert (text.data["text"], "output" in result.data) == ("", False)
    assert (end.data["state"], end.data["content"]) == ("completed", "the answer")
    assert [text.seq, result.seq, end.seq] == [1, 2, 3]


# --- too much waits ---


def test_texts_that_alternate_are_joined_before_any_entry_is_left_out():
    queue = make_queue()
    for _ in range(12_000):
        say(queue, "ab", REASONING)
        say(queue, "cd")
    delivered = deliver_all(queue)
    assert queue.waiting_bytes == 0
    assert not any("left_out" in event.data for event in delivered)
    for event_type, text in ((REASONING, "ab" * 12_000), (CONTENT, "cd" * 12_000)):
        assert "".join(event.data["text"] for event in delivered if event.type is event_type) == text


def test_oldest_status_entries_are_left_out_first_and_an_entry_says_so():
    queue = make_queue()
    for number in range(60):
        queue.put(STATUS, "", {"message": "s" * 60_000, "number": number})
        queue.put(TOOL_CALL, "shell", {"call_id": str(number)})
    say(queue, "answer" * 60_000)
    for number in range(60, 80):
        queue.put(STATUS, "", {"message": "s" * 60_000, "number": number})
    queue.put_end(RunOutcome(state="completed"))
    assert queue.waiting_bytes <= WAITING_BYTES_MAX + 1000
    delivered = deliver_all(queue)
    note = delivered[0].data
    kept = [event.data["number"] for event in delivered if event.type is STATUS and "number" in event.data]
    assert note["left_out"] + len(kept) == 80
    assert kept == list(range(note["left_out"], 80))
    assert str(note["left_out"]) in note["note"]
    assert [event.data["call_id"] for event in delivered if event.type is TOOL_CALL] == [str(n) for n in range(60)]
    assert "".join(event.data["text"] for event in delivered if event.type is CONTENT) == "answer" * 60_000
    assert delivered[-1].type is END


def test_calls_of_tools_stay_when_texts_and_results_are_too_many():
    queue = make_queue()
    for number in range(200):
        queue.put(TOOL_CALL, "shell", {"call_id": str(number)})
        say(queue, "t" * 60_000)
        queue.put(TOOL_RESULT, "shell", {"call_id": str(number), "output": "x" * 60_000})
        assert queue.waiting_bytes <= WAITING_BYTES_MAX
    queue.put_end(RunOutcome(state="completed"))
    delivered = deliver_all(queue)
    for event_type in (TOOL_CALL, TOOL_RESULT):
        assert [e.data["call_id"] for e in delivered if e.type is event_type] == [str(n) for n in range(200)]
    assert delivered[-1].type is END


def test_memory_is_bounded_whatever_a_runner_sends():
    queue = make_queue()
    for number in range(40_000):
        queue.put(TOOL_CALL, "shell", {"call_id": str(number), "arguments": "a" * 900})
        assert queue.waiting_bytes <= WAITING_BYTES_MAX
    queue.put_end(RunOutcome(state="completed"))
    delivered = deliver_all(queue)
    assert (delivered[0].type, delivered[-1].type) == (STATUS, END)
    assert delivered[0].data["left_out"] == 40_000 - (len(delivered) - 2)
