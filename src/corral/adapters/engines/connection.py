"""One connection to an engine, and what it makes of the bytes that come.

Guarantee: each call hears `on_head`, pieces, and then `on_end` or `on_lost`, once. An answer that is not whole, not
HTTP as it should be, or longer than it had said is lost and never ends. A connection on which anything was odd is not
used again, so no answer can run over into the next one.
Limit: pieces of a read that was under way are still passed on after `pause`. That is all that ever lies here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol, cast

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser

from corral.adapters.engines.line import NOBODY, HttpLine
from corral.ports.engines import EngineLost, HeadLines, Hearer
from corral.runtime.intake import Intake
from corral.runtime.mould import END, Mould, Moulds

# Of the head of an answer, of its interim answers, and of what may stand between two pieces of a body (sizes of chunks,
# last lines). Far above what any engine sends.
HEAD_BYTES_MAX = 64 * 1024
# A larger body goes out beside its head instead of being copied behind it.
JOINED_BYTES_MAX = 64 * 1024

# A machine that vanishes says nothing, and a long prompt is silent for minutes. So the kernel asks the other one after
# 10 s of silence, three times, 5 s apart. Not every system has names for all of this.
_SIGNS_OF_LIFE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}

_HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-connection", b"te", b"trailer", b"upgrade")
)
_LENGTH = b"content-length"
_SPECIAL = _HOP_BY_HOP | {b"transfer-encoding", _LENGTH}

# How far an answer has come. Plain numbers: members of an enum cost several times as much to look at.
_HEAD, _BODY, _DONE = range(3)


# The status of an answer and the lines of its head.
Said = tuple[int, HeadLines]


class Owner(Protocol):
    """Who keeps connections between calls."""

    intake: Intake
    moulds: Moulds[Said]

    def opened(self, connection: Connection) -> None: ...

    def keep(self, connection: Connection) -> None:
        """It can be used for another call."""
        ...

    def closed(self, connection: Connection) -> None: ...

    def connect(self, line: HttpLine) -> None:
        """A kept connection turned out to be closed: this call wants a new one."""
        ...


class _Unfit(Exception):
    """What the engine sent cannot be passed on. Says why, as the end of a sentence."""


class Connection(asyncio.Protocol):
    """A `runtime.intake.Taker`. `kept_since` belongs to the owner. All other state is that of the call under way."""

    __slots__ = (
        "_feed",
        "_framing",
        "_headers",
        "_hear",
        "_intake",
        "_is_interim",
        "_is_kept",
        "_is_last",
        "_is_paused",
        "_line",
        "_mould",
        "_named",
        "_owner",
        "_parser",
        "_phase",
        "_pieces",
        "_size_bytes",
        "_status",
        "_transport",
        "_unheard_bytes",
        "address",
        "kept_since",
        "on_body",
    )

    def __init__(self, owner: Owner, address: str) -> None:
        self.address = address
        self.kept_since = 0
        self._owner = owner
        self._intake = owner.intake
        self._line: HttpLine | None = None
        self._hear: Callable[[bytes], None] = NOBODY.on_body
        self._phase = _HEAD
        # Of the body, in the read under way. The parser calls the list's own method: one of ours would cost as much as
        # all that the parser does.
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        # It has carried a whole call before this one.
        self._is_kept = False
        self._is_paused = False
        # Another answer came before this one's.
        self._is_interim = False
        # Nothing can be asked after it.
        self._is_last = False
        # Taken in since the hearer has last heard of it.
        self._unheard_bytes = 0
        # Of an answer that came whole in one read.
        self._mould: Mould[Said] | None = None

    # What lines and owners do

    @property
    def is_closed(self) -> bool:
        return self._transport.is_closing()

    def carry(self, line: HttpLine) -> None:
        """Send a call and listen for its answer."""
        self._line = line
        self._hear = line.hearer.on_body
        self._phase = _HEAD
        self._unheard_bytes = 0
        line.connection = self
        body = line.body
        if len(body) <= JOINED_BYTES_MAX:
            self._transport.write(line.head + body)
        else:
            self._transport.writelines((line.head, body))
        if line.is_paused:
            self.pause()

    def write(self, piece: bytes) -> None:
        self._transport.write(piece)

    def pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Nothing is heard afterwards."""
        self._line = None
        self._hear = NOBODY.on_body
        self._transport.abort()

    def leave(self, why: str) -> None:
        """As `close`, but who listens is told."""
        self._lose(why)
        self.close()

    # What the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = HttpResponseParser(self)
        self._feed = self._parser.feed_data
        _ask_for_signs_of_life(transport.get_extra_info("socket"))
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._phase == _BODY:
            # The next piece of a stream: so little is done about it that it would not be worth the detour.
            self._parse(data)
        else:
            self._intake.add(self, data)

    def take(self, data: bytes) -> None:
        if self._line is None:
            # Nobody has asked it.
            self.close()
            return
        if self._phase != _HEAD or self._unheard_bytes:
            self._parse(data)
            return
        mould = self._mould
        body = None if mould is None else mould.body(data)
        if mould is not None and body is not None:
            self._take_again(self._line, mould.meaning, body)
        else:
            self._parse(data, is_first=True)

    def _parse(self, data: bytes, is_first: bool = False) -> None:  # noqa: FBT001, FBT002 - by name is dear
        self._unheard_bytes += len(data)
        try:
            self._feed(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._tell()
            self._stumble(error)
            return
        if self._pieces:
            self._tell()
        if self._phase == _DONE:
            if is_first:
                self._learn(data)
            self._end()
        elif self._unheard_bytes > HEAD_BYTES_MAX:
            self._lose("sent more than 64 KiB that is no answer")

    def break_off(self) -> None:
        self.leave("was not understood")

    def _take_again(self, line: HttpLine, said: Said, body: bytes) -> None:
        """A whole answer with the head of one before, but for its length: the parser has nothing to say about it."""
        self._phase = _DONE
        hearer, (status, head) = self._let_go(line), said
        try:
            hearer.on_whole(status, head, body)
        except BaseException:
            hearer.on_lost(self._lost("was not understood"))
            raise

    def _learn(self, data: bytes) -> None:
        """The next answer may begin like this one."""
        mould = None
        if self._size_bytes is not None and not self._is_last and not self._is_interim:
            said = (self._status, tuple(self._headers))
            mould = self._owner.moulds.mould(data[: data.find(END) + len(END)], said)
        self._mould = mould if mould is not None and mould.body(data) is not None else None

    def eof_received(self) -> None:
        """The transport closes itself after this."""
        self._intake.run()
        if self._line is None:
            return
        if self._phase == _BODY and not self._framing:
            self._is_last = True
            self._end()
        else:
            self._lose(self._how_it_went())

    def connection_lost(self, _error: Exception | None) -> None:
        self._owner.closed(self)
        # The parser knows this object's methods: a circle that would wait for the garbage collector.
        del self._parser, self._feed
        if self._line is not None:
            self._lose(self._how_it_went())

    def pause_writing(self) -> None:
        if self._line is not None:
            self._line.on_full()

    def resume_writing(self) -> None:
        if self._line is not None:
            self._line.on_room()

    # What the parser says

    def on_message_begin(self) -> None:
        if self._phase == _DONE:
            raise _Unfit("went on after its answer")
        self._headers: list[tuple[bytes, bytes]] = []
        # Lines that the engine itself says are not for others.
        self._named: list[bytes] = []
        # The line of the head that says where the body ends, and the length if it is that.
        self._framing = b""
        self._size_bytes: int | None = None

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase:
            # Behind the last chunk. Nobody waits for those.
            return
        name = name.lower()
        if name not in _SPECIAL:
            self._headers.append((name, value))
        elif name == b"connection":
            self._named += [word.strip() for word in value.lower().split(b",")]
        elif name not in _HOP_BY_HOP:
            self._frame(name, value)

    def on_headers_complete(self) -> None:
        self._status = status = self._parser.get_status_code()
        if status < 200:
            self._skip(status)
            return
        if self._unheard_bytes > HEAD_BYTES_MAX and _bytes_of(self._headers) > HEAD_BYTES_MAX:
            raise _Unfit("sent a head of more than 64 KiB")
        if self._named:
            self._headers = [line for line in self._headers if line[0] not in self._named]
        self._is_last = not self._parser.should_keep_alive()
        self._phase = _BODY
        line = self._line
        if line is not None:
            line.body = b""
            line.hearer.on_head(status, tuple(self._headers), self._size_bytes)

    def on_message_complete(self) -> None:
        if self._status >= 200:
            self._phase = _DONE

    def _frame(self, name: bytes, value: bytes) -> None:
        """Two opinions on where a body ends are how one answer is smuggled into another."""
        if self._framing:
            raise _Unfit("gave its answer two lengths")
        self._framing = name
        if name == _LENGTH:
            self._size_bytes = int(value) if value.isdigit() else None
        elif value.strip().lower() != b"chunked":
            raise _Unfit("coded its answer in a way that it was not asked for")

    def _skip(self, status: int) -> None:
        """An interim answer."""
        if status < 100:
            raise _Unfit(f"answered with a status that there is not ({status})")
        if status == 101:
            raise _Unfit("wanted to speak another protocol")
        self._is_interim = True

    def _tell(self) -> None:
        """All that one read has brought, at once: where a stream is ahead of us, its events cost the less."""
        pieces = self._pieces
        if not pieces:
            return
        piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._unheard_bytes = 0
        try:
            self._hear(piece)
        except BaseException:
            self._lose("was not understood")
            raise

    # How a call ends

    def _end(self) -> None:
        line = self._line
        # None: it was hung up in the middle of this read.
        if line is not None:
            self._let_go(line).on_end()

    def _let_go(self, line: HttpLine) -> Hearer:
        """Who is to be told of the end. Kept before that: what it asks for next can use this connection."""
        self._line = None
        hearer = line.over()
        self._is_interim = False
        if not self._is_last and line.is_sent and not self._transport.get_write_buffer_size():
            if self._is_paused:
                self.resume()
            self._is_kept = True
            self._owner.keep(self)
        else:
            self._transport.abort()
        return hearer

    def _stumble(self, error: Exception) -> None:
        """The parser went no further: the engine's doing, or an error of whom it told."""
        if self._phase == _DONE:
            self._is_last = True
            if self._size_bytes is None:
                self._end()
            else:
                # The length was wrong, so what it cuts off is no whole answer.
                self._lose("sent more than it had said")
            return
        cause = error.__context__ if isinstance(error, HttpParserCallbackError) else None
        if cause is None or isinstance(cause, _Unfit):
            self._lose(str(cause) if cause is not None else f"sent something that is not HTTP ({error})")
            return
        self._lose("was not understood")
        raise cause

    def _lose(self, what: str) -> None:
        line = self._line
        if line is None:
            return
        is_stale = self._is_kept and self._phase == _HEAD and not self._unheard_bytes
        self.close()
        if is_stale:
            line.connection = None
            self._owner.connect(line)
        else:
            line.over().on_lost(self._lost(what))

    def _lost(self, what: str) -> EngineLost:
        return EngineLost(f"The engine at {self.address} {what}.")

    def _how_it_went(self) -> str:
        return "broke off its answer" if self._phase else "closed the connection before it answered"


def _ask_for_signs_of_life(plugged: socket.socket) -> None:
    plugged.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _SIGNS_OF_LIFE.items():
        if hasattr(socket, name):
            plugged.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _bytes_of(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) for name, value in headers)
