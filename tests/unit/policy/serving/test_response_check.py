"""Whether a 200 can be an answer of its call: what each call expects."""

from __future__ import annotations

import pytest

from corral.policy.serving.response_check import classify_head, find_fault, find_fault_in_head, find_fault_in_stream


def _faults(call: str, content_type: str, body: bytes) -> bool:
    kind = classify_head(((b"content-type", content_type.encode()),) if content_type else ())[2]
    return bool(find_fault_in_head(call, 200, kind, len(body)) or find_fault(call, kind, body))


@pytest.mark.behaviour("GW-213")
@pytest.mark.parametrize(
    ("call", "content_type", "body"),
    [
        ("chat", "application/json", b'{"choices": []}'),
        ("chat", "Application/JSON; charset=utf-8", b' {"choices": []}\n'),
        ("chat", "application/problem+json", b"{}"),
        ("chat", "", b"{}"),
        ("rerank", "application/json", b"[]"),
        ("embeddings", "application/json", b'{"data": []}'),
        ("speech", "audio/mpeg", b"\xff\xfb"),
        ("speech", "application/octet-stream", b"\x00"),
        ("speech", "", b"RIFF"),
        ("transcriptions", "text/plain; charset=utf-8", b"hello"),
        ("transcriptions", "application/x-subrip", b"1"),
        ("transcriptions", "application/json", b'{"text": "hello"}'),
        ("something new", "image/png", b"\x89PNG"),
    ],
)
def test_answer_is_taken_when_its_call_expects_it(call: str, content_type: str, body: bytes) -> None:
    assert not _faults(call, content_type, body)


@pytest.mark.behaviour("GW-213")
@pytest.mark.parametrize(
    ("call", "content_type", "body"),
    [
        ("chat", "audio/wav", b"RIFF"),
        ("chat", "application/octet-stream", b"{}"),
        ("embeddings", "text/event-stream", b"data: {}\n\n"),
        ("chat", "application/json", b"[]"),
        ("chat", "application/json", b'{"choices": ['),
        ("chat", "", b"hello"),
        ("speech", "text/html", b"<p>"),
        ("speech", "audio/wav", b""),
        ("transcriptions", "text/html", b"<p>"),
    ],
)
def test_answer_is_refused_when_its_call_expects_another(call: str, content_type: str, body: bytes) -> None:
    assert _faults(call, content_type, body)


@pytest.mark.parametrize(
    "first", [b"data: {}", b": ping", b"event: x", b"id: 1", b"retry: 5", b"\n", b"\xef\xbb\xbfdata"]
)
def test_stream_is_taken_when_it_begins_like_one(first: bytes) -> None:
    assert not find_fault_in_stream(classify_head(((b"content-type", b"text/event-stream"),))[2], first)
