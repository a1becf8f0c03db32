"""What is made of the bytes of an answer, held against another parser: however the network cuts them, and damaged."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import h11
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from corral.adapters.engines.connection import EngineConnection, HttpCallHandle, ParsedHead
from corral.ports.requests import HeadLines
from corral.runtime.head_template import HeadTemplateCache
from corral.runtime.read_batcher import ReadBatcher
from tests.adapters.engines.recording_handler import Listener
from tests.support.engines import encode_chunk

ADDRESS = "127.0.0.1:1"
NOT_PASSED_ON = {b"connection", b"transfer-encoding", b"keep-alive"}


class Transport:
    """A connection that swallows what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.is_aborted = True

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> Any:
        return self

    def setsockopt(self, level: int, option: int, value: int) -> None: ...


class Owner:
    def __init__(self) -> None:
        self.has_kept = False
        self.read_batcher = ReadBatcher()
        self.head_templates: HeadTemplateCache[ParsedHead] = HeadTemplateCache()

    def on_opened(self, connection: EngineConnection) -> None: ...

    def on_closed(self, connection: EngineConnection) -> None: ...

    def connect(self, handle: HttpCallHandle) -> None:
        raise AssertionError("a new connection has never been used before")

    def keep_idle(self, connection: EngineConnection) -> None:
        assert not self.has_kept
        self.has_kept = True


@dataclass(frozen=True)
class ParsedResponse:
    """What an answer comes to."""

    status: int
    headers: dict[bytes, bytes]
    size_bytes: int | None
    body: bytes
    is_whole: bool


def parse_with_connection(reads: list[bytes]) -> tuple[ParsedResponse, bool]:
    """With whether the connection was kept."""
    owner, transport, listener = Owner(), Transport(), Listener()
    connection: Any = EngineConnection(owner, ADDRESS)
    connection.connection_made(transport)
    connection.send_call(HttpCallHandle(ADDRESS, b"POST / HTTP/1.1\r\n\r\n", b"{}", listener))
    assert transport.written == [b"POST / HTTP/1.1\r\n\r\n{}"]
    for read in reads:
        if not transport.is_aborted:
            connection.receive_data(read)
    if not transport.is_aborted:
        connection.eof_received()
    connection.connection_lost(None)
    assert listener.is_over
    return ParsedResponse(
        listener.status, listener.headers, listener.size_bytes, listener.body, listener.error is None
    ), owner.has_kept


def parse_with_h11(answer: bytes) -> ParsedResponse | None:
    """None: it does not take this for an answer."""
    client = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    client.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    client.send(h11.EndOfMessage())
    status, headers, body, is_whole = 0, {}, b"", False
    try:
        client.receive_data(answer)
        client.receive_data(b"")
        while not is_whole:
            match client.next_event():
                case h11.Response() as head:
                    status, headers = head.status_code, dict(head.headers)
                case h11.Data() as piece:
                    body += bytes(piece.data)
                case h11.EndOfMessage():
                    is_whole = True
                case h11.InformationalResponse():
                    pass
                case _:
                    return None
    except h11.RemoteProtocolError:
        return None
    size = headers.pop(b"content-length", None)
    passed_on = {name: headers[name] for name in headers if name not in NOT_PASSED_ON}
    return ParsedResponse(status, passed_on, None if size is None else int(size), body, is_whole)


NAMES = st.from_regex(rb"[A-Za-z][A-Za-z0-9_-]{0,20}", fullmatch=True).map(lambda name: b"X-" + name)
VALUES = st.from_regex(rb"([!-~]([ -~]{0,40}[!-~])?)?", fullmatch=True)
HEADERS = st.dictionaries(NAMES, VALUES, max_size=6).filter(lambda lines: len({n.lower() for n in lines}) == len(lines))
BODIES = st.lists(st.binary(min_size=1, max_size=200), max_size=8)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    status = draw(st.sampled_from([200, 201, 204, 304, 400, 404, 413, 429, 500, 503]))
    lines = draw(HEADERS)
    pieces = [] if status in (204, 304) else draw(BODIES)
    framing = draw(st.sampled_from(["length", "chunks", "close"])) if status not in (204, 304) else "none"
    version = draw(st.sampled_from([b"1.0", b"1.1"])) if framing != "chunks" else b"1.1"
    if framing == "length":
        lines[draw(st.sampled_from([b"Content-Length", b"content-length"]))] = b"%d" % sum(map(len, pieces))
    if framing == "chunks":
        lines[b"Transfer-Encoding"] = draw(st.sampled_from([b"chunked", b"Chunked"]))
        pieces = [*map(encode_chunk, pieces), encode_chunk(b"")]
    if draw(st.booleans()):
        lines[b"Connection"] = draw(st.sampled_from([b"close", b"keep-alive"])) if framing != "close" else b"close"
    interim = b"HTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n" * draw(st.integers(0, 2)) if version == b"1.1" else b""
    order = draw(st.permutations(sorted(lines.items())))
    head = b"".join(b"%b: %b\r\n" % line for line in order)
    return interim + b"HTTP/%b %d Fine\r\n%b\r\n" % (version, status, head) + b"".join(pieces)


def final_head(answer: bytes) -> bytes:
    """In lower case, without interim answers."""
    _, heads, rest = answer.partition(b" Fine\r\n")
    return answer.partition(heads)[0][-12:] + b"\n" + rest.partition(b"\r\n\r\n")[0].lower()


def says_its_end(head: bytes) -> bool:
    return b"\ncontent-length:" in head or b"\ntransfer-encoding:" in head or b" 204\n" in head or b" 304\n" in head


def stays_open(head: bytes) -> bool:
    wants = b"\nconnection: close" not in head and (b"HTTP/1.1" in head or b"\nconnection: keep-alive" in head)
    return wants and says_its_end(head)


@st.composite
def cut(draw: st.DrawFn, whole: bytes) -> list[bytes]:
    """The same bytes in reads of any size."""
    at = sorted(draw(st.sets(st.integers(1, max(1, len(whole) - 1)), max_size=12)))
    bounds = [0, *at, len(whole)]
    return [whole[start:end] for start, end in pairwise(bounds) if start < end]


@given(st.data())
def test_response_cut_anywhere_is_parsed_the_same_as_by_h11(data: st.DataObject) -> None:
    answer = data.draw(answers())
    parsed, kept = parse_with_connection(data.draw(cut(answer)))
    assert parsed == parse_with_h11(answer)
    assert parsed.is_whole
    by_bytes, kept_by_bytes = parse_with_connection([answer[at : at + 1] for at in range(len(answer))])
    assert (by_bytes, kept_by_bytes) == (parsed, kept)
    assert kept == stays_open(final_head(answer))


@given(st.data())
def test_parser_takes_no_beginning_of_a_response_for_the_whole(data: st.DataObject) -> None:
    answer = data.draw(answers())
    size = data.draw(st.integers(0, len(answer) - 1))
    parsed, kept = parse_with_connection([answer[:size]] if size else [])
    if parsed.is_whole:
        assert not says_its_end(final_head(answer))
        assert parsed == parse_with_h11(answer[:size])
    assert not kept


@given(st.data())
def test_damaged_response_is_never_parsed_differently_from_h11(data: st.DataObject) -> None:
    """Both parsers may refuse it. If both take it, they agree on what it says, byte for byte."""
    answer = bytearray(data.draw(answers()))
    at = data.draw(st.integers(0, len(answer) - 1))
    damage = data.draw(
        st.sampled_from([b"", b"\r", b"\n", b"\0", b" ", b":", b"0", b"9", b"\xff", b"\t", b"\r\n", b";"])
    )
    answer[at : at + data.draw(st.integers(0, 2))] = damage
    parsed, _ = parse_with_connection(data.draw(cut(bytes(answer))) or [b"\r\n"])
    other = parse_with_h11(bytes(answer))
    if parsed.is_whole and other is not None and other.is_whole:
        assert (parsed.status, parsed.body) == (other.status, other.body)


@given(st.binary(min_size=1, max_size=300), st.booleans())
def test_parser_accepts_arbitrary_bytes_only_where_they_are_a_response(noise: bytes, has_head: bool) -> None:
    """Whatever comes is over in one way or the other, once: the listener checks that."""
    parsed, _ = parse_with_connection(
        [(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" if has_head else b"") + noise]
    )
    assert parsed.status in (0, 200) or noise.startswith(b"HTTP/")


@pytest.mark.parametrize(("size_bytes", "is_accepted"), [(60 * 1024, True), (65 * 1024, False)])
def test_response_head_in_one_read_is_limited_too(size_bytes: int, is_accepted: bool) -> None:
    head = b"HTTP/1.1 200 OK\r\nX-Line: " + b"x" * size_bytes + b"\r\nContent-Length: 65536\r\n\r\n"
    parsed, _ = parse_with_connection([head + b"b" * 65536])
    assert parsed.is_whole is is_accepted
    assert len(parsed.body) == 65536 * is_accepted


def test_parser_is_let_go_with_its_connection() -> None:
    connection: Any = EngineConnection(Owner(), ADDRESS)
    connection.connection_made(Transport())
    connection.connection_lost(None)
    assert not hasattr(connection, "_parser")


def parse_in_turn(answers: list[bytes]) -> list[ParsedResponse]:
    """On one connection, each in one read, as long as it is kept."""
    owner, transport, parsed = Owner(), Transport(), []
    connection: Any = EngineConnection(owner, ADDRESS)
    connection.connection_made(transport)
    for answer in answers:
        owner.has_kept, listener = False, Listener()
        connection.send_call(HttpCallHandle(ADDRESS, b"", b"{}", listener))
        connection.receive_data(answer)
        if not listener.is_over and not transport.is_aborted:
            connection.eof_received()
        parsed.append(
            ParsedResponse(
                listener.status, listener.headers, listener.size_bytes, listener.body, listener.error is None
            )
        )
        if not owner.has_kept:
            break
    connection.connection_lost(None)
    return parsed


@st.composite
def alike(draw: st.DrawFn, answer: bytes) -> bytes:
    """As an engine answers next: with another body, and now and then with something else about it."""
    head, end, body = answer.partition(b"\r\n\r\n")
    other = draw(st.just(body) | st.binary(max_size=60))
    head = head.replace(b": %d" % len(body), b": %d" % draw(st.sampled_from([len(other)] * 8 + [len(body), 3])))
    at = draw(st.none() | st.none() | st.integers(0, len(head)))
    if at is not None:
        head = head[:at] + draw(st.sampled_from([b"", b" ", b"0", b"x", b"\r\n", b":"])) + head[at + 1 :]
        names = [line.partition(b":")[0].lower() for line in head.split(b"\r\n")]
        # The listener of these tests wants to hear each name once.
        assume(len(set(names)) == len(names))
    return head + end + other


@settings(max_examples=400)
@given(st.data())
def test_response_is_parsed_alike_whatever_came_before_it_on_its_connection(data: st.DataObject) -> None:
    first = data.draw(answers())
    heads = [first, *(data.draw(alike(first)) for _ in range(data.draw(st.integers(1, 4))))]
    parsed = parse_in_turn(heads)
    assert parsed == [parse_with_connection([answer])[0] for answer in heads[: len(parsed)]]


def test_repeated_response_head_is_delivered_whole_and_an_error_of_its_handler_loses_the_call() -> None:
    class FailingListener(Listener):
        def on_whole(self, status: int, head: HeadLines, body: bytes) -> None:
            raise ArithmeticError(f"{status} {len(head)} {body!r}")

    owner = Owner()
    connection: Any = EngineConnection(owner, ADDRESS)
    connection.connection_made(Transport())
    first, second, third = Listener(), Listener(), FailingListener()
    for listener, body in ((first, b"12"), (second, b"123")):
        connection.send_call(HttpCallHandle(ADDRESS, b"", b"{}", listener))
        connection.receive_data(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        assert listener.body == body
        owner.has_kept = False
    assert (first.came_whole, second.came_whole) == (False, True)
    connection.send_call(HttpCallHandle(ADDRESS, b"", b"{}", third))
    with pytest.raises(ArithmeticError, match="200 0 b'1'"):
        connection.receive_data(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1")
    assert third.error is not None
    assert "was not understood" in third.error.message
    connection.connection_lost(None)
