"""A call under way, as who made it sees it (`ports.engines.Line`).

It outlives its connection in both directions: it is there before one is open, and harmless after the end, when the
connection carries another call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.ports.engines import EngineLost, EngineRefused, HeadLines, Hearer

if TYPE_CHECKING:
    from corral.adapters.engines.connection import Connection


class _Nobody:
    """Hears for calls that are over."""

    def on_head(self, status: int, head: HeadLines, size_bytes: int | None) -> None: ...

    def on_body(self, piece: bytes) -> None: ...

    def on_end(self) -> None: ...

    def on_whole(self, status: int, head: HeadLines, body: bytes) -> None: ...

    def on_lost(self, error: EngineRefused | EngineLost) -> None: ...

    def on_writable(self, is_writable: bool) -> None: ...  # noqa: FBT001 - as the port says


NOBODY: Hearer = _Nobody()


class HttpLine:
    """A call whose whole body is there."""

    __slots__ = ("address", "body", "connection", "head", "hearer", "is_paused", "is_sent")

    def __init__(self, address: str, head: bytes, body: bytes, hearer: Hearer) -> None:
        self.address = address
        self.head = head
        # Let go of when the answer begins: it may be large, and the answer long.
        self.body = body
        self.hearer = hearer
        # None: not yet, or not any more.
        self.connection: Connection | None = None
        self.is_paused = False
        # All of the body has been given to the connection.
        self.is_sent = True

    def pause(self) -> None:
        self.is_paused = True
        if self.connection is not None:
            self.connection.pause()

    def resume(self) -> None:
        self.is_paused = False
        if self.connection is not None:
            self.connection.resume()

    def write(self, piece: bytes, *, is_last: bool = False) -> None:  # noqa: ARG002 - as the port says
        raise AssertionError("the whole body of this call was there when it was made")

    def hang_up(self) -> None:
        connection = self.connection
        self.over()
        if connection is not None:
            connection.close()

    def over(self) -> Hearer:
        """Who is to be told of the end. It is let go of: it knows this line, and such a circle would have to wait for
        the garbage collector."""
        hearer, self.hearer, self.connection = self.hearer, NOBODY, None
        return hearer

    def on_connected(self) -> None:
        return

    def on_full(self) -> None:
        return

    def on_room(self) -> None:
        return


class PiecesLine(HttpLine):
    """A call whose body comes in pieces. Until it is connected they gather here, and the hearer is asked to wait."""

    __slots__ = ("_gathered", "_has_begun", "_is_full", "_unsent_bytes")

    def __init__(self, address: str, head: bytes, body: bytes, hearer: Hearer, *, size_bytes: int) -> None:
        super().__init__(address, head, body, hearer)
        self._unsent_bytes = size_bytes
        self._count(body)
        self._gathered: list[bytes] = []
        self._has_begun = False
        self._is_full = False

    def write(self, piece: bytes, *, is_last: bool = False) -> None:
        self._count(piece)
        if is_last and not self.is_sent:
            # Its client went away. The engine would wait for the rest for ever.
            self.hang_up()
        elif self.connection is not None:
            self.connection.write(piece)
        elif not self._has_begun:
            self._gathered.append(piece)

    def on_connected(self) -> None:
        self._has_begun = True
        gathered, self._gathered = self._gathered, []
        if gathered and self.connection is not None:
            self.connection.write(b"".join(gathered))
        if not self._is_full:
            self.hearer.on_writable(is_writable=True)

    def on_full(self) -> None:
        self._is_full = True
        self.hearer.on_writable(is_writable=False)

    def on_room(self) -> None:
        self._is_full = False
        self.hearer.on_writable(is_writable=True)

    def ask_to_wait(self) -> None:
        self.hearer.on_writable(is_writable=False)

    def _count(self, piece: bytes) -> None:
        self._unsent_bytes -= len(piece)
        assert self._unsent_bytes >= 0, "a body is longer than it was said to be"
        self.is_sent = not self._unsent_bytes
