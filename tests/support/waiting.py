"""Waiting for a state of the world instead of sleeping for a guess."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
POLL_S = 0.02


async def eventually(look: Callable[[], Awaitable[T]], *, within_s: float = 30.0) -> T:
    """The first true value of `look`; fails when there is none in time."""
    last: T | None = None
    try:
        async with asyncio.timeout(within_s):
            while True:
                last = await look()
                if last:
                    return last
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise AssertionError(f"did not happen within {within_s} s; the last look gave {last!r}") from None
