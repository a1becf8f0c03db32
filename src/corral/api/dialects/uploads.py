"""Sound to be heard: forms that are passed on as they come.

What comes before the model's name is kept, in memory up to a mebibyte and on the disk beyond that; the rest goes from
the client to the engine, no faster than the engine takes it. So an upload of any size costs a bounded memory. Limit: an
upload that does not say how long it is has to be here whole before it can be passed on. What lies here is counted
against the budget of uploads, and the model's name has to come within 32 MiB.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import IO

from starlette.types import Message, Receive

from corral.api.dialects.answering import pass_on
from corral.api.dialects.calls import PATHS, Call
from corral.api.dialects.envelopes import OPENAI
from corral.api.dialects.multipart import FormReader, ModelName, boundary_of, malformed
from corral.api.dialects.routes import CallRoute, Passed, post
from corral.api.openai.leaving import while_there
from corral.domain.errors import InvalidRequest
from corral.runtime.byte_budget import ByteLease
from corral.store.use import Served

KEPT_BYTES_MAX = 1024 * 1024
PIECE_BYTES = 64 * 1024
# What is kept of a form of which nobody knows yet whether its key may ask for its model. Many clients send the file
# first; OpenAI takes files of 25 MB.
NAMELESS_BYTES_MAX = 32 * 1024 * 1024


class Arrival:
    """A body that is read once, and after that a client that may leave."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_read = asyncio.Event()
        self._has_left = False

    async def pieces(self) -> AsyncIterator[bytes]:
        """Ends early if the client leaves; `receive` tells that then."""
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
        """What there is to hear once the body has been read."""
        await self._is_read.wait()
        return {"type": "http.disconnect"} if self._has_left else await self._receive()


class Form:
    """What of an upload is here: its beginning, up to the model's name and a little further, or all of it.

    It is written and read in small pieces, which the system's cache takes at once.
    """

    def __init__(self, kept: IO[bytes], arriving: AsyncIterator[bytes], lease: ByteLease) -> None:
        self._kept = kept
        # What it may take of the disk.
        self._lease = lease
        self._arriving = arriving
        self.size_bytes = 0

    async def read_name(self, boundary: bytes) -> ModelName:
        """As far as the model's name."""
        reader = FormReader(boundary)
        async for piece in self._arriving:
            self._keep(piece)
            found = reader.feed(piece)
            # However large the pieces are in which it arrives, the same form is taken or refused.
            if found is not None and found.end <= NAMELESS_BYTES_MAX:
                return found
            if found is not None or self.size_bytes > NAMELESS_BYTES_MAX:
                raise InvalidRequest(
                    f"The form has no part named model within its first {NAMELESS_BYTES_MAX // KEPT_BYTES_MAX} MiB.",
                    hint="Send the part `model` before the file.",
                    code="model_missing",
                )
        raise malformed("it ends before its last boundary")

    async def read_rest(self) -> None:
        async for piece in self._arriving:
            self._keep(piece)

    async def renamed(self, old: ModelName, name: bytes) -> AsyncIterator[bytes]:
        """All of it with another name of the model: what is here, and then what is still to come."""
        for piece in self._between(0, old.start):
            yield piece
        yield name
        for piece in self._between(old.end, self.size_bytes):
            yield piece
        async for piece in self._arriving:
            yield piece

    def beginning(self, old: ModelName, name: bytes) -> bytes:
        """What is here, with another name of the model."""
        return b"".join([*self._between(0, old.start), name, *self._between(old.end, self.size_bytes)])

    def _keep(self, piece: bytes) -> None:
        self.size_bytes += len(piece)
        self._lease.grow_to(self.size_bytes, KEPT_BYTES_MAX)
        self._kept.write(piece)

    def _between(self, start: int, end: int) -> Iterator[bytes]:
        while start < end:
            self._kept.seek(start)
            piece = self._kept.read(min(PIECE_BYTES, end - start))
            start += len(piece)
            yield piece


class Uploaded(CallRoute):
    """A call whose body is a form with a file in it."""

    otherwise = Passed.otherwise

    async def answer(self, call: Call) -> None:
        boundary = boundary_of(call.request.headers.get("content-type", ""))
        declared = call.request.headers.get("content-length", "")
        arrival = Arrival(call.request.receive)
        lease = ByteLease(call.parts.gateway.upload_budget, call.principal.key_id)
        with closing(lease), tempfile.SpooledTemporaryFile(KEPT_BYTES_MAX) as kept:
            form = Form(kept, arrival.pieces(), lease)
            named = await form.read_name(boundary)
            model = await call.model(named.value)
            call.require(model, self.call)
            if not declared.isdigit() or form.size_bytes >= int(declared):
                await form.read_rest()
            size_bytes = max(form.size_bytes, int(declared) if declared.isdigit() else 0)
            await while_there(arrival.receive, lambda: self._pass_on(call, model, form, named, size_bytes))

    async def _pass_on(self, call: Call, model: Served, form: Form, named: ModelName, size_bytes: int) -> None:
        name = model.name.encode()
        told_bytes = size_bytes - (named.end - named.start) + len(name)
        kind = call.request.headers["content-type"]
        if form.size_bytes == size_bytes <= KEPT_BYTES_MAX:
            # All of it is in memory: another engine can still be told if this one is lost.
            body, rest = form.beginning(named, name), None
        else:
            body, rest = b"", form.renamed(named, name)
        wish = call.wish(
            model,
            self.call,
            body,
            content_type=kind,
            received_bytes=size_bytes,
            size_bytes=None if rest is None else told_bytes,
        )
        await pass_on(call, wish, rest)


UPLOAD_ROUTES = [post(Uploaded(PATHS[call], call, OPENAI)) for call in ("transcriptions", "translations")]
