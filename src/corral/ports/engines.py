"""Calling an engine: a body goes in as it is, an answer comes back as it is.

Bytes are neither read nor changed here. What went wrong is told by when it did: before the engine can have heard
anything, before its first byte, or in the middle of its answer. Calls are made of plain callbacks, because a coroutine
for every piece of every stream is what makes proxies slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from corral.domain.errors import CorralError

Headers = Sequence[tuple[bytes, bytes]]
# Of an answer. It can be looked up: most answers of an engine have the same.
HeadLines = tuple[tuple[bytes, bytes], ...]


class Engine(Protocol):
    """Who is called. A `Replica` is one."""

    @property
    def address(self) -> str:
        """Host and port."""
        ...

    @property
    def engine_key(self) -> str:
        """What it wants to be shown; empty if it checks nothing."""
        ...


class EngineCall(Protocol):
    """What it is asked."""

    @property
    def path(self) -> str: ...

    @property
    def body(self) -> bytes: ...

    @property
    def content_type(self) -> str: ...

    @property
    def size_bytes(self) -> int | None:
        """Set: the body comes in pieces (`Line.write`) and has this many bytes in all; `body` holds its beginning."""
        ...

    def engine_headers(self) -> Headers:
        """More lines of the head, already checked: names in lower case, no line breaks."""
        ...


class EngineRefused(CorralError):
    """No engine listens at its address."""

    code: ClassVar[str] = "engine_refused"
    status: ClassVar[int] = 502
    retryable: ClassVar[bool] = True


class EngineLost(CorralError):
    """The engine did not answer, or its answer broke off."""

    code: ClassVar[str] = "engine_lost"
    status: ClassVar[int] = 502
    retryable: ClassVar[bool] = True


class Hearer(Protocol):
    """Who hears an answer: `on_head`, any number of `on_body`, `on_end`; or `on_whole` instead of all of them; or
    `on_lost` at any point, and then nothing more. Never from inside `send`."""

    def on_head(self, status: int, head: HeadLines, size_bytes: int | None) -> None:
        """Names are in lower case. Neither hop-by-hop lines nor the length are among them; `size_bytes` None: the
        answer does not say how long it is. Interim answers (1xx) are not told."""
        ...

    def on_body(self, piece: bytes) -> None: ...

    def on_end(self) -> None:
        """The answer is whole: as long as it said, or ended as it should."""
        ...

    def on_whole(self, status: int, head: HeadLines, body: bytes) -> None:
        """All of an answer that came at once."""
        ...

    def on_lost(self, error: EngineRefused | EngineLost) -> None: ...

    def on_writable(self, is_writable: bool) -> None:  # noqa: FBT001 - what a callback is told
        """Only for bodies in pieces: whether the engine takes more now."""
        ...


class Line(Protocol):
    """A call under way."""

    def pause(self) -> None:
        """Read no more of the answer for now: the client is slow."""
        ...

    def resume(self) -> None: ...

    def write(self, piece: bytes, *, is_last: bool = False) -> None:
        """The next piece of a body that comes in pieces."""
        ...

    def hang_up(self) -> None:
        """Nobody wants the answer any more. The engine notices, and nothing is heard afterwards. Harmless twice and
        after the end."""
        ...


class Engines(Protocol):
    def send(self, engine: Engine, call: EngineCall, hearer: Hearer) -> Line:
        """Returns at once. A kept connection that its engine had closed meanwhile is replaced by a new one unseen, as
        long as nothing of an answer was heard and the whole body is in `call`."""
        ...
