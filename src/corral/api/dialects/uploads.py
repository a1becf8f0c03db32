"""Uploads of audio: forms that are relayed as they arrive.

The bytes before the model's name are kept, in memory up to a mebibyte and on the disk beyond that; the rest goes from
the client to the engine, no faster than the engine takes it. So an upload of any size costs bounded memory. Limit: an
upload without a declared length must arrive completely before it can be relayed. Kept bytes are counted against the
budget of uploads, and the model's name must come within 32 MiB.

Only forms by RFC 7578 are accepted: the form begins with its boundary, every part has a head with a name, and parts
are divided by CRLF, two dashes and the boundary. The reader remembers positions instead of bytes. The bytes after the
model's name are not read: they go to the engine unchanged.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import IO

from starlette.types import Message, Receive

from corral.api.dialects.dialect_call import PATHS, DialectCall
from corral.api.dialects.error_envelopes import OPENAI
from corral.api.dialects.response_relay import relay_response
from corral.api.dialects.routes import CallRoute, RelayRoute, make_post_route
from corral.api.openai.asgi import run_until_disconnect
from corral.api.openai.file_form import HEAD_BYTES_MAX, make_malformed_error, parse_boundary
from corral.domain.errors import InvalidRequest
from corral.runtime.byte_budget import ByteLease
from corral.store.replica_use import ServedModel

KEPT_BYTES_MAX = 1024 * 1024
PIECE_BYTES = 64 * 1024
# How much of a form is buffered before its model is known, and so whether its key may use that model. Many clients send
# the file first; OpenAI takes files of 25 MB.
BEFORE_NAME_BYTES_MAX = 32 * 1024 * 1024
NAME_BYTES_MAX = 1024
_DISPOSITION = re.compile(rb'(?i)^content-disposition:\s*form-data\s*;(?:.*;)?\s*name=(?:"([^"]*)"|([^\s";]+))')
_ENCODED = re.compile(rb"(?i)^content-transfer-encoding:\s*(?!binary|8bit|7bit)")


class UploadReceiver:
    """Receives the body of an upload, such as audio, piece by piece, and then tells when the client disconnects."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_read = asyncio.Event()
        self._has_left = False

    async def iter_pieces(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the body. Ends early if the client disconnects; `receive` then reports that."""
        has_more = True
        while has_more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._has_left = True
                break
            has_more = message.get("more_body", False)
            if message.get("body"):
                yield message["body"]
        self._is_read.set()

    async def receive(self) -> Message:
        """Return the next ASGI message after the body has been read."""
        await self._is_read.wait()
        return {"type": "http.disconnect"} if self._has_left else await self._receive()


class UploadForm:
    """Buffers a form upload, such as audio for a transcription, up to the model's name, or all of it.

    It is written and read in small pieces, which the system's cache takes at once.
    """

    def __init__(self, buffer: IO[bytes], incoming: AsyncIterator[bytes], lease: ByteLease) -> None:
        self._buffer = buffer
        # The bytes that the form may take on the disk.
        self._lease = lease
        self._incoming = incoming
        self.size_bytes = 0

    async def read_name(self, boundary: bytes) -> ModelNameSpan:
        """Read the form as far as the model's name."""
        reader = ModelNameFinder(boundary)
        async for piece in self._incoming:
            self._buffer_piece(piece)
            found = reader.feed(piece)
            # The same form is accepted or refused, however large the pieces are in which it arrives.
            if found is not None and found.end <= BEFORE_NAME_BYTES_MAX:
                return found
            if found is not None or self.size_bytes > BEFORE_NAME_BYTES_MAX:
                raise InvalidRequest(
                    f"The form has no part named model within its first {BEFORE_NAME_BYTES_MAX // KEPT_BYTES_MAX} MiB.",
                    hint="Send the part `model` before the file.",
                    code="model_missing",
                )
        raise make_malformed_error("it ends before its last boundary")

    async def read_rest(self) -> None:
        async for piece in self._incoming:
            self._buffer_piece(piece)

    async def iter_renamed(self, old: ModelNameSpan, name: bytes) -> AsyncIterator[bytes]:
        """Yield the whole form with another name of the model: the kept bytes, and then those that are still to
        come."""
        for piece in self._iter_buffered(0, old.start):
            yield piece
        yield name
        for piece in self._iter_buffered(old.end, self.size_bytes):
            yield piece
        async for piece in self._incoming:
            yield piece

    def render_beginning(self, old: ModelNameSpan, name: bytes) -> bytes:
        """Return the kept bytes with another name of the model."""
        return b"".join([*self._iter_buffered(0, old.start), name, *self._iter_buffered(old.end, self.size_bytes)])

    def _buffer_piece(self, piece: bytes) -> None:
        self.size_bytes += len(piece)
        self._lease.grow_to(self.size_bytes, KEPT_BYTES_MAX)
        self._buffer.write(piece)

    def _iter_buffered(self, start: int, end: int) -> Iterator[bytes]:
        while start < end:
            self._buffer.seek(start)
            piece = self._buffer.read(min(PIECE_BYTES, end - start))
            start += len(piece)
            yield piece


class UploadRoute(CallRoute):
    """Route that relays a call whose body is a form with a file, such as audio, to the model's engine."""

    fallback = RelayRoute.fallback

    async def answer(self, call: DialectCall) -> None:
        boundary = parse_boundary(call.request.headers.get("content-type", ""))
        declared = call.request.headers.get("content-length", "")
        arrival = UploadReceiver(call.request.receive)
        lease = ByteLease(call.deps.gateway.upload_budget, call.principal.key_id)
        with closing(lease), tempfile.SpooledTemporaryFile(KEPT_BYTES_MAX) as kept:
            form = UploadForm(kept, arrival.iter_pieces(), lease)
            named = await form.read_name(boundary)
            model = await call.resolve_engine_model(named.value)
            call.require_engine_support(model, self.call)
            if not declared.isdigit() or form.size_bytes >= int(declared):
                await form.read_rest()
            size_bytes = max(form.size_bytes, int(declared) if declared.isdigit() else 0)
            await run_until_disconnect(arrival.receive, lambda: self._relay(call, model, form, named, size_bytes))

    async def _relay(
        self, call: DialectCall, model: ServedModel, form: UploadForm, named: ModelNameSpan, size_bytes: int
    ) -> None:
        name = model.name.encode()
        sent_bytes = size_bytes - (named.end - named.start) + len(name)
        kind = call.request.headers["content-type"]
        if form.size_bytes == size_bytes <= KEPT_BYTES_MAX:
            # All of it is in memory, so the request can be retried on another replica.
            body, rest = form.render_beginning(named, name), None
        else:
            body, rest = b"", form.iter_renamed(named, name)
        request = call.build_request(
            model,
            self.call,
            body,
            content_type=kind,
            received_bytes=size_bytes,
            size_bytes=None if rest is None else sent_bytes,
        )
        await relay_response(call, request, rest)


UPLOAD_ROUTES = [make_post_route(UploadRoute(PATHS[call], call, OPENAI)) for call in ("transcriptions", "translations")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNameSpan:
    """The value of the form field `model` of an upload, and where it stands in the body."""

    value: str
    start: int
    end: int


class ModelNameFinder:
    """Finds the form field `model` in an upload's multipart body that is fed to it piece by piece."""

    def __init__(self, boundary: bytes) -> None:
        self._first = b"--" + boundary
        self._divider = b"\r\n--" + boundary
        self._rest = b""
        # The position in the body where `_rest` begins.
        self._at = 0
        self._step = self._read_opening
        self._name = b""
        self.found: ModelNameSpan | None = None

    def feed(self, piece: bytes) -> ModelNameSpan | None:
        """Return the name as soon as it is complete. Raises `InvalidRequest` if the body is not a form, or ends without
        the name."""
        self._rest += piece
        while self.found is None and self._step():
            pass
        return self.found

    def _consume(self, count: int) -> None:
        self._rest = self._rest[count:]
        self._at += count

    def _read_opening(self) -> bool:
        if len(self._rest) < len(self._first):
            return False
        if not self._rest.startswith(self._first):
            raise make_malformed_error("it does not begin with its boundary")
        self._consume(len(self._first))
        self._step = self._read_behind_boundary
        return True

    def _read_behind_boundary(self) -> bool:
        if len(self._rest) < 2:
            return False
        if self._rest.startswith(b"--"):
            raise InvalidRequest("The form has no part named model.", code="model_missing")
        if not self._rest.startswith(b"\r\n"):
            raise make_malformed_error("a boundary is followed by other characters")
        self._consume(2)
        self._step = self._read_part_head
        return True

    def _read_part_head(self) -> bool:
        end = self._rest.find(b"\r\n\r\n")
        if end < 0 or end > HEAD_BYTES_MAX:
            if len(self._rest) > HEAD_BYTES_MAX:
                raise make_malformed_error("the head of a part is too long")
            return False
        lines = self._rest[:end].split(b"\r\n")
        named = [found for line in lines if (found := _DISPOSITION.match(line))]
        if len(named) != 1:
            raise make_malformed_error("a part has no name, or two")
        self._name = named[0][1] if named[0][1] is not None else named[0][2]
        if self._name == b"model" and any(_ENCODED.match(line) for line in lines):
            raise make_malformed_error("the model's name is encoded")
        self._consume(end + 4)
        self._step = self._read_value if self._name == b"model" else self._skip_part
        return True

    def _read_value(self) -> bool:
        end = self._rest.find(self._divider)
        if end < 0:
            if len(self._rest) > NAME_BYTES_MAX + len(self._divider):
                raise make_malformed_error("the model's name is too long")
            return False
        try:
            value = self._rest[:end].decode()
        except UnicodeDecodeError as error:
            raise make_malformed_error("the model's name is not UTF-8") from error
        self.found = ModelNameSpan(value=value, start=self._at, end=self._at + end)
        return True

    def _skip_part(self) -> bool:
        end = self._rest.find(self._divider)
        if end < 0:
            # The end of the data may be the beginning of a boundary.
            self._consume(max(0, len(self._rest) - len(self._divider) + 1))
            return False
        self._consume(end + len(self._divider))
        self._step = self._read_behind_boundary
        return True
