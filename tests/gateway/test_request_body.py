"""Bodies: two things are changed, and everything else stays as it came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.errors import InvalidRequest
from corral.gateway.request.request_body import parse_body

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_OBJECTS = st.dictionaries(st.text(), _JSON, max_size=6).map(lambda value: value | {"model": "requested"})
_SPACED = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n\t", " :\r\n ")])


@given(value=_OBJECTS, separators=_SPACED, is_ascii=st.booleans())
def test_body_is_relayed_byte_for_byte_with_its_own_name_and_no_defaults(
    value: dict[str, Any], separators: tuple[str, str], is_ascii: bool
) -> None:
    raw = _written(value, separators, is_ascii=is_ascii)
    assert parse_body(raw).render_for_engine("requested", {}, "chat") == raw


@given(value=_OBJECTS, separators=_SPACED, name=st.text(min_size=1), defaults=st.dictionaries(st.text(), _JSON))
def test_body_gets_the_models_name_and_defaults_for_absent_fields(
    value: dict[str, Any], separators: tuple[str, str], name: str, defaults: dict[str, Any]
) -> None:
    defaults.pop("system", None)
    sent = json.loads(parse_body(_written(value, separators)).render_for_engine(name, defaults, "chat"))
    same = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens", "stop": "stop_sequences"}
    filled = {key: default for key, default in defaults.items() if key not in value and same.get(key) not in value}
    assert sent == filled | value | {"model": name}


def _written(value: dict[str, Any], separators: tuple[str, str], *, is_ascii: bool = True) -> bytes:
    text = json.dumps(value, separators=separators, ensure_ascii=is_ascii)
    return text.encode("utf-8", "surrogatepass") if is_ascii else text.encode("utf-8", "replace")


def test_numbers_spaces_and_strange_fields_are_not_touched() -> None:
    raw = b' { "temperature" : 1.0e0, "model":"alias" ,"x":[1,  2], "big":123456789012345678901234567890.0 } \n'
    assert parse_body(raw).render_for_engine("real", {"top_p": 0.5}, "chat") == raw.replace(
        b'"alias"', b'"real"'
    ).replace(b"{ ", b'{"top_p": 0.5,  ', 1)


def test_system_prompt_is_put_before_the_messages_unless_there_is_one() -> None:
    body = parse_body(b'{"model":"m","messages":[{"role":"user","content":"hi"}]}')
    sent = json.loads(body.render_for_engine("m", {"system": 'Say "yes".'}, "chat"))
    assert sent["messages"] == [{"role": "system", "content": 'Say "yes".'}, {"role": "user", "content": "hi"}]
    assert "system" not in sent
    for role in ("system", "developer"):
        raw = json.dumps({"model": "m", "messages": [{"role": "user"}, {"role": role, "content": "mine"}]}).encode()
        assert parse_body(raw).render_for_engine("m", {"system": "theirs"}, "chat") == raw
    for strange in (b'{"model":"m","messages":[]}', b'{"model":"m","messages":"hi"}', b'{"model":"m"}'):
        assert parse_body(strange).render_for_engine("m", {"system": "theirs"}, "chat") == strange
    completion = b'{"model":"m","prompt":"hi"}'
    assert parse_body(completion).render_for_engine("m", {"system": "theirs"}, "completions") == completion


def test_default_token_limit_is_not_added_when_the_request_uses_the_other_name() -> None:
    raw = b'{"model":"m","max_completion_tokens":5}'
    assert parse_body(raw).render_for_engine("m", {"max_tokens": 9}, "chat") == raw


def test_defaults_about_sampling_are_not_sent_with_embeddings() -> None:
    raw = b'{"model":"m","input":"hi"}'
    assert parse_body(raw).render_for_engine("m", {"temperature": 0.1, "max_tokens": 3}, "embeddings") == raw


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"model":"m"',
        b'{"model" "m"}',
        b'{"model":"m"}x',
        b'{"model":"m",}',
        b'{,"model":"m"}',
        b'{"model":"m","model":"n"}',
        b'{1:"m"}',
        b"\xff",
    ],
)
def test_body_that_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_body(raw)
    assert caught.value.slug == "malformed_json"


@pytest.mark.parametrize("raw", [b"{}", b'{"model":null}', b'{"model":""}', b'{"model":["m"]}'])
def test_body_without_a_model_is_refused_with_a_hint_to_the_models(raw: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        _ = parse_body(raw).model
    assert caught.value.hint == "GET /v1/models lists them."
