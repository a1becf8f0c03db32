"""What fits into the mould of a head is that head with another length, and one whole message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.runtime.mould import HEAD_BYTES_MAX, KNOWN_MAX, Mould, Moulds

HEAD = b"POST / HTTP/1.1\r\nhost: a\r\nContent-Length: %d\r\nx-more: 1\r\n\r\n"


def mould_of(head: bytes) -> Mould[str] | None:
    return Moulds[str]().mould(head, "meant")


def message(size: int, body: bytes | None = None) -> bytes:
    return HEAD % size + (b"x" * size if body is None else body)


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_the_same_head_with_another_length_fits(before: int, now: int) -> None:
    mould = mould_of(HEAD % before)
    assert mould is not None
    assert mould.body(message(now)) == b"x" * now


def test_a_head_with_signs_that_mean_something_to_formats_fits_as_any_other() -> None:
    head = (HEAD % 7).replace(b"host: a", b"host: %d%%b%")
    mould = mould_of(head)
    assert mould is not None
    assert mould.body(head + b"x" * 7) == b"x" * 7


@pytest.mark.parametrize(
    "other",
    [
        message(3, b"xx"),
        message(3, b"xxxx"),
        message(3).replace(b"x-more", b"x-less"),
        message(3).replace(b"host", b"Host"),
        message(3).replace(b"POST", b"GET "),
        message(3).replace(b": 3\r", b": +3\r"),
        message(3).replace(b": 3\r", b": 3 \r"),
        message(3).replace(b": 3\r", b": \r"),
        message(3).replace(b": 3\r", b":  3\r"),
        message(3).replace(b": 3\r", b": 0x3\r"),
        message(3).replace(b": 3\r", b": 3\n\r"),
        message(3).replace(b": 3\r", b": \xb2\r"),
        message(3).replace(b": 3\r", b": 03\r"),
        message(3)[:-4],
        HEAD[:20],
        b"",
    ],
)
def test_nothing_else_fits(other: bytes) -> None:
    mould = mould_of(HEAD % 10)
    assert mould is not None
    assert mould.body(message(3)) == b"xxx"
    assert mould.body(other) is None


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 3\r\nContent-Length: 3\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 3\r\ncontent-length-of-what: 3\r\n\r\n",
        b"POST / HTTP/1.1\r\nx: content-length: 3\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 3, 3\r\n\r\n",
    ],
)
def test_a_head_without_one_plain_length_makes_no_mould(head: bytes) -> None:
    assert mould_of(head) is None


def test_heads_that_differ_in_their_length_share_one_mould_and_others_do_not() -> None:
    moulds: Moulds[str] = Moulds()
    first = moulds.mould(HEAD % 1, "first")
    assert first is not None
    assert moulds.mould(HEAD % 5000, "the same") is first
    assert first.meaning == "first"
    other = moulds.mould((HEAD % 1).replace(b"host: a", b"host: b"), "other")
    assert other is not None
    assert (other.meaning, len(moulds)) == ("other", 2)


def test_nobody_can_fill_the_memory_with_heads() -> None:
    moulds: Moulds[int] = Moulds()
    long = (HEAD % 1).replace(b"host: a", b"host: " + b"a" * HEAD_BYTES_MAX)
    assert moulds.mould(long, 0) is None
    for number in range(3 * KNOWN_MAX):
        assert moulds.mould((HEAD % 1).replace(b"host: a", b"host: %d" % number), number) is not None
        assert len(moulds) <= KNOWN_MAX
