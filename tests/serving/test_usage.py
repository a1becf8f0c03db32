"""Tokens as engines tell them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.policy.serving.usage import UNKNOWN, Usage, tells, usage_of

OPENAI = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13, "prompt_tokens_details": {"cached_tokens": 8}}
TIMINGS = {"cache_n": 5, "prompt_n": 4, "prompt_ms": 1.5, "predicted_n": 7, "predicted_per_second": 3.2}


@pytest.mark.behaviour("GW-35")
@pytest.mark.parametrize(
    ("said", "usage"),
    [
        ({"usage": OPENAI}, Usage(prompt=9, cached=8, completion=4)),
        ({"usage": {"prompt_tokens": 3, "total_tokens": 3}}, Usage(prompt=3)),
        ({"usage": {"input_tokens": 5, "output_tokens": 6}}, Usage(prompt=5, completion=6)),
        (
            {"usage": {"input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": 6}},
            Usage(prompt=25, cached=20, completion=6),
        ),
        ({"timings": TIMINGS}, Usage(prompt=9, cached=5, completion=7)),
        ({"timings": TIMINGS, "usage": OPENAI}, Usage(prompt=9, cached=8, completion=4)),
        ({"prompt_eval_count": 12, "eval_count": 34}, Usage(prompt=12, completion=34)),
        ({"usage": None}, UNKNOWN),
        ({"usage": {}}, UNKNOWN),
        ({"usage": {"prompt_tokens": True, "completion_tokens": -1}}, UNKNOWN),
        ({"token": "usage", "text": '"usage": {"prompt_tokens": 99}'}, UNKNOWN),
        ({}, UNKNOWN),
    ],
)
def test_every_way_to_say_it_is_read(said: object, usage: Usage) -> None:
    for raw in (json.dumps(said), json.dumps(said, indent=2), json.dumps({"choices": [said, 1], "x": "usage"})):
        assert usage_of(raw.encode()) == usage


@pytest.mark.behaviour("GW-35")
def test_the_last_numbers_count_and_what_was_only_said_before_stays() -> None:
    events = b'data: {"usage":{"input_tokens":3,"output_tokens":1}}\n\ndata: {"usage":{"output_tokens":8}}\n\n'
    last = usage_of(events)
    assert last == Usage(completion=8)
    assert last.over(usage_of(events[:60])) == Usage(prompt=3, completion=8)
    assert usage_of(b'data: {"usage":{"prompt_tokens":3}}\n\ndata: {"usage":null}\n\n') == Usage(prompt=3)


@given(st.binary(max_size=200), st.sampled_from([b'"usage"', b'"timings"', b'"eval_count"']), st.binary(max_size=200))
def test_nothing_that_an_engine_says_is_too_much(before: bytes, name: bytes, after: bytes) -> None:
    said = before + name + after
    assert tells(said)
    assert isinstance(usage_of(said), Usage)
