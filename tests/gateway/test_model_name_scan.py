"""The model's name without decoding: only where decoding finds the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corral.domain.errors import InvalidRequest
from corral.gateway.request import request_body as bodies
from corral.gateway.request.request_body import find_model_name

MESSAGES = [{"role": "user", "content": 'say "model": "other"'}]


@pytest.mark.parametrize(
    "body",
    [
        {"model": "chat", "messages": MESSAGES},
        {"messages": MESSAGES, "model": "chat"},
        {"messages": MESSAGES, "model": "chat", "stream": True, "stream_options": {"include_usage": True}},
        {"messages": MESSAGES, "model": "chat", "stop": ["a", "b"], "temperature": 1e-3, "user": None},
        {"temperature": 0.5, "stream": False, "model": "chat", "messages": MESSAGES},
        {"input": "a long text " * 1000, "model": "chat"},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_bodies_as_clients_write_them_are_not_decoded(body: Any, indent: int | None) -> None:
    assert find_model_name(json.dumps(body, indent=indent).encode()) == "chat"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"nonsense",
        b'["model"]',
        b'{"model": 7}',
        b'{"model": ""}',
        b'{"model": "a", "model": "b"}',
        b'{"model": "a", "mod\\u0065l": "b"}',
        b'{"mod\\u0065l": "b"}',
        b'{"model": "a\\n"}',
        b'{"model": "a\\u0062"}',
        b'{"model": "\xff"}',
        b'{"metadata": {"model": "inner"}}',
        b'{"metadata": {"model": "inner"}, "messages": []}',
        b'{"metadata": {"a": [{"model": "inner"}]}}',
        b'{"messages": ["model"], "x": 1}',
        b'{"messages": ["\\"model"]}',
        b'{"type": "model"}',
        b'\xef\xbb\xbf{"model": "a"}',
    ],
)
def test_body_that_is_not_plain_is_left_to_the_decoder(raw: bytes) -> None:
    assert find_model_name(raw) is None


_TEXTS = st.one_of(
    st.sampled_from(["model", '"model"', '\\"model', 'x","model":"y', "model\\", "\\u0022", "mod\u00e9l", ":", "{}"]),
    st.text(max_size=8),
)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=3)),
    max_leaves=8,
)
_PAIRS = st.lists(st.tuples(st.one_of(st.just("model"), _TEXTS), _VALUES), max_size=6)
_SPACES = st.sampled_from(["", " ", "\n\t", "\r\n  "])


@st.composite
def _objects(draw: st.DrawFn) -> bytes:
    """Any JSON object, names twice included, with blanks anywhere and letters spelt with escapes or not."""
    is_ascii, space = draw(st.booleans()), draw(_SPACES)
    pairs = [
        f"{json.dumps(key, ensure_ascii=is_ascii)}{space}:{draw(_SPACES)}{json.dumps(value, ensure_ascii=is_ascii)}"
        for key, value in draw(_PAIRS)
    ]
    text = draw(_SPACES) + "{" + space + f"{space},{space}".join(pairs) + space + "}" + draw(_SPACES)
    return text.encode("utf-8", "surrogatepass")


@settings(max_examples=500, deadline=None)
@given(_objects())
@example(b'{"a":{"b":1,"model":"x"}}')
@example(b'{"a":1,"model":"x"}')
def test_name_that_is_found_is_the_one_that_a_decoder_finds_and_the_only_one(raw: bytes) -> None:
    found = find_model_name(raw)
    if found is None:
        return
    pairs: list[tuple[str, Any]] = json.loads(raw, object_pairs_hook=list)
    assert [value for key, value in pairs if key == "model"] == [found]


@settings(max_examples=300, deadline=None)
@given(_objects(), st.integers(0, 400), st.sampled_from([b"", b'"', b"\\", b"{", b"}", b",", b"model", b"\n"]))
def test_body_that_the_decoder_takes_is_read_the_same(raw: bytes, at: int, put_in: bytes) -> None:
    changed = raw[:at] + put_in + raw[at:]
    found = find_model_name(changed)
    try:
        decoded = bodies.parse_body(changed).model
    except InvalidRequest:
        return
    assert found in (None, decoded)
