"""Calls that go well: what goes out, what is heard, and which connections carry it."""

from __future__ import annotations

import asyncio
import socket

import pytest

from corral.adapters.engines import HttpEngines, lines
from corral.adapters.engines.line import HttpLine
from corral.adapters.engines.lines import IDLE_MAX
from corral.ports.engines import EngineLost
from tests.adapters.engines.hearing import BODY, PATH, STREAMED, Listener, send, whole
from tests.bus.nats_server import free_port
from tests.support.engines import (
    DONE,
    JSON_ANSWER,
    WORDS,
    MisbehavingEngine,
    Mode,
    Script,
    Then,
    event,
    json_head,
    misbehaving,
)
from tests.support.waiting import eventually

MIB = 1024 * 1024


async def many_turns() -> None:
    """The loop has looked at its sockets often enough for anything that could be read."""
    for _ in range(200):
        await asyncio.sleep(0)


async def all_closed(engine: MisbehavingEngine) -> None:
    async def none_open() -> bool:
        return engine.open == 0

    await eventually(none_open)


async def come_and_gone(engine: MisbehavingEngine) -> None:
    async def once() -> bool:
        return engine.connections == 1 and engine.open == 0

    await eventually(once)


@pytest.mark.behaviour("GW-1")
async def test_a_call_goes_out_as_it_is_with_the_key_of_its_engine_and_no_compression(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    listener = await whole(engines, engine.address, engine_key="the-key", headers=((b"x-request-id", b"r-1"),))
    (heard,) = engine.heard
    assert heard.line == f"POST {PATH} HTTP/1.1"
    assert heard.body == BODY
    assert heard.headers == {
        "host": engine.address,
        "accept-encoding": "identity",
        "authorization": "Bearer the-key",
        "content-type": "application/json",
        "x-request-id": "r-1",
        "content-length": str(len(BODY)),
    }
    assert (listener.status, listener.body) == (200, JSON_ANSWER)
    await whole(engines, engine.address, content_type="multipart/form-data; boundary=x y")
    assert engine.heard[1].headers["content-type"] == "multipart/form-data; boundary=x y"
    assert "authorization" not in engine.heard[1].headers


@pytest.mark.behaviour("GW-1")
async def test_calls_one_after_the_other_use_one_connection_and_start_no_task(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    await whole(engines, engine.address)
    for body in (BODY, STREAMED, BODY):
        listener = send(engines, engine.address, body)
        assert len(engines._tasks) == 0
        await listener.until_over()
    assert engine.connections == 1
    (connection,) = engines._connections
    assert connection._transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.behaviour("GW-16")
async def test_the_kernel_asks_a_silent_engine_for_signs_of_life(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    await whole(engines, engine.address)
    (connection,) = engines._connections
    plugged = connection._transport.get_extra_info("socket")
    assert plugged.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    silent, apart, times = (
        plugged.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
    )
    assert silent + apart * times <= 30


@pytest.mark.behaviour("GW-1")
async def test_what_a_hearer_asks_for_at_the_end_of_an_answer_goes_by_the_same_connection(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    second = Listener()

    class Asking(Listener):
        def on_end(self) -> None:
            super().on_end()
            send(engines, engine.address, into=second)

    send(engines, engine.address, into=Asking())
    await second.until_over()
    assert (second.status, engine.connections) == (200, 1)


@pytest.mark.behaviour("GW-1")
async def test_calls_at_the_same_time_have_connections_of_their_own(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    listeners = [send(engines, engine.address, STREAMED) for _ in range(5)]
    for listener in listeners:
        await listener.until_over()
        assert listener.body == b"".join(map(event, WORDS)) + DONE
    assert engine.connections == 5


@pytest.mark.behaviour("GW-2")
async def test_pieces_are_heard_as_they_come(engines: HttpEngines, engine: MisbehavingEngine) -> None:
    engine.answer = Mode.STALLS
    listener = send(engines, engine.address, STREAMED)
    await listener.until_piece()
    assert listener.pieces == [event(WORDS[0])]
    assert listener.headers == {b"content-type": b"text/event-stream"}
    assert not listener.is_over


@pytest.mark.behaviour("GW-1")
async def test_a_body_is_let_go_of_when_its_answer_begins(engines: HttpEngines, engine: MisbehavingEngine) -> None:
    engine.answer = Mode.STALLS
    listener = send(engines, engine.address, STREAMED)
    assert isinstance(listener.line, HttpLine)
    assert listener.line.body == STREAMED
    await listener.until_piece()
    assert not listener.line.body


@pytest.mark.behaviour("GW-2")
async def test_interim_answers_and_lines_for_one_connection_only_are_not_heard(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    interim = b"HTTP/1.1 102 Processing\r\nX-Early: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n"
    own = b"Keep-Alive: timeout=5\r\nConnection: Keep-Alive, X-Own\r\nX-OWN: 1\r\nTrailer: X-Late\r\nX-Kept: 2\r\n"
    engine.answer = Script((interim, json_head(2, more=own) + b"{}"))
    listener = await whole(engines, engine.address)
    assert listener.headers == {b"content-type": b"application/json", b"x-kept": b"2"}
    assert listener.size_bytes == 2
    assert listener.body == b"{}"
    await whole(engines, engine.address)
    assert engine.connections == 1


@pytest.mark.behaviour("GW-2")
@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n",
    ],
)
async def test_an_answer_without_a_length_ends_with_its_connection(
    engines: HttpEngines, engine: MisbehavingEngine, head: bytes
) -> None:
    engine.answer = Script((head, b"one ", b"two"), Then.CLOSE)
    for _ in range(2):
        listener = await whole(engines, engine.address)
        assert (listener.status, listener.body) == (200, b"one two")
    assert engine.connections == 2


@pytest.mark.behaviour("GW-2")
@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_without_a_body_ends_with_its_head(
    engines: HttpEngines, engine: MisbehavingEngine, status: str
) -> None:
    engine.answer = Script((f"HTTP/1.1 {status}\r\n\r\n".encode(),))
    for _ in range(2):
        assert (await whole(engines, engine.address)).pieces == []
    assert engine.connections == 1


@pytest.mark.behaviour("GW-2")
async def test_a_connection_that_its_engine_wants_closed_is_not_kept(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    engine.answer = Script((json_head(2, more=b"Connection: close\r\n") + b"{}",))
    for _ in range(2):
        await whole(engines, engine.address)
    assert engine.connections == 2
    await all_closed(engine)


@pytest.mark.behaviour("GW-1")
async def test_an_address_of_ip_version_6_is_called(engines: HttpEngines) -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    async with misbehaving(host="::1") as engine:
        await whole(engines, engine.address)
        assert engine.heard[0].headers["host"] == engine.address
        assert engine.address.startswith("[::1]:")


@pytest.mark.behaviour("GW-9")
async def test_a_paused_line_reads_no_more_and_loses_nothing(engines: HttpEngines, engine: MisbehavingEngine) -> None:
    sent = bytes(range(256)) * 4096 * 32
    engine.answer = Script((json_head(len(sent)), *(sent[at : at + MIB] for at in range(0, len(sent), MIB))))
    listener = send(engines, engine.address)
    await listener.until_piece()
    for _ in range(3):
        listener.line.pause()
        listener.line.pause()
        heard = len(listener.pieces)
        await many_turns()
        assert len(listener.pieces) == heard
        assert not listener.is_over
        listener.line.resume()
        listener.line.resume()
        await listener.until_piece(heard + 1)
    await listener.until_over()
    assert listener.body == sent


@pytest.mark.behaviour("GW-9")
async def test_a_line_can_be_paused_before_it_is_connected(engines: HttpEngines, engine: MisbehavingEngine) -> None:
    listener = send(engines, engine.address)
    listener.line.pause()

    async def is_heard() -> bool:
        return bool(engine.heard)

    await eventually(is_heard)
    await many_turns()
    assert not listener.status
    listener.line.resume()
    await listener.until_over()
    assert listener.body == JSON_ANSWER


@pytest.mark.behaviour("GW-9")
async def test_a_pause_that_nobody_takes_back_does_not_hold_up_the_next_call(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    class Pausing(Listener):
        def on_body(self, piece: bytes) -> None:
            super().on_body(piece)
            self.line.pause()

    first = send(engines, engine.address, into=Pausing())
    await first.until_over()
    await whole(engines, engine.address)
    first.line.resume()
    assert engine.connections == 1


@pytest.mark.behaviour("GW-10")
@pytest.mark.parametrize("mode", [Mode.SILENT, Mode.STALLS])
async def test_hanging_up_closes_the_connection_and_nothing_is_heard_afterwards(
    engines: HttpEngines, engine: MisbehavingEngine, mode: Mode
) -> None:
    engine.answer = mode
    listener = send(engines, engine.address, STREAMED)

    async def is_under_way() -> bool:
        return bool(engine.heard) and bool(listener.pieces) is (mode is Mode.STALLS)

    await eventually(is_under_way)
    listener.line.hang_up()
    listener.line.hang_up()
    await all_closed(engine)
    listener.line.pause()
    listener.line.resume()
    assert not listener.is_over
    engine.answer = Mode.FINE
    await whole(engines, engine.address)


@pytest.mark.behaviour("GW-10")
async def test_hanging_up_before_it_is_connected_makes_no_call(engines: HttpEngines, engine: MisbehavingEngine) -> None:
    listener = send(engines, engine.address)
    listener.line.hang_up()
    await come_and_gone(engine)
    assert not engine.heard
    assert not listener.is_over


@pytest.mark.behaviour("GW-10")
async def test_who_has_hung_up_does_not_hear_that_nobody_listens(engines: HttpEngines) -> None:
    listener = send(engines, f"127.0.0.1:{free_port()}")
    listener.line.hang_up()
    await engines._tasks.join()
    assert not listener.is_over


@pytest.mark.behaviour("GW-10")
async def test_hanging_up_after_the_end_does_not_touch_the_next_call_of_the_connection(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    first = await whole(engines, engine.address)
    second = send(engines, engine.address, STREAMED)
    first.line.hang_up()
    first.line.pause()
    await second.until_over()
    assert second.error is None
    assert engine.connections == 1


@pytest.mark.behaviour("GW-10")
async def test_hanging_up_in_the_middle_of_what_was_read_silences_the_rest_of_it(
    engines: HttpEngines, engine: MisbehavingEngine
) -> None:
    class Leaving(Listener):
        def on_head(self, status: int, head, size_bytes) -> None:
            super().on_head(status, head, size_bytes)
            self.line.hang_up()

    listener = send(engines, engine.address, into=Leaving())
    await come_and_gone(engine)
    assert listener.status == 200
    assert not listener.pieces
    assert not listener.is_over


@pytest.mark.behaviour("GW-13")
async def test_idle_connections_are_few_and_do_not_last(engines: HttpEngines, engine: MisbehavingEngine) -> None:
    listeners = [send(engines, engine.address) for _ in range(IDLE_MAX + 6)]
    for listener in listeners:
        await listener.until_over()
        assert listener.error is None

    async def at_most() -> bool:
        return engine.open == IDLE_MAX

    await eventually(at_most)
    engines.sweep()
    await whole(engines, engine.address)
    assert engine.connections == IDLE_MAX + 6
    engines.sweep()

    async def only_the_used_one() -> bool:
        return engine.open == 1

    await eventually(only_the_used_one)
    await whole(engines, engine.address)
    assert engine.connections == IDLE_MAX + 6
    engines.sweep()
    engines.sweep()
    await all_closed(engine)
    assert engines._sweeping is None


@pytest.mark.behaviour("GW-13")
async def test_idle_connections_are_swept_by_themselves(
    engines: HttpEngines, engine: MisbehavingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "SWEEP_S", 0.01)
    await whole(engines, engine.address)
    await all_closed(engine)


@pytest.mark.behaviour("GW-14")
async def test_stopping_loses_what_is_under_way_and_leaves_nothing_open(engine: MisbehavingEngine) -> None:
    engines = HttpEngines()
    engine.queued = [Mode.UNTIL_CLOSE, Mode.FINE]
    for _ in range(2):
        await whole(engines, engine.address)
    engine.answer = Mode.SILENT
    kept = send(engines, engine.address)
    new = send(engines, engine.address)

    async def both_are_heard() -> bool:
        return len(engine.heard) == 4

    await eventually(both_are_heard)
    connecting = send(engines, engine.address)
    await asyncio.sleep(0)
    just_begun = send(engines, engine.address)
    await engines.stop()
    assert not engines._connections
    late = send(engines, engine.address)
    for listener in (kept, new, connecting, just_begun, late):
        await listener.until_over()
        assert isinstance(listener.error, EngineLost)
        assert "this frontend is stopping" in listener.error.message.lower()
    await all_closed(engine)


@pytest.mark.behaviour("GW-1")
async def test_a_prompt_of_ten_megabytes_goes_out_whole(engines: HttpEngines, engine: MisbehavingEngine) -> None:
    await whole(engines, engine.address, b"p" * 10 * MIB)
    assert engine.heard[0].body == b"p" * 10 * MIB
    await whole(engines, engine.address)
    assert engine.connections == 1
