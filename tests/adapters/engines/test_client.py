"""Successful calls: the bytes sent, the callbacks received, and which connections carry them."""

from __future__ import annotations

import asyncio
import socket

import pytest

from corral.adapters.engines import HttpEngineClient, client
from corral.adapters.engines.client import IDLE_MAX
from corral.adapters.engines.connection import HttpCallHandle
from corral.ports.requests import EngineLost
from tests.adapters.engines.recording_handler import BODY, PATH, STREAMED, Listener, send, whole
from tests.support.engines import (
    DONE,
    JSON_ANSWER,
    WORDS,
    AfterResponse,
    EngineBehaviour,
    MisbehavingEngine,
    ResponseScript,
    encode_event,
    make_json_head,
    run_misbehaving_engine,
)
from tests.support.polling import eventually
from tests.support.ports import find_free_port

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


async def test_call_goes_out_as_it_is_with_the_key_of_its_engine_and_no_compression(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    listener = await whole(engines, engine.address, engine_key="the-key", headers=((b"x-request-id", b"r-1"),))
    (received,) = engine.received
    assert received.line == f"POST {PATH} HTTP/1.1"
    assert received.body == BODY
    assert received.headers == {
        "host": engine.address,
        "accept-encoding": "identity",
        "authorization": "Bearer the-key",
        "content-type": "application/json",
        "x-request-id": "r-1",
        "content-length": str(len(BODY)),
    }
    assert (listener.status, listener.body) == (200, JSON_ANSWER)
    await whole(engines, engine.address, content_type="multipart/form-data; boundary=x y")
    assert engine.received[1].headers["content-type"] == "multipart/form-data; boundary=x y"
    assert "authorization" not in engine.received[1].headers


async def test_calls_one_after_the_other_use_one_connection_and_start_no_task(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    await whole(engines, engine.address)
    for body in (BODY, STREAMED, BODY):
        listener = send(engines, engine.address, body)
        assert len(engines._tasks) == 0
        await listener.until_over()
    assert engine.connections == 1
    (connection,) = engines._connections
    assert connection._transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_engine_connection_has_tcp_keepalive(engines: HttpEngineClient, engine: MisbehavingEngine) -> None:
    await whole(engines, engine.address)
    (connection,) = engines._connections
    plugged = connection._transport.get_extra_info("socket")
    assert plugged.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    silent, apart, times = (
        plugged.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
    )
    assert silent + apart * times <= 30


async def test_call_made_at_the_end_of_a_response_reuses_the_same_engine_connection(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    second = Listener()

    class ChainingListener(Listener):
        def on_end(self) -> None:
            super().on_end()
            send(engines, engine.address, into=second)

    send(engines, engine.address, into=ChainingListener())
    await second.until_over()
    assert (second.status, engine.connections) == (200, 1)


async def test_calls_at_the_same_time_have_connections_of_their_own(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    listeners = [send(engines, engine.address, STREAMED) for _ in range(5)]
    for listener in listeners:
        await listener.until_over()
        assert listener.body == b"".join(map(encode_event, WORDS)) + DONE
    assert engine.connections == 5


async def test_response_pieces_are_delivered_as_they_arrive(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    engine.answer = EngineBehaviour.STALLS
    listener = send(engines, engine.address, STREAMED)
    await listener.until_piece()
    assert listener.pieces == [encode_event(WORDS[0])]
    assert listener.headers == {b"content-type": b"text/event-stream"}
    assert not listener.is_over


async def test_body_is_let_go_of_when_its_answer_begins(engines: HttpEngineClient, engine: MisbehavingEngine) -> None:
    engine.answer = EngineBehaviour.STALLS
    listener = send(engines, engine.address, STREAMED)
    assert isinstance(listener.line, HttpCallHandle)
    assert listener.line.body == STREAMED
    await listener.until_piece()
    assert not listener.line.body


async def test_interim_responses_and_hop_by_hop_headers_are_not_passed_to_the_handler(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    interim = b"HTTP/1.1 102 Processing\r\nX-Early: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n"
    own = b"Keep-Alive: timeout=5\r\nConnection: Keep-Alive, X-Own\r\nX-OWN: 1\r\nTrailer: X-Late\r\nX-Kept: 2\r\n"
    engine.answer = ResponseScript((interim, make_json_head(2, more=own) + b"{}"))
    listener = await whole(engines, engine.address)
    assert listener.headers == {b"content-type": b"application/json", b"x-kept": b"2"}
    assert listener.size_bytes == 2
    assert listener.body == b"{}"
    await whole(engines, engine.address)
    assert engine.connections == 1


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n",
    ],
)
async def test_answer_without_a_length_ends_with_its_connection(
    engines: HttpEngineClient, engine: MisbehavingEngine, head: bytes
) -> None:
    engine.answer = ResponseScript((head, b"one ", b"two"), AfterResponse.CLOSE)
    for _ in range(2):
        listener = await whole(engines, engine.address)
        assert (listener.status, listener.body) == (200, b"one two")
    assert engine.connections == 2


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_answer_without_a_body_ends_with_its_head(
    engines: HttpEngineClient, engine: MisbehavingEngine, status: str
) -> None:
    engine.answer = ResponseScript((f"HTTP/1.1 {status}\r\n\r\n".encode(),))
    for _ in range(2):
        assert (await whole(engines, engine.address)).pieces == []
    assert engine.connections == 1


async def test_connection_with_connection_close_is_not_reused(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    engine.answer = ResponseScript((make_json_head(2, more=b"Connection: close\r\n") + b"{}",))
    for _ in range(2):
        await whole(engines, engine.address)
    assert engine.connections == 2
    await all_closed(engine)


async def test_address_of_ip_version_6_is_called(engines: HttpEngineClient) -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    async with run_misbehaving_engine(host="::1") as engine:
        await whole(engines, engine.address)
        assert engine.received[0].headers["host"] == engine.address
        assert engine.address.startswith("[::1]:")


async def test_paused_line_reads_no_more_and_loses_nothing(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    sent = bytes(range(256)) * 4096 * 32
    engine.answer = ResponseScript(
        (make_json_head(len(sent)), *(sent[at : at + MIB] for at in range(0, len(sent), MIB)))
    )
    listener = send(engines, engine.address)
    await listener.until_piece()
    for _ in range(3):
        listener.line.pause()
        listener.line.pause()
        piece_count = len(listener.pieces)
        await many_turns()
        assert len(listener.pieces) == piece_count
        assert not listener.is_over
        listener.line.resume()
        listener.line.resume()
        await listener.until_piece(piece_count + 1)
    await listener.until_over()
    assert listener.body == sent


async def test_line_can_be_paused_before_it_is_connected(engines: HttpEngineClient, engine: MisbehavingEngine) -> None:
    listener = send(engines, engine.address)
    listener.line.pause()

    async def is_received() -> bool:
        return bool(engine.received)

    await eventually(is_received)
    await many_turns()
    assert not listener.status
    listener.line.resume()
    await listener.until_over()
    assert listener.body == JSON_ANSWER


async def test_unresumed_pause_does_not_block_the_next_call(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    class PausingListener(Listener):
        def on_body(self, piece: bytes) -> None:
            super().on_body(piece)
            self.line.pause()

    first = send(engines, engine.address, into=PausingListener())
    await first.until_over()
    await whole(engines, engine.address)
    first.line.resume()
    assert engine.connections == 1


@pytest.mark.parametrize("mode", [EngineBehaviour.SILENT, EngineBehaviour.STALLS])
async def test_aborting_a_call_closes_the_connection_and_delivers_nothing_afterwards(
    engines: HttpEngineClient, engine: MisbehavingEngine, mode: EngineBehaviour
) -> None:
    engine.answer = mode
    listener = send(engines, engine.address, STREAMED)

    async def is_under_way() -> bool:
        return bool(engine.received) and bool(listener.pieces) is (mode is EngineBehaviour.STALLS)

    await eventually(is_under_way)
    listener.line.abort()
    listener.line.abort()
    await all_closed(engine)
    listener.line.pause()
    listener.line.resume()
    assert not listener.is_over
    engine.answer = EngineBehaviour.FINE
    await whole(engines, engine.address)


async def test_hanging_up_before_it_is_connected_makes_no_call(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    listener = send(engines, engine.address)
    listener.line.abort()
    await come_and_gone(engine)
    assert not engine.received
    assert not listener.is_over


async def test_aborted_call_gets_no_refused_callback(engines: HttpEngineClient) -> None:
    listener = send(engines, f"127.0.0.1:{find_free_port()}")
    listener.line.abort()
    await engines._tasks.join()
    assert not listener.is_over


async def test_hanging_up_after_the_end_does_not_touch_the_next_call_of_the_connection(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    first = await whole(engines, engine.address)
    second = send(engines, engine.address, STREAMED)
    first.line.abort()
    first.line.pause()
    await second.until_over()
    assert second.error is None
    assert engine.connections == 1


async def test_hanging_up_in_the_middle_of_what_was_read_silences_the_rest_of_it(
    engines: HttpEngineClient, engine: MisbehavingEngine
) -> None:
    class AbortingListener(Listener):
        def on_head(self, status: int, head, size_bytes) -> None:
            super().on_head(status, head, size_bytes)
            self.line.abort()

    listener = send(engines, engine.address, into=AbortingListener())
    await come_and_gone(engine)
    assert listener.status == 200
    assert not listener.pieces
    assert not listener.is_over


async def test_idle_connections_are_few_and_do_not_last(engines: HttpEngineClient, engine: MisbehavingEngine) -> None:
    listeners = [send(engines, engine.address) for _ in range(IDLE_MAX + 6)]
    for listener in listeners:
        await listener.until_over()
        assert listener.error is None

    async def at_most() -> bool:
        return engine.open == IDLE_MAX

    await eventually(at_most)
    engines.close_idle()
    await whole(engines, engine.address)
    assert engine.connections == IDLE_MAX + 6
    engines.close_idle()

    async def only_the_used_one() -> bool:
        return engine.open == 1

    await eventually(only_the_used_one)
    await whole(engines, engine.address)
    assert engine.connections == IDLE_MAX + 6
    engines.close_idle()
    engines.close_idle()
    await all_closed(engine)
    assert engines._sweep_timer is None


async def test_idle_connections_are_swept_by_themselves(
    engines: HttpEngineClient, engine: MisbehavingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SWEEP_S", 0.01)
    await whole(engines, engine.address)
    await all_closed(engine)


async def test_stopping_loses_what_is_under_way_and_leaves_nothing_open(engine: MisbehavingEngine) -> None:
    engines = HttpEngineClient()
    engine.queued = [EngineBehaviour.UNTIL_CLOSE, EngineBehaviour.FINE]
    for _ in range(2):
        await whole(engines, engine.address)
    engine.answer = EngineBehaviour.SILENT
    kept = send(engines, engine.address)
    new = send(engines, engine.address)

    async def are_both_received() -> bool:
        return len(engine.received) == 4

    await eventually(are_both_received)
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


async def test_prompt_of_ten_megabytes_goes_out_whole(engines: HttpEngineClient, engine: MisbehavingEngine) -> None:
    await whole(engines, engine.address, b"p" * 10 * MIB)
    assert engine.received[0].body == b"p" * 10 * MIB
    await whole(engines, engine.address)
    assert engine.connections == 1
