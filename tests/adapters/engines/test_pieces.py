"""Bodies that come in pieces: never more than was said, no faster than the engine takes them, and never twice."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from corral.adapters.engines import HttpEngineClient
from corral.domain.errors import InvalidRequest
from corral.ports.requests import EngineLost
from tests.adapters.engines.recording_handler import PATH, Call, Listener, ask, send, whole
from tests.support.engines import AfterResponse, EngineBehaviour, MisbehavingEngine, ResponseScript
from tests.support.polling import eventually

KIB = 1024
MIB = 1024 * KIB


async def come_and_gone(engine: MisbehavingEngine) -> None:
    async def once() -> bool:
        return engine.connections == 1 and engine.open == 0

    await eventually(once)


async def test_body_in_pieces_arrives_as_one(engines: HttpEngineClient, engine: MisbehavingEngine) -> None:
    listener = send(engines, engine.address, b"one ", size_bytes=13, content_type="audio/wav")
    # Before there is a connection.
    listener.line.write(b"two ")
    await listener.until_writable(True)
    assert listener.writable == [False, True]
    listener.line.write(b"three", is_last=True)
    await listener.until_over()
    assert listener.error is None
    (received,) = engine.received
    assert received.line == f"POST {PATH} HTTP/1.1"
    assert received.body == b"one two three"
    assert (received.headers["content-type"], received.headers["content-length"]) == ("audio/wav", "13")
    await whole(engines, engine.address)
    assert engine.connections == 1


async def test_body_that_is_whole_from_the_beginning_needs_no_piece(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    listener = await whole(engines, engine.address, b"12345", size_bytes=5)
    assert listener.status == 200
    assert engine.received[0].body == b"12345"


async def test_large_body_waits_for_the_engine(engines: HttpEngineClient, engine: MisbehavingEngine) -> None:
    """100 MB, of which no more than a few pieces ever lie here."""
    piece, pieces = b"p" * 256 * KIB, 400
    listener = send(engines, engine.address, b"", size_bytes=len(piece) * pieces)
    for number in range(1, pieces + 1):
        await listener.until_writable(True)
        listener.line.write(piece, is_last=number == pieces)
        (connection,) = engines._connections
        assert connection._transport.get_write_buffer_size() <= len(piece) + 64 * KIB
    await listener.until_over()
    assert listener.error is None
    assert listener.writable.count(False) > 2
    assert engine.received[0].body == piece * pieces


async def test_engine_that_reads_nothing_is_sent_no_more(engines: HttpEngineClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        body = b"p" * 64 * MIB
        listener = send(engines, f"127.0.0.1:{deaf.getsockname()[1]}", body, size_bytes=len(body) + 1)

        async def is_full() -> bool:
            return len(listener.writable) > 1

        await eventually(is_full)
        assert not any(listener.writable)
        listener.line.abort()


async def test_upload_never_sends_more_than_its_declared_size(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    listener = send(engines, engine.address, b"12", size_bytes=5)
    await listener.until_writable(True)
    with pytest.raises(AssertionError):
        listener.line.write(b"3456")
    listener.line.abort()
    await come_and_gone(engine)
    assert not engine.received


async def test_upload_shorter_than_its_declared_size_closes_the_connection(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    listener = send(engines, engine.address, b"12", size_bytes=5)
    await listener.until_writable(True)
    listener.line.write(b"3", is_last=True)
    await come_and_gone(engine)
    assert not listener.is_over
    assert not engine.received


async def test_body_in_pieces_is_sent_once_also_when_a_kept_connection_could_be_used(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    await whole(engines, engine.address)
    engine.queued = [EngineBehaviour.CLOSES]
    listener = await ask(engines, engine.address, b"12345", size_bytes=5)
    assert type(listener.error) is EngineLost
    assert [received.connection for received in engine.received] == [0, 1]


async def test_engine_response_is_delivered_when_it_comes_before_the_body_was_sent(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    engine.answer = EngineBehaviour.TOO_LARGE
    listener = send(engines, engine.address, b"", size_bytes=100 * MIB)
    await listener.until_over()
    assert (listener.status, listener.error) == (413, None)
    await come_and_gone(engine)
    # What its client still sends goes nowhere.
    listener.line.write(b"p" * MIB)
    assert not engines._connections


async def test_early_answer_on_a_connection_that_would_be_kept_closes_it(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    early = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    engine.answer = ResponseScript((early,), AfterResponse.SILENCE, reads_body=False)
    listener = send(engines, engine.address, b"12", size_bytes=5)
    await listener.until_over()
    assert (listener.status, listener.error) == (401, None)
    await come_and_gone(engine)


async def test_engine_response_is_delivered_when_it_overtakes_a_whole_body(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    engine.answer = ResponseScript(
        (b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n",), AfterResponse.SILENCE, reads_body=False
    )
    listener = await ask(engines, engine.address, b"p" * 64 * MIB)
    assert (listener.status, listener.error) == (413, None)
    await come_and_gone(engine)


async def test_hanging_up_while_pieces_are_on_their_way_is_seen_by_the_engine(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    listener = send(engines, engine.address, b"12", size_bytes=5)
    listener.line.abort()
    await come_and_gone(engine)
    assert listener.writable == []
    other = send(engines, engine.address, b"12", size_bytes=5)
    await other.until_writable(True)
    other.line.abort()
    other.line.write(b"345", is_last=True)

    async def none_open() -> bool:
        return engine.open == 0

    await eventually(none_open)
    assert not engine.received


@pytest.mark.parametrize("wrong", ["a\r\nb: c", "", "ü", " x", "a\0"])
async def test_no_part_of_a_call_can_begin_a_line_of_its_own(engines: HttpEngineClient, wrong: str) -> None:
    for part, error in (("content_type", InvalidRequest), ("path", ValueError), ("address", ValueError)):
        call: dict[str, Any] = {"address": "127.0.0.1:1", "path": PATH, "body": b"", part: wrong}
        with pytest.raises(error):
            engines.send(Call(**call), Call(**call), Listener())
    if wrong:
        with pytest.raises(ValueError, match="characters"):
            send(engines, "127.0.0.1:1", engine_key=wrong)
