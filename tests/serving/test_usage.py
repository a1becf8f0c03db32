"""Tokens as engines tell them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.policy.serving.token_usage import UNKNOWN_USAGE, TokenUsage, may_contain_usage, parse_usage

OPENAI = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13, "prompt_tokens_details": {"cached_tokens": 8}}
TIMINGS = {"cache_n": 5, "prompt_n": 4, "prompt_ms": 1.5, "predicted_n": 7, "predicted_per_second": 3.2}


@pytest.mark.parametrize(
    ("payload", "usage"),
    [
        ({"usage": OPENAI}, TokenUsage(prompt=9, cached=8, completion=4)),
        ({"usage": {"prompt_tokens": 3, "total_tokens": 3}}, TokenUsage(prompt=3)),
        ({"usage": {"input_tokens": 5, "output_tokens": 6}}, TokenUsage(prompt=5, completion=6)),
        (
            {"usage": {"input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": 6}},
            TokenUsage(prompt=25, cached=20, completion=6),
        ),
        ({"timings": TIMINGS}, TokenUsage(prompt=9, cached=5, completion=7)),
        ({"timings": TIMINGS, "usage": OPENAI}, TokenUsage(prompt=9, cached=8, completion=4)),
        ({"prompt_eval_count": 12, "eval_count": 34}, TokenUsage(prompt=12, completion=34)),
        ({"usage": None}, UNKNOWN_USAGE),
        ({"usage": {}}, UNKNOWN_USAGE),
        ({"usage": {"prompt_tokens": True, "completion_tokens": -1}}, UNKNOWN_USAGE),
        ({"token": "usage", "text": '"usage": {"prompt_tokens": 99}'}, UNKNOWN_USAGE),
        ({}, UNKNOWN_USAGE),
    ],
)
def test_every_way_to_say_it_is_read(payload: object, usage: TokenUsage) -> None:
    for raw in (
        json.dumps(payload),
        json.dumps(payload, indent=2),
        json.dumps({"choices": [payload, 1], "x": "usage"}),
    ):
        assert parse_usage(raw.encode()) == usage


def test_last_usage_report_wins_and_missing_fields_keep_earlier_values() -> None:
    events = b'data: {"usage":{"input_tokens":3,"output_tokens":1}}\n\ndata: {"usage":{"output_tokens":8}}\n\n'
    last = parse_usage(events)
    assert last == TokenUsage(completion=8)
    assert last.merge_over(parse_usage(events[:60])) == TokenUsage(prompt=3, completion=8)
    assert parse_usage(b'data: {"usage":{"prompt_tokens":3}}\n\ndata: {"usage":null}\n\n') == TokenUsage(prompt=3)


@given(st.binary(max_size=200), st.sampled_from([b'"usage"', b'"timings"', b'"eval_count"']), st.binary(max_size=200))
def test_usage_parser_accepts_any_report_of_an_engine(before: bytes, name: bytes, after: bytes) -> None:
    payload = before + name + after
    assert may_contain_usage(payload)
    assert isinstance(parse_usage(payload), TokenUsage)
