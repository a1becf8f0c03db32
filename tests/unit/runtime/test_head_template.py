"""A response that fits a head template has that head with another length, and is one whole message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.runtime.head_template import HEAD_BYTES_MAX, TEMPLATES_MAX, HeadTemplate, HeadTemplateCache

HEAD = b"POST / HTTP/1.1\r\nhost: a\r\nContent-Length: %d\r\nx-more: 1\r\n\r\n"


def make_template(head: bytes) -> HeadTemplate[str] | None:
    return HeadTemplateCache[str]().find_or_make(head, "meant")


def message(size: int, body: bytes | None = None) -> bytes:
    return HEAD % size + (b"x" * size if body is None else body)


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_template_matches_the_same_head_with_another_length(before: int, now: int) -> None:
    template = make_template(HEAD % before)
    assert template is not None
    assert template.match_body(message(now)) == b"x" * now


def test_head_with_signs_that_mean_something_to_formats_fits_as_any_other() -> None:
    head = (HEAD % 7).replace(b"host: a", b"host: %d%%b%")
    template = make_template(head)
    assert template is not None
    assert template.match_body(head + b"x" * 7) == b"x" * 7


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
def test_template_does_not_match_other_heads(other: bytes) -> None:
    template = make_template(HEAD % 10)
    assert template is not None
    assert template.match_body(message(3)) == b"xxx"
    assert template.match_body(other) is None


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
def test_head_without_one_plain_length_makes_no_template(head: bytes) -> None:
    assert make_template(head) is None


def test_heads_that_differ_in_their_length_share_one_template_and_others_do_not() -> None:
    templates: HeadTemplateCache[str] = HeadTemplateCache()
    first = templates.find_or_make(HEAD % 1, "first")
    assert first is not None
    assert templates.find_or_make(HEAD % 5000, "the same") is first
    assert first.parsed == "first"
    other = templates.find_or_make((HEAD % 1).replace(b"host: a", b"host: b"), "other")
    assert other is not None
    assert (other.parsed, len(templates)) == ("other", 2)


def test_head_templates_are_bounded() -> None:
    templates: HeadTemplateCache[int] = HeadTemplateCache()
    long = (HEAD % 1).replace(b"host: a", b"host: " + b"a" * HEAD_BYTES_MAX)
    assert templates.find_or_make(long, 0) is None
    for number in range(3 * TEMPLATES_MAX):
        assert templates.find_or_make((HEAD % 1).replace(b"host: a", b"host: %d" % number), number) is not None
        assert len(templates) <= TEMPLATES_MAX
