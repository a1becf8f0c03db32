"""Waits for a state instead of sleeping for a guess."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
# The first looks come soon after each other, later ones at most so often: a look may cost a call of a busy frontend.
POLL_S = 0.02
POLL_MAX_S = 0.1
POLL_GROWTH = 1.3


async def eventually(look: Callable[[], Awaitable[T]], *, within_s: float = 30.0) -> T:
    """Return the first true value of `look`; fail if there is none in time."""
    last: T | None = None
    pause_s = POLL_S
    try:
        async with asyncio.timeout(within_s):
            while True:
                last = await look()
                if last:
                    return last
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * POLL_GROWTH, POLL_MAX_S)
    except TimeoutError:
        raise AssertionError(f"did not happen within {within_s} s; the last look gave {last!r}") from None


async def pause_traffic(seconds: float) -> None:
    """Wait between two requests or pieces of a stand-in that sends all the time. No test waits for a state with it."""
    await asyncio.sleep(seconds)
