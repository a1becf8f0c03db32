"""Engines that are away, go away, or send what they should not: told as what it is, and never to the next call."""

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

from corral.adapters.engines import HttpEngines, lines
from corral.ports.engines import EngineLost, EngineRefused
from tests.adapters.engines.hearing import BODY, STREAMED, Listener, ask, send, whole
from tests.bus.nats_server import free_port
from tests.support.engines import (
    JSON_ANSWER,
    STREAM_HEAD,
    WORDS,
    MisbehavingEngine,
    Mode,
    Script,
    Then,
    chunk,
    event,
    json_head,
)
from tests.support.waiting import eventually

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
    with subprocess.Popen([sys.executable, "-c", ENDLESS_ENGINE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, f"127.0.0.1:{int(process.stdout.readline())}"
        process.kill()


async def lost(engines: HttpEngines, engine: MisbehavingEngine, body: bytes = BODY) -> Listener:
    """A call that is lost, after which nothing stays open."""
    listener = await ask(engines, engine.address, body)
    assert type(listener.error) is EngineLost
    assert engine.address in listener.error.message

    async def none_left() -> bool:
        return not engines._connections and engine.open == 0

    await eventually(none_left)
    return listener


@pytest.mark.behaviour("GW-3")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_nobody_at_an_address_is_told_apart_from_everything_else(engines: HttpEngines, host: str) -> None:
    listener = await ask(engines, f"{host}:{free_port()}")
    assert type(listener.error) is EngineRefused
    assert "Nobody listens" in listener.error.message


@pytest.mark.behaviour("GW-3")
@pytest.mark.parametrize(("second", "kind"), [(errno.ECONNREFUSED, EngineRefused), (errno.EHOSTUNREACH, EngineLost)])
def test_a_name_with_several_addresses_is_refused_when_all_of_them_are(second: int, kind: type[Exception]) -> None:
    """In the words of both loops: such an error has no number of its own."""
    causes = f"[Errno {errno.ECONNREFUSED}] Connect call failed, [Errno {second}] Connect call failed"
    assert type(lines._why_not("a:1", OSError(f"Multiple exceptions: {causes}"))) is kind


@pytest.mark.behaviour("GW-3")
@pytest.mark.parametrize("address", ["nothing.invalid:80", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1", "[::1"])
async def test_an_address_that_leads_nowhere_is_an_engine_that_is_lost(engines: HttpEngines, address: str) -> None:
    listener = await ask(engines, address)
    assert type(listener.error) is EngineLost
    assert address in listener.error.message


@pytest.mark.behaviour("GW-3")
async def test_an_engine_that_cannot_be_reached_in_time_is_lost(
    engines: HttpEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CONNECT_TIMEOUT_S", 0.05)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        # Takes the only place there is; whoever comes next is kept waiting.
        with socket.create_connection(address):
            listener = await ask(engines, f"127.0.0.1:{address[1]}")
    assert type(listener.error) is EngineLost
    assert "in time" in listener.error.message


@pytest.mark.behaviour("GW-4")
@pytest.mark.parametrize("way", ["close_idle", "cut"])
async def test_a_kept_connection_that_its_engine_closes_is_forgotten_at_once(
    engines: HttpEngines, engine: MisbehavingEngine, way: str
) -> None:
    await whole(engines, engine.address)
    getattr(engine, way)()

    async def is_forgotten() -> bool:
        return not any(engines._idle.values()) and not engines._connections

    await eventually(is_forgotten)
    await whole(engines, engine.address)
    assert len(engine.heard) == 2


@pytest.mark.behaviour("GW-4")
async def test_an_engine_that_speaks_without_being_asked_loses_its_connection(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    await whole(engines, engine.address)
    (writer,) = engine._writers
    writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")

    async def is_closed() -> bool:
        return not engines._connections

    await eventually(is_closed)
    assert (await whole(engines, engine.address)).status == 200


@pytest.mark.behaviour("GW-4")
@pytest.mark.parametrize("mode", [Mode.CLOSES, Mode.RESETS])
async def test_a_kept_connection_that_closes_in_the_moment_of_a_call_is_replaced_unseen(
    engines: HttpEngines, engine: MisbehavingEngine, mode: Mode
) -> None:
    await whole(engines, engine.address)
    engine.queued = [mode]
    listener = await whole(engines, engine.address, STREAMED)
    assert listener.status == 200
    assert [(heard.body, heard.connection) for heard in engine.heard] == [(BODY, 0), (STREAMED, 0), (STREAMED, 1)]


@pytest.mark.behaviour("GW-4")
@pytest.mark.parametrize("way", ["close", "abort"])
async def test_a_kept_connection_that_is_just_closing_is_replaced_unseen(
    engines: HttpEngines, engine: MisbehavingEngine, way: str
) -> None:
    for number in range(1, 4):
        await whole(engines, engine.address)
        assert engine.connections == number
        (connection,) = engines._connections
        getattr(connection._transport, way)()
    assert len(engine.heard) == 3


@pytest.mark.behaviour("GW-4")
async def test_a_call_is_replaced_once_and_never_after_something_was_heard(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    await whole(engines, engine.address)
    engine.queued = [Mode.CLOSES, Mode.CLOSES]
    await lost(engines, engine)
    assert len(engine.heard) == 3
    await whole(engines, engine.address)
    engine.queued = [Mode.HALF_HEAD]
    await lost(engines, engine)
    assert len(engine.heard) == 5
    engine.queued = [Mode.CLOSES]
    await lost(engines, engine)
    assert len(engine.heard) == 6


@pytest.mark.behaviour("GW-4")
async def test_who_hangs_up_while_a_call_is_replaced_hears_nothing(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    await whole(engines, engine.address)
    engine.queued = [Mode.CLOSES]
    listener = send(engines, engine.address)
    while not len(engines._tasks):
        await asyncio.sleep(0)
    listener.line.hang_up()
    await engines._tasks.join()
    assert not listener.is_over
    assert len(engine.heard) == 2


@pytest.mark.behaviour("GW-5")
@pytest.mark.parametrize("mode", [Mode.CLOSES, Mode.RESETS, Mode.HALF_HEAD])
async def test_an_engine_that_goes_before_it_answers_is_lost(
    engines: HttpEngines, engine: MisbehavingEngine, mode: Mode
) -> None:
    engine.answer = mode
    listener = await lost(engines, engine)
    assert not listener.status
    assert "before it answered" in str(listener.error)


@pytest.mark.behaviour("GW-5")
@pytest.mark.parametrize("mode", [Mode.HALF_CHUNK, Mode.HALF_CHUNK_RESET, Mode.SHORT])
async def test_an_answer_that_breaks_off_is_lost_and_never_ends(
    engines: HttpEngines, engine: MisbehavingEngine, mode: Mode
) -> None:
    engine.answer = mode
    listener = await lost(engines, engine)
    assert listener.status == 200
    assert listener.pieces
    assert "broke off" in str(listener.error)


@pytest.mark.behaviour("GW-5")
async def test_an_answer_without_a_length_whose_connection_is_cut_is_lost(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    engine.answer = Script((b"HTTP/1.1 200 OK\r\n\r\nhello",), Then.SILENCE)
    listener = send(engines, engine.address)
    await listener.until_piece()
    engine.cut()
    await listener.until_over()
    assert type(listener.error) is EngineLost


@pytest.mark.behaviour("GW-5")
async def test_an_engine_that_is_killed_in_the_middle_of_an_answer_is_lost_and_then_refused(
    engines: HttpEngines, endless: tuple[subprocess.Popen[str], str]
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
    "garbage": Script((b"\x16\x03\x01 hello\r\n\r\n",), Then.SILENCE),
    "a status that is no number": Script((b"HTTP/1.1 OK\r\n\r\n",), Then.SILENCE),
    "a status below all others": Script((b"HTTP/1.1 003 OK\r\n\r\nhello",), Then.SILENCE),
    "a version of its own": Script((b"HTTP/7.3 200 OK\r\n\r\n",), Then.SILENCE),
    "a request": Script((b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",), Then.SILENCE),
    "another protocol": Script((b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",)),
    "another protocol without a name": Script((b"HTTP/1.1 101 Switching Protocols\r\n\r\nhello",)),
    "another protocol that is none": Script((b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + json_head(2) + b"{}",)),
    "a length and chunks": Script((json_head(5, more=b"Transfer-Encoding: chunked\r\n") + chunk(b"12345"),)),
    "chunks and a length": Script((CHUNKED_HEAD + b"Content-Length: 5\r\n\r\n" + chunk(b"12345"),)),
    "two lengths": Script((json_head(5, more=b"Content-Length: 6\r\n") + b"123456",)),
    "the same length twice": Script((json_head(5, more=b"Content-Length: 5\r\n") + b"12345",)),
    "chunked twice": Script((CHUNKED_HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b"1"),)),
    "a length that is no number": Script((b"HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\n12345",)),
    "a length below zero": Script((b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n12345",)),
    "a length beyond all numbers": Script((b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n1",)),
    "compressed chunks": Script((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + chunk(b"1"),)),
    "another coding": Script((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n1",)),
    "a blank before a colon": Script((b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n12345",)),
    "a folded line": Script((b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n 0\r\n\r\n12345",)),
    "a zero byte in the head": Script((b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 5\r\n\r\n12345",)),
}


@pytest.mark.behaviour("GW-6")
@pytest.mark.parametrize("script", NOT_HTTP.values(), ids=NOT_HTTP)
async def test_an_answer_that_is_not_http_as_it_should_be_is_not_passed_on(
    engines: HttpEngines, engine: MisbehavingEngine, script: Script
) -> None:
    engine.answer = script
    listener = await lost(engines, engine)
    assert not listener.status
    assert not listener.pieces


@pytest.mark.behaviour("GW-6")
async def test_what_was_wrong_is_said(engines: HttpEngines, engine: MisbehavingEngine) -> None:
    for mode, words in (
        (Mode.SWITCHES, "another protocol"),
        (Mode.GARBAGE, "not HTTP"),
        (Mode.BAD_CHUNK, "chunk size"),
        (Mode.TWO_LENGTHS, "Content-Length"),
    ):
        engine.answer = mode
        assert words in str((await lost(engines, engine)).error)


BROKEN_CHUNKS = {
    "no number": b"many\r\n" + event(WORDS[1]),
    "below zero": b"-5\r\nhello\r\n",
    "beyond all numbers": b"f" * 20 + b"\r\nhello\r\n",
    "longer than it said": b"3\r\nhello\r\n",
    "a number with a prefix": b"0x5\r\nhello\r\n",
    "a line that ends by itself": b"5\nhello\n",
}


@pytest.mark.behaviour("GW-6")
@pytest.mark.parametrize("broken", BROKEN_CHUNKS.values(), ids=BROKEN_CHUNKS)
async def test_a_chunk_that_is_not_one_loses_the_rest_of_its_answer(
    engines: HttpEngines, engine: MisbehavingEngine, broken: bytes
) -> None:
    engine.answer = Script((STREAM_HEAD, chunk(event(WORDS[0])), broken), Then.SILENCE)
    listener = await lost(engines, engine)
    assert listener.pieces[0] == event(WORDS[0])
    assert event(WORDS[1]) not in listener.pieces


@pytest.mark.behaviour("GW-7")
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
async def test_what_is_no_body_has_a_limit_everywhere(
    engines: HttpEngines, engine: MisbehavingEngine, pieces: tuple[bytes, ...]
) -> None:
    engine.answer = Script(pieces, Then.SILENCE)
    listener = await lost(engines, engine)
    assert "64 KiB" in str(listener.error)


@pytest.mark.behaviour("GW-7")
async def test_a_head_below_the_limit_is_heard_whatever_follows_it(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    body = b"x" * 512 * 1024
    engine.answer = Script((json_head(len(body), more=b"X-Line: " + b"x" * 60 * 1024 + b"\r\n") + body,))
    assert (await whole(engines, engine.address)).body == body


SMUGGLED = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled"


@pytest.mark.behaviour("GW-8")
@pytest.mark.parametrize("more", [b"and more", b"H", SMUGGLED, b"\r\n" + SMUGGLED, b"\0"])
async def test_what_follows_an_answer_runs_over_into_no_other(
    engines: HttpEngines, engine: MisbehavingEngine, more: bytes
) -> None:
    body = STREAM_HEAD + chunk(JSON_ANSWER) + chunk(b"")
    engine.queued = [Script((body + more,)), Script((body, more))]
    for number in range(1, 3):
        listener = await whole(engines, engine.address)
        assert listener.body == JSON_ANSWER

        async def is_closed() -> bool:
            return not engines._connections

        await eventually(is_closed)
        assert engine.connections == number
    assert (await whole(engines, engine.address)).body == JSON_ANSWER


@pytest.mark.behaviour("GW-8")
@pytest.mark.parametrize("more", [b"and more", b"H", SMUGGLED, b"\r\n" + SMUGGLED, b"\0"])
async def test_answer_is_lost_when_it_is_longer_than_it_said(
    engines: HttpEngines, engine: MisbehavingEngine, more: bytes
) -> None:
    engine.queued = [Script((json_head(len(JSON_ANSWER)) + JSON_ANSWER + more,))]
    assert "more than it had said" in str((await lost(engines, engine)).error)
    assert (await whole(engines, engine.address)).body == JSON_ANSWER


@pytest.mark.behaviour("GW-6")
async def test_an_error_of_whom_it_is_told_is_reported_and_costs_the_call_only(engine: MisbehavingEngine) -> None:
    class Stumbling(Listener):
        def on_body(self, piece: bytes) -> None:
            raise ZeroDivisionError

    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    engines = HttpEngines()
    listener = send(engines, engine.address, into=Stumbling())
    await listener.until_over()
    assert type(listener.error) is EngineLost
    await whole(engines, engine.address)
    assert engine.connections == 2
    await engines.stop()
    assert [type(context["exception"]) for context in reported] == [ZeroDivisionError]
