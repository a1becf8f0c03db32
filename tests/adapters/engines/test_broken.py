"""Engines that are unreachable, disconnect or send invalid data: their call fails, and the next one does not."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from corral.adapters.engines import HttpEngineClient, client
from corral.ports.requests import EngineLost, EngineRefused
from tests.adapters.engines.recording_handler import BODY, STREAMED, Listener, ask, send, whole
from tests.support.children import start_child
from tests.support.engines import (
    JSON_ANSWER,
    STREAM_HEAD,
    WORDS,
    AfterResponse,
    EngineBehaviour,
    MisbehavingEngine,
    ResponseScript,
    encode_chunk,
    encode_event,
    make_json_head,
)
from tests.support.polling import eventually
from tests.support.ports import find_free_port

# Sends events until it is killed.
ENDLESS_ENGINE = """
import socket, sys
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
while True:
    accepted, _ = listening.accept()
    accepted.recv(65536)
    accepted.sendall(b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
    while True:
        accepted.sendall(b"8\\r\\ndata: x\\n\\r\\n")
"""


@pytest.fixture
def endless() -> Iterator[tuple[subprocess.Popen[str], str]]:
    with start_child([sys.executable, "-c", ENDLESS_ENGINE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, f"127.0.0.1:{int(process.stdout.readline())}"
        process.kill()


async def lost(engines: HttpEngineClient, engine: MisbehavingEngine, body: bytes = BODY) -> Listener:
    """A call that is lost, after which nothing stays open."""
    listener = await ask(engines, engine.address, body)
    assert type(listener.error) is EngineLost
    assert engine.address in listener.error.message

    async def none_left() -> bool:
        return not engines._connections and engine.open == 0

    await eventually(none_left)
    return listener


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_engine_call_fails_as_refused_when_nothing_listens_at_the_address(
    engines: HttpEngineClient, host: str
) -> None:
    listener = await ask(engines, f"{host}:{find_free_port()}")
    assert type(listener.error) is EngineRefused
    assert "No engine is listening" in listener.error.message


@pytest.mark.parametrize(("second", "kind"), [(errno.ECONNREFUSED, EngineRefused), (errno.EHOSTUNREACH, EngineLost)])
def test_name_with_several_addresses_is_refused_when_all_of_them_are(second: int, kind: type[Exception]) -> None:
    """In the words of both loops: such an error has no number of its own."""
    causes = f"[Errno {errno.ECONNREFUSED}] Connect call failed, [Errno {second}] Connect call failed"
    assert type(client._make_connect_error("a:1", OSError(f"Multiple exceptions: {causes}"))) is kind


@pytest.mark.parametrize("address", ["nothing.invalid:80", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1", "[::1"])
async def test_address_that_leads_nowhere_is_an_engine_that_is_lost(engines: HttpEngineClient, address: str) -> None:
    listener = await ask(engines, address)
    assert type(listener.error) is EngineLost
    assert address in listener.error.message


async def test_engine_that_cannot_be_reached_in_time_is_lost(
    engines: HttpEngineClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_S", 0.05)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        # Takes the only place there is; whoever comes next is kept waiting.
        with socket.create_connection(address):
            listener = await ask(engines, f"127.0.0.1:{address[1]}")
    assert type(listener.error) is EngineLost
    assert "in time" in listener.error.message


@pytest.mark.parametrize("way", ["close_idle", "cut"])
async def test_kept_connection_that_its_engine_closes_is_forgotten_at_once(
    engines: HttpEngineClient, engine: MisbehavingEngine, way: str
) -> None:
    await whole(engines, engine.address)
    getattr(engine, way)()

    async def is_forgotten() -> bool:
        return not any(engines._idle.values()) and not engines._connections

    await eventually(is_forgotten)
    await whole(engines, engine.address)
    assert len(engine.received) == 2


async def test_engine_connection_is_closed_when_the_engine_sends_unrequested_data(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    await whole(engines, engine.address)
    (writer,) = engine._writers
    writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")

    async def is_closed() -> bool:
        return not engines._connections

    await eventually(is_closed)
    assert (await whole(engines, engine.address)).status == 200


@pytest.mark.parametrize("mode", [EngineBehaviour.CLOSES, EngineBehaviour.RESETS])
async def test_kept_connection_that_closes_in_the_moment_of_a_call_is_replaced_unseen(
    engines: HttpEngineClient, engine: MisbehavingEngine, mode: EngineBehaviour
) -> None:
    await whole(engines, engine.address)
    engine.queued = [mode]
    listener = await whole(engines, engine.address, STREAMED)
    assert listener.status == 200
    assert [(received.body, received.connection) for received in engine.received] == [
        (BODY, 0),
        (STREAMED, 0),
        (STREAMED, 1),
    ]


@pytest.mark.parametrize("way", ["close", "abort"])
async def test_kept_connection_that_is_just_closing_is_replaced_unseen(
    engines: HttpEngineClient, engine: MisbehavingEngine, way: str
) -> None:
    for number in range(1, 4):
        await whole(engines, engine.address)
        assert engine.connections == number
        (connection,) = engines._connections
        getattr(connection._transport, way)()
    assert len(engine.received) == 3


async def test_engine_call_is_retried_once_on_a_new_connection_and_never_after_the_response_began(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    await whole(engines, engine.address)
    engine.queued = [EngineBehaviour.CLOSES, EngineBehaviour.CLOSES]
    await lost(engines, engine)
    assert len(engine.received) == 3
    await whole(engines, engine.address)
    engine.queued = [EngineBehaviour.HALF_HEAD]
    await lost(engines, engine)
    assert len(engine.received) == 5
    engine.queued = [EngineBehaviour.CLOSES]
    await lost(engines, engine)
    assert len(engine.received) == 6


async def test_aborted_call_gets_no_callback_while_its_connection_is_replaced(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    await whole(engines, engine.address)
    engine.queued = [EngineBehaviour.CLOSES]
    listener = send(engines, engine.address)
    while not len(engines._tasks):
        await asyncio.sleep(0)
    listener.line.abort()
    await engines._tasks.join()
    assert not listener.is_over
    assert len(engine.received) == 2


@pytest.mark.parametrize("mode", [EngineBehaviour.CLOSES, EngineBehaviour.RESETS, EngineBehaviour.HALF_HEAD])
async def test_engine_that_goes_before_it_answers_is_lost(
    engines: HttpEngineClient, engine: MisbehavingEngine, mode: EngineBehaviour
) -> None:
    engine.answer = mode
    listener = await lost(engines, engine)
    assert not listener.status
    assert "before it responded" in str(listener.error)


@pytest.mark.parametrize("mode", [EngineBehaviour.HALF_CHUNK, EngineBehaviour.HALF_CHUNK_RESET, EngineBehaviour.SHORT])
async def test_answer_that_breaks_off_is_lost_and_never_ends(
    engines: HttpEngineClient, engine: MisbehavingEngine, mode: EngineBehaviour
) -> None:
    engine.answer = mode
    listener = await lost(engines, engine)
    assert listener.status == 200
    assert listener.pieces
    assert "broke off" in str(listener.error)


async def test_answer_without_a_length_whose_connection_is_cut_is_lost(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    engine.answer = ResponseScript((b"HTTP/1.1 200 OK\r\n\r\nhello",), AfterResponse.SILENCE)
    listener = send(engines, engine.address)
    await listener.until_piece()
    engine.cut()
    await listener.until_over()
    assert type(listener.error) is EngineLost


async def test_engine_that_is_killed_in_the_middle_of_an_answer_is_lost_and_then_refused(
    engines: HttpEngineClient, endless: tuple[subprocess.Popen[str], str]
) -> None:
    process, address = endless
    listener = send(engines, address)
    await listener.until_piece(100)
    process.send_signal(signal.SIGKILL)
    await listener.until_over()
    assert type(listener.error) is EngineLost
    assert "broke off" in listener.error.message
    await asyncio.to_thread(process.wait)
    assert type((await ask(engines, address)).error) is EngineRefused


CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
NOT_HTTP = {
    "garbage": ResponseScript((b"\x16\x03\x01 hello\r\n\r\n",), AfterResponse.SILENCE),
    "a status that is no number": ResponseScript((b"HTTP/1.1 OK\r\n\r\n",), AfterResponse.SILENCE),
    "a status below all others": ResponseScript((b"HTTP/1.1 003 OK\r\n\r\nhello",), AfterResponse.SILENCE),
    "a version of its own": ResponseScript((b"HTTP/7.3 200 OK\r\n\r\n",), AfterResponse.SILENCE),
    "a request": ResponseScript((b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",), AfterResponse.SILENCE),
    "another protocol": ResponseScript(
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",)
    ),
    "another protocol without a name": ResponseScript((b"HTTP/1.1 101 Switching Protocols\r\n\r\nhello",)),
    "another protocol that is none": ResponseScript(
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + make_json_head(2) + b"{}",)
    ),
    "a length and chunks": ResponseScript(
        (make_json_head(5, more=b"Transfer-Encoding: chunked\r\n") + encode_chunk(b"12345"),)
    ),
    "chunks and a length": ResponseScript((CHUNKED_HEAD + b"Content-Length: 5\r\n\r\n" + encode_chunk(b"12345"),)),
    "two lengths": ResponseScript((make_json_head(5, more=b"Content-Length: 6\r\n") + b"123456",)),
    "the same length twice": ResponseScript((make_json_head(5, more=b"Content-Length: 5\r\n") + b"12345",)),
    "chunked twice": ResponseScript((CHUNKED_HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + encode_chunk(b"1"),)),
    "a length that is no number": ResponseScript((b"HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\n12345",)),
    "a length below zero": ResponseScript((b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n12345",)),
    "a length beyond all numbers": ResponseScript((b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n1",)),
    "compressed chunks": ResponseScript(
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + encode_chunk(b"1"),)
    ),
    "another coding": ResponseScript((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n1",)),
    "a blank before a colon": ResponseScript((b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n12345",)),
    "a folded line": ResponseScript((b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n 0\r\n\r\n12345",)),
    "a zero byte in the head": ResponseScript((b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 5\r\n\r\n12345",)),
}


@pytest.mark.parametrize("script", NOT_HTTP.values(), ids=NOT_HTTP)
async def test_answer_that_is_not_http_as_it_should_be_is_not_passed_on(
    engines: HttpEngineClient, engine: MisbehavingEngine, script: ResponseScript
) -> None:
    engine.answer = script
    listener = await lost(engines, engine)
    assert not listener.status
    assert not listener.pieces


async def test_malformed_response_error_names_the_fault(engines: HttpEngineClient, engine: MisbehavingEngine) -> None:
    for mode, words in (
        (EngineBehaviour.SWITCHES, "another protocol"),
        (EngineBehaviour.GARBAGE, "not HTTP"),
        (EngineBehaviour.BAD_CHUNK, "chunk size"),
        (EngineBehaviour.TWO_LENGTHS, "Content-Length"),
    ):
        engine.answer = mode
        assert words in str((await lost(engines, engine)).error)


BROKEN_CHUNKS = {
    "no number": b"many\r\n" + encode_event(WORDS[1]),
    "below zero": b"-5\r\nhello\r\n",
    "beyond all numbers": b"f" * 20 + b"\r\nhello\r\n",
    "longer than it said": b"3\r\nhello\r\n",
    "a number with a prefix": b"0x5\r\nhello\r\n",
    "a line that ends by itself": b"5\nhello\n",
}


@pytest.mark.parametrize("broken", BROKEN_CHUNKS.values(), ids=BROKEN_CHUNKS)
async def test_chunk_that_is_not_one_loses_the_rest_of_its_answer(
    engines: HttpEngineClient, engine: MisbehavingEngine, broken: bytes
) -> None:
    engine.answer = ResponseScript((STREAM_HEAD, encode_chunk(encode_event(WORDS[0])), broken), AfterResponse.SILENCE)
    listener = await lost(engines, engine)
    assert listener.pieces[0] == encode_event(WORDS[0])
    assert encode_event(WORDS[1]) not in listener.pieces


@pytest.mark.parametrize(
    "pieces",
    [
        (b"HTTP/1.1 200 OK\r\n", *(b"X-Line: " + b"x" * 1014 + b"\r\n",) * 128),
        (b"HTTP/1.1 200 OK\r\nX-Line: ", *(b"x" * 1024,) * 128),
        (b"HTTP/1.1 200 OK\r\nX-Line: " + b"x" * 128 * 1024 + b"\r\n\r\n",),
        (b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n",) * 4096,
        (STREAM_HEAD, b"1\r\nx\r\n1;", *(b"x" * 1024,) * 128),
        (STREAM_HEAD, b"1\r\nx\r\n0\r\nX-Last: ", *(b"x" * 1024,) * 128),
        (b"\r\n" * 64 * 1024,),
    ],
    ids=["lines", "one line", "at once", "interim answers", "an extension", "last lines", "empty lines"],
)
async def test_response_parts_besides_the_body_are_limited(
    engines: HttpEngineClient, engine: MisbehavingEngine, pieces: tuple[bytes, ...]
) -> None:
    engine.answer = ResponseScript(pieces, AfterResponse.SILENCE)
    listener = await lost(engines, engine)
    assert "64 KiB" in str(listener.error)


async def test_response_head_below_the_size_limit_is_accepted_with_a_large_body_behind_it(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    body = b"x" * 512 * 1024
    engine.answer = ResponseScript((make_json_head(len(body), more=b"X-Line: " + b"x" * 60 * 1024 + b"\r\n") + body,))
    assert (await whole(engines, engine.address)).body == body


SMUGGLED = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled"


@pytest.mark.parametrize("more", [b"and more", b"H", SMUGGLED, b"\r\n" + SMUGGLED, b"\0"])
async def test_bytes_after_a_response_do_not_reach_the_next_call(
    engines: HttpEngineClient, engine: MisbehavingEngine, more: bytes
) -> None:
    body = STREAM_HEAD + encode_chunk(JSON_ANSWER) + encode_chunk(b"")
    engine.queued = [ResponseScript((body + more,)), ResponseScript((body, more))]
    for number in range(1, 3):
        listener = await whole(engines, engine.address)
        assert listener.body == JSON_ANSWER

        async def is_closed() -> bool:
            return not engines._connections

        await eventually(is_closed)
        assert engine.connections == number
    assert (await whole(engines, engine.address)).body == JSON_ANSWER


@pytest.mark.parametrize("more", [b"and more", b"H", SMUGGLED, b"\r\n" + SMUGGLED, b"\0"])
async def test_response_longer_than_its_content_length_is_lost(
    engines: HttpEngineClient, engine: MisbehavingEngine, more: bytes
) -> None:
    engine.queued = [ResponseScript((make_json_head(len(JSON_ANSWER)) + JSON_ANSWER + more,))]
    assert "more than the announced length" in str((await lost(engines, engine)).error)
    assert (await whole(engines, engine.address)).body == JSON_ANSWER


async def test_error_raised_by_a_response_handler_is_reported_and_fails_its_own_call_only(
    engine: MisbehavingEngine,
) -> None:
    class FailingListener(Listener):
        def on_body(self, piece: bytes) -> None:
            raise ZeroDivisionError

    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    engines = HttpEngineClient()
    listener = send(engines, engine.address, into=FailingListener())
    await listener.until_over()
    assert type(listener.error) is EngineLost
    await whole(engines, engine.address)
    assert engine.connections == 2
    await engines.stop()
    assert [type(context["exception"]) for context in reported] == [ZeroDivisionError]
