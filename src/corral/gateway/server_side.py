"""uvicorn's own protocol, with what it lacks on a port that strangers reach.

Heads are within limits and as RFC 9112 has them, bodies come fast enough or their connection is closed, connections are
counted, and a message that makes no sense does not take the answer of the one before it. Guarantee: where a body ends
is still what llhttp says. All that uvicorn's routes answer passes here; `protocol.py` adds the hot path.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from corral.gateway import answers
from corral.gateway.body_progress import BodyProgress
from corral.gateway.head import HEAD_BYTES_MAX, HEADERS_MAX, find_head_fault

if TYPE_CHECKING:
    from corral.gateway.protocol import Switchboard

# A head has to be whole after so long.
HEAD_S = 10.0
# What lies here of an answer when its connection is closed has to be read within this.
CLOSING_S = 10.0
TOO_LATE = "The request did not come to its end in time."
TOO_LONG_HEAD = f"The head of a request may have {HEAD_BYTES_MAX // 1024} KiB."
# Bodies that go to an engine or to the disk as they come, and may take as long as they like.
PASSED_ON_PATHS = ("/v1/audio/", "/api/files/")


class ServerProtocol(HttpToolsProtocol):
    # Beside the dictionary that uvicorn's part of it has, and with what of that every request looks at: close together,
    # it is found in the processor's cache however many connections there are.
    __slots__ = (
        "_closing_since",
        "_complaint",
        "_has_moved",
        "_is_their_head",
        "_is_their_message",
        "_is_theirs_for_good",
        "_parts",
        "_progress",
        "_since",
        "_their_head_bytes",
        "server_state",
        "transport",
    )

    board: Switchboard

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._parts = self.board.parts
        self._has_moved = True
        # When the present state, or the present lack of movement, began.
        self._since = 0.0
        self._closing_since: float | None = None
        # Of uvicorn's side.
        self._is_their_head = False
        self._is_their_message = False
        self._is_theirs_for_good = False
        self._their_head_bytes = 0
        # Status and sentence for a request that llhttp takes and we do not.
        self._complaint: tuple[int, str] | None = None
        # Of a body that has not come whole with its head.
        self._progress: BodyProgress | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        too_many = self.board.counter.add(self.client[0] if self.client else "")
        if too_many:
            self._say_and_close(503, too_many)

    def connection_lost(self, exc: Exception | None) -> None:
        self.board.counter.remove(self.client[0] if self.client else "")
        super().connection_lost(exc)

    def _is_uvicorn_idle(self) -> bool:
        return not self._is_their_message and not self._is_theirs_for_good and not self._is_uvicorn_answering()

    def _is_uvicorn_answering(self) -> bool:
        # uvicorn says that there always is one; before its first request there is none.
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _give(self, data: bytes) -> None:
        """To uvicorn."""
        if self._is_their_head:
            self._their_head_bytes += len(data)
        elif self._progress is not None:
            self._progress.add(len(data))
        if not self.transport.is_closing():
            super().data_received(data)
        if self._is_their_head and self._their_head_bytes > HEAD_BYTES_MAX:
            self._refuse_head()

    def _refuse_head(self) -> None:
        self._say_and_close(431, TOO_LONG_HEAD)

    # uvicorn's parser, listened to

    def on_message_begin(self) -> None:
        self._is_their_message = self._is_their_head = True
        self._their_head_bytes = 0
        self._since = self._parts.clock.monotonic()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > HEAD_BYTES_MAX:
            self._complain(431, TOO_LONG_HEAD)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > HEADERS_MAX:
            self._complain(400, f"A request may have {HEADERS_MAX} lines in its head.")

    def on_headers_complete(self) -> None:
        complaint = find_head_fault(self.parser.get_http_version(), self.url, self.headers)
        if complaint is not None:
            self._complain(*complaint)
        self._is_their_head = False
        self._progress = BodyProgress(self._parts.clock.monotonic())
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_their_message = False
        self._progress = None
        super().on_message_complete()

    def _complain(self, status: int, sentence: str) -> NoReturn:
        """Refuse a request that llhttp takes: `send_400_response` says so when the parser has stopped."""
        self._complaint = status, sentence
        raise httptools.HttpParserError(sentence)

    def send_400_response(self, msg: str) -> None:
        """What uvicorn does when its parser has stopped. An answer that is still being made comes first, and is the
        last one on this connection."""
        status, sentence = self._complaint or (400, msg)
        if self._is_uvicorn_answering() and (self._is_their_head or not self._is_their_message):
            self._is_theirs_for_good = True
            self.cycle.keep_alive = False
            self.flow.pause_reading()
        elif self._is_uvicorn_answering() and not self.cycle.response_started:
            self._write_and_close(status, sentence)
        else:
            self._say_and_close(status, sentence)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._has_moved = True

    def _unsupported_upgrade_warning(self) -> None:
        # What follows is another protocol, which nobody here speaks. Not logged: anybody can ask for one.
        self._is_theirs_for_good = True

    # Being late

    def _sweep_their_body(self, progress: BodyProgress, now: float) -> bool:
        """A body that goes to uvicorn, as long as it has not come whole."""
        if self.flow.read_paused:
            progress.pause(now)
            return False
        is_late = progress.is_late(now, is_kept=not self.scope["path"].startswith(PASSED_ON_PATHS))
        if is_late and self.cycle.response_complete:
            self.transport.close()
        elif is_late and self.cycle.response_started:
            self.transport.abort()
        elif is_late:
            self._write_and_close(408, TOO_LATE)
        return is_late

    def _abort_if_stuck(self, now: float) -> bool:
        """Closed, but its client does not read what is left to be written."""
        if self._closing_since is None:
            self._closing_since = now
        is_stuck = now - self._closing_since > CLOSING_S
        if is_stuck:
            self.transport.abort()
        return is_stuck

    def _leave_if(self, is_late: bool) -> bool:  # noqa: FBT001 - a question asked in one line
        if is_late:
            self._say_and_close(408, TOO_LATE)
        return is_late

    def _say_and_close(self, status: int, sentence: str) -> None:
        """To a client whose request was not understood, so neither is its dialect."""
        if self.transport.is_closing():
            return
        if self._is_uvicorn_answering():
            # It would be read as a part of that answer.
            self.transport.abort()
            return
        self._write_and_close(status, sentence)

    def _write_and_close(self, status: int, sentence: str) -> None:
        lines = ((b"content-type", b"text/plain; charset=utf-8"),)
        framing = b"content-length: %d\r\nconnection: close\r\n" % len(sentence)
        common = self.board.common_lines(self.server_state.default_headers)
        self._forget()
        self.transport.write(answers.head(status, lines, common, framing) + sentence.encode("ascii"))
        self.transport.close()

    def _forget(self) -> None:
        """Nothing that has come is looked at any more."""
