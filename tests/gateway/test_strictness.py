"""The same bytes to uvicorn alone, to the gateway and to h11: nobody sees a request that another one does not see."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from itertools import pairwise

import h11
import httptools
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corral.gateway.connection.http_messages import HEAD_BYTES_MAX
from corral.gateway.connection.server_protocol import HEAD_TIMEOUT_S
from tests.gateway.corpus import BODY, CHUNKED, CHUNKS, FINE, LENGTH, SMUGGLED, get, post
from tests.gateway.memory import Outcome, Request, by_gateway, by_uvicorn, gateway_protocol, turns

# What llhttp takes and h11 does not. None of it says where a body ends.
_HARMLESS = {"two blanks before the version", "no version", "a line break ahead", "a line break between"}


@pytest.fixture(autouse=True)
def _without_warnings() -> Iterator[None]:
    """uvicorn logs every request that is no HTTP."""
    logging.getLogger("uvicorn.error").disabled = True
    yield
    logging.getLogger("uvicorn.error").disabled = False


def _by_byte(raw: bytes) -> list[bytes]:
    return [raw[at : at + 1] for at in range(len(raw))]


def _get_requests(outcome: Outcome) -> tuple[list[Request], bool]:
    return outcome.requests, outcome.is_closed


@pytest.mark.parametrize("name", FINE)
async def test_requests_are_parsed_alike_however_their_bytes_are_cut(name: str) -> None:
    raw = FINE[name]
    alone = await by_uvicorn([raw])
    assert alone.requests
    assert 400 not in alone.statuses
    assert _get_requests(await by_gateway([raw])) == _get_requests(alone)
    assert _get_requests(await by_gateway(_by_byte(raw))) == _get_requests(alone)


async def test_plain_hot_calls_are_answered_by_the_gateway_also_behind_requests_of_the_server() -> None:
    for name, ours in (("plain", 1), ("two", 2), ("ours, theirs, ours", 2), ("chunks", 0), ("expect", 0)):
        assert len((await by_gateway(_by_byte(FINE[name]))).ours) == ours, name


@pytest.mark.parametrize("name", ["two", "ours, theirs, ours", "a body that looks like a request", "chunks", "close"])
async def test_requests_one_behind_the_other_may_be_cut_anywhere(name: str) -> None:
    raw = FINE[name]
    whole = _get_requests(await by_uvicorn([raw]))
    for at in range(1, len(raw)):
        assert _get_requests(await by_gateway([raw[:at], raw[at:]])) == whole, at


@pytest.mark.behaviour("GW-21")
@pytest.mark.parametrize("name", SMUGGLED.keys() - _HARMLESS)
async def test_request_smuggling_attempt_is_refused_and_its_connection_closed(name: str) -> None:
    # Behind it stands what it would have hidden.
    raw = SMUGGLED[name] + get(b"/hidden")
    for pieces in ([raw], _by_byte(raw)):
        outcome = await by_gateway(pieces)
        assert outcome.requests == []
        assert outcome.statuses == [400]
        assert outcome.is_closed


@pytest.mark.behaviour("GW-21")
@pytest.mark.parametrize("name", ["one of them", "all of them", "the last two"])
async def test_bare_line_feeds_are_refused_at_once_and_not_waited_for(name: str) -> None:
    """Nothing comes behind them that would end the head."""
    head = post().partition(b"\r\n\r\n")[0]
    raw = {
        "one of them": head.replace(b"\r\n", b"\n", 1),
        "all of them": head.replace(b"\r\n", b"\n") + b"\n\n" + BODY,
        "the last two": head + b"\n\n" + BODY,
    }[name]
    for pieces in ([raw], _by_byte(raw)):
        outcome = await by_gateway(pieces)
        assert (outcome.requests, outcome.statuses, outcome.is_closed) == ([], [400], True)


def _by_h11(raw: bytes) -> list[Request] | None:
    """None: no HTTP, says h11."""
    connection = h11.Connection(h11.SERVER)
    requests: list[Request] = []
    path, body = "", b""
    connection.receive_data(raw)
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                path, body = event.target.decode(), b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                requests.append(Request(path.partition("?")[0], body))
                connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    return requests
                connection.start_next_cycle()
            else:
                return requests
    except h11.RemoteProtocolError:
        return None


@pytest.mark.behaviour("GW-21")
@pytest.mark.parametrize("name", (FINE | SMUGGLED).keys() - _HARMLESS)
async def test_llhttp_and_h11_agree_on_what_both_accept(name: str) -> None:
    raw = (FINE | SMUGGLED)[name]
    other = _by_h11(raw)
    outcome = await by_gateway([raw])
    if name in FINE:
        assert other is not None
    if other is not None and outcome.requests:
        assert outcome.requests == other


_PIECES = st.sampled_from(
    [
        *(raw for raw in FINE.values()),
        *(raw for raw in SMUGGLED.values()),
        get(),
        post(body=BODY[:7]),
        b"\r\n",
        b"0\r\n\r\n",
        b"\n",
        b"\r",
        b" ",
        b"POST /v1/chat",
    ]
)


@st.composite
def _connections(draw: st.DrawFn) -> list[bytes]:
    """Requests one behind the other, a few bytes of them changed, cut anywhere."""
    raw = bytearray(b"".join(draw(st.lists(_PIECES, min_size=1, max_size=4))))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(raw) - 1))
        changed = draw(st.sampled_from([b"", b"\r", b"\n", b"\r\n", b" ", b"\t", b":", b"\x00", b"0", b"a", b"\xff"]))
        raw[at : at + draw(st.integers(0, 2))] = changed
        if not raw:
            raw = bytearray(b"\r\n")
    cuts = sorted(draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    bounds = [0, *cuts, len(raw)]
    return [bytes(raw[start:end]) for start, end in pairwise(bounds) if start < end]


class _LlhttpParser:
    """What llhttp alone finds."""

    def __init__(self, raw: bytes) -> None:
        self.requests: list[Request] = []
        self.is_broken = False
        self._path, self._body = b"", b""
        parser = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        try:
            parser.feed_data(raw)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.is_broken = True

    def on_message_begin(self) -> None:
        self._path, self._body = b"", b""

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.requests.append(Request(httptools.parse_url(self._path).path.decode(), self._body))


@pytest.mark.behaviour("GW-21")
@settings(max_examples=300, deadline=None)
@given(_connections())
@example([post() + get() + post(b"Content-Length: 3\r\n")])
def test_pipelined_requests_are_parsed_as_llhttp_parses_them(pieces: list[bytes]) -> None:
    async def run() -> None:
        truth, gateway = _LlhttpParser(b"".join(pieces)), await by_gateway(pieces)
        assert gateway.requests == truth.requests[: len(gateway.requests)]
        if not truth.is_broken and not gateway.is_closed:
            assert gateway.requests == truth.requests

    asyncio.run(run())


@pytest.mark.behaviour("GW-25")
async def test_error_is_not_sent_in_the_middle_of_a_response() -> None:
    """The next request has begun and does not come to its end, while the answer before it is still being made."""
    for late, is_cut in ((b"Host: ", False), (b"X: " + b"x" * HEAD_BYTES_MAX, True)):
        outcome, ended = Outcome(), asyncio.Event()
        protocol = gateway_protocol(outcome, waits_for=ended)
        protocol.receive_data(get(b"/slow") + b"GET /next HTTP/1.1\r\n")
        await turns()
        protocol.receive_data(late)
        assert not protocol.close_if_late(protocol.registry.deps.clock.monotonic() + HEAD_TIMEOUT_S + 1)
        assert outcome.written == b""
        assert outcome.is_closed == is_cut
        ended.set()
        await turns()
        protocol.connection_lost(None)


@pytest.mark.behaviour("GW-21")
@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (post().replace(b"Host: x\r\n", b""), 400),
        (post(b"Host: y\r\n" + LENGTH), 400),
        (get().replace(b"Host: x\r\n", b""), 400),
        (post(version=b"HTTP/2.0"), 505),
        (post(b"Transfer-Encoding: gzip, chunked\r\n", CHUNKS), 400),
        (post(CHUNKED, CHUNKS, version=b"HTTP/1.0"), 400),
        (get(b"/" + b"x" * 40_000), 431),
        (get().replace(b"Host", b"X-Long: " + b"x" * 40_000 + b"\r\nHost"), 431),
    ],
    ids=["no host", "two hosts", "no host of theirs", "version", "coding", "chunks in 1.0", "address", "line"],
)
async def test_head_that_llhttp_takes_is_refused_when_the_standard_forbids_it(raw: bytes, status: int) -> None:
    outcome = await by_gateway([raw])
    assert (outcome.requests, outcome.statuses, outcome.is_closed) == ([], [status], True)


@pytest.mark.behaviour("GW-21")
async def test_host_may_be_missing_in_http_1_0() -> None:
    raw = post(version=b"HTTP/1.0").replace(b"Host: x\r\n", b"")
    assert [one.body for one in (await by_gateway([raw])).ours] == [BODY]


@pytest.mark.behaviour("GW-21")
async def test_garbage_behind_a_request_does_not_take_its_answer() -> None:
    outcome, ended = Outcome(), asyncio.Event()
    protocol = gateway_protocol(outcome, waits_for=ended)
    protocol.receive_data(get(b"/slow") + b"\x00nonsense\r\n\r\n")
    await turns()
    assert outcome.written == b""
    ended.set()
    await turns()
    assert (outcome.statuses, outcome.is_closed) == ([200], True)
    protocol.connection_lost(None)


async def test_repeated_head_is_passed_to_the_server_once_the_frontend_is_not_ready() -> None:
    outcome, reasons = Outcome(), [None, None, "stopping", "stopping"]
    protocol = gateway_protocol(outcome, get_not_ready_reason=lambda: reasons.pop(0))
    for _ in range(3):
        protocol.receive_data(post())
        await turns()
    assert [one.body for one in outcome.requests] == [BODY] * 3
    assert len(outcome.ours) == 2
    protocol.connection_lost(None)
