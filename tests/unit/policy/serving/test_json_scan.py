"""The scan of a JSON object finds what a decoder finds, within its limits, in small steps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corral.policy.serving import json_scan
from corral.policy.serving.json_scan import (
    DEPTH_MAX,
    MEMBERS_MAX,
    JsonScanError,
    TooDeepError,
    TooManyMembersError,
    check_shape,
    is_small_shape,
    run_scan,
    scan_object,
)

_TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["\\", '"', "\\\\", '\\"', "{", "]", ",", ":", '"model"', "\u00e9\U0001f600", "\\" * 7, '"' * 5]),
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=20,
)
_SPACES = st.sampled_from(["", " ", "\n\t", "\r\n  "])


@st.composite
def _objects(draw: st.DrawFn) -> bytes:
    is_ascii = draw(st.booleans())
    separators = (f"{draw(_SPACES)},{draw(_SPACES)}", f"{draw(_SPACES)}:{draw(_SPACES)}")
    value = draw(st.dictionaries(_TEXTS, _VALUES, max_size=5))
    text = json.dumps(value, ensure_ascii=is_ascii, separators=separators)
    return f"{draw(_SPACES)}{text}{draw(_SPACES)}".encode("utf-8", "replace")


@pytest.fixture(autouse=True, params=[(7, 3), (64, 16), (32 * 1024, 1024)], ids=str)
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of several sizes: a boundary between two of them stands everywhere once."""
    monkeypatch.setattr(json_scan, "PIECE_BYTES", request.param[0])
    monkeypatch.setattr(json_scan, "FINE_BYTES", request.param[1])


@pytest.mark.behaviour("GW-210")
@settings(max_examples=150, deadline=None)
@given(_objects())
@example(b'{"a": "\\\\\\\\", "b": ["\\\\\\"]", "]"], "c": {"\\\\": 1}}')
def test_scan_finds_the_members_that_a_decoder_finds(raw: bytes) -> None:
    found = run_scan(scan_object(raw))
    decoded = json.loads(raw)
    values = {name: json.loads(raw[span.start : span.end]) for name, span in found.members.items()}
    # Compared as text: NaN is not equal to itself.
    assert json.dumps(values) == json.dumps(decoded)


@pytest.mark.behaviour("GW-210")
@settings(max_examples=150, deadline=None)
@given(_objects(), st.integers(0, 200), st.sampled_from([b"", b'"', b"\\", b"{", b"]", b",", b":", b"x", b"\n", b"1"]))
def test_scan_takes_no_member_that_a_decoder_does_not_find(raw: bytes, at: int, put_in: bytes) -> None:
    changed = raw[:at] + put_in + raw[at:]
    try:
        decoded: Any = json.loads(changed)
    except ValueError:
        return
    try:
        found = run_scan(scan_object(changed))
    except JsonScanError:
        # The same name twice.
        pairs = json.loads(changed, object_pairs_hook=list)
        assert len({name for name, _ in pairs}) < len(pairs)
        return
    assert list(found.members) == list(decoded)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"[]", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b'{"a":1,}', b'{"a":1}x', b'{"a":[1}', b'{"a":"x',
        b'{"a":"\\', b'{a:1}', b'{"a" 1}', b'{"a":1 "b":2}', b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}', b'{"a":nul}',
        b'{"' + b"a" * 2000 + b'":1}', b'{"a":[[[[', b'{"a":{"b":"c]}',
    ],
)  # fmt: skip
def test_scan_refuses_what_is_no_object(raw: bytes) -> None:
    with pytest.raises(JsonScanError):
        run_scan(scan_object(raw))


@pytest.mark.behaviour("GW-210")
def test_scan_refuses_an_object_with_more_members_than_the_limit() -> None:
    def of(count: int) -> bytes:
        return json.dumps({str(number): number for number in range(count)}).encode()

    assert len(run_scan(scan_object(of(MEMBERS_MAX))).members) == MEMBERS_MAX
    with pytest.raises(TooManyMembersError):
        run_scan(scan_object(of(MEMBERS_MAX + 1)))


@pytest.mark.behaviour("GW-210")
@pytest.mark.parametrize("before", ["", "[1],", "[[[]]]," * 40, '"' + "[" * 200 + '",'])
def test_scan_refuses_what_is_nested_deeper_than_the_limit(before: str) -> None:
    def of(depth: int) -> bytes:
        return f'{{"a":[{before}{"[" * (depth - 2)}{"]" * (depth - 2)}]}}'.encode()

    assert run_scan(scan_object(of(DEPTH_MAX))).members
    with pytest.raises(TooDeepError):
        run_scan(scan_object(of(DEPTH_MAX + 1)))


@pytest.mark.behaviour("GW-210")
def test_items_of_an_array_are_not_counted_as_members() -> None:
    raw = json.dumps({"input": list(range(5000)), "model": "m"}).encode()
    assert list(run_scan(scan_object(raw)).members) == ["input", "model"]


@pytest.mark.parametrize(("depth", "is_refused"), [(DEPTH_MAX, False), (DEPTH_MAX + 1, True)])
def test_check_refuses_deep_arrays_and_leaves_other_texts_alone(depth: int, is_refused: bool) -> None:
    raw = b"[" * depth + b"]" * depth
    if is_refused:
        with pytest.raises(TooDeepError):
            list(check_shape(raw))
    else:
        list(check_shape(raw))
    list(check_shape(b"name: yaml\n"))
    list(check_shape(b"{not json"))


@settings(max_examples=100, deadline=None)
@given(_objects())
def test_shape_that_counts_as_small_is_within_the_limits(raw: bytes) -> None:
    deep = b'{"a":' + b"[" * 40 + raw + b"]" * 40 + b"}"
    for one in (raw, deep):
        if is_small_shape(one):
            run_scan(scan_object(one))


def test_body_with_a_long_list_of_numbers_is_known_to_be_small_without_a_scan() -> None:
    assert is_small_shape(b'{"model":"m","input":[' + b",".join([b"12"] * 5000) + b"]}")


@pytest.mark.parametrize("opened", [b"[" * 65, b'{"a":' * 65, b'[{"a":' * 33], ids=["arrays", "objects", "both"])
def test_body_that_opens_more_than_64_brackets_is_not_known_to_be_small(opened: bytes) -> None:
    assert not is_small_shape(b'{"model":"m","x":"' + b"-" * 200 + b'","y":' + opened)


def test_body_with_more_than_1000_names_is_not_known_to_be_small() -> None:
    assert not is_small_shape(b"{" + b",".join(b'"%d":1' % one for one in range(1001)) + b"}")
