"""Long strings of a JSON value, taken out before it is decoded and put back into what is written of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.errors import InvalidRequest
from corral.gateway.request import request_body as bodies
from corral.policy.serving.json_scan import MemberSpan
from corral.policy.serving.long_strings import LONG_BYTES, LongStrings
from corral.runtime.slice_runner import SliceRunner

MIB = 1024 * 1024
_PIECES = st.sampled_from(['"', "\\", '\\"', "\n", "\u00e9", "\U0001f600", "@", "a", "\\u0001", "{", "[", "\x01"])
_TEXTS = (
    st.lists(_PIECES, max_size=5)
    .map("".join)
    .flatmap(lambda text: st.sampled_from([text, text + "x" * LONG_BYTES + text, text * LONG_BYTES]))
)
_VALUES = st.recursive(
    st.none() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)


def _taken_out(raw: bytes) -> tuple[LongStrings, Any]:
    strings = LongStrings("0123abcd")
    return strings, json.loads(_run(strings.take_out(raw, MemberSpan(0, len(raw)))))


def _run(steps: Generator[int, None, bytes]) -> bytes:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return bytes(end.value)


@given(value=_VALUES, is_ascii=st.booleans())
def test_long_strings_are_restored_unchanged(value: Any, is_ascii: bool) -> None:
    strings, found = _taken_out(json.dumps(value, ensure_ascii=is_ascii).encode())
    assert json.loads(_run(strings.put_back(json.dumps(found, ensure_ascii=False).encode()))) == value


@given(value=_VALUES)
def test_long_strings_are_restored_in_json_inside_a_string(value: Any) -> None:
    strings, found = _taken_out(json.dumps(value).encode())
    written = json.dumps({"arguments": json.dumps({"again": json.dumps(found)}, ensure_ascii=False)})
    back = json.loads(_run(strings.put_back(written.encode())))
    assert json.loads(json.loads(back["arguments"])["again"]) == value


def test_beginning_of_a_long_string_stays_readable() -> None:
    _, found = _taken_out(json.dumps("data:image/png;base64," + "A" * 1000).encode())
    assert found.startswith("data:image/png;base64,AAAA")


async def _decoded(body: dict[str, Any]) -> tuple[dict[str, Any], LongStrings, int]:
    """What is decoded of a body, the strings that were taken out, and the turns that others had meanwhile."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    slices = SliceRunner()
    sent = await bodies.parse_body_in_slices(json.dumps(body).encode(), slices)
    counting = asyncio.create_task(count())
    strings = LongStrings("0123abcd")
    found = json.loads(await sent.shorten_in_slices(slices, strings))
    counting.cancel()
    return found, strings, turns


@pytest.mark.parametrize("name", ["messages", "input", "prompt", "images", "system"])
async def test_event_loop_serves_others_while_one_long_string_is_decoded(name: str) -> None:
    text = 'a "quoted" word\n' * (MIB // 4)
    found, strings, turns = await _decoded({"model": "chat", name: [{"content": text}]})
    assert turns > 10
    assert len(json.dumps(found)) < 1024
    assert json.loads(_run(strings.put_back(json.dumps(found).encode())))[name] == [{"content": text}]


async def test_large_member_that_is_no_prompt_is_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        await _decoded({"model": "chat", "instructions": "x" * 2 * MIB})
    assert refused.value.slug == "too_large_member"
