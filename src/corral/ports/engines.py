"""Calling an engine: a body goes in as it is, an answer comes back as it is.

Bytes are neither read nor changed here. What went wrong is told by when it did: before the engine can have heard
anything, before its first byte, or in the middle of its answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from corral.domain.errors import CorralError


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCall:
    # Host and port of the engine.
    address: str
    path: str
    body: bytes = field(repr=False)
    # What the engine wants to be shown; empty if it checks nothing.
    key: str = field(default="", repr=False)


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


class EngineAnswer(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def content_type(self) -> str: ...

    def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. `EngineLost` if it breaks off before its end."""
        ...


class Engines(Protocol):
    def call(self, call: EngineCall) -> AbstractAsyncContextManager[EngineAnswer]:
        """The answer, from its first line on. `EngineRefused`: nobody listens there. `EngineLost`: it could not be
        reached in time, or went before it answered. Leaving the block before the end tells the engine to stop."""
        ...
