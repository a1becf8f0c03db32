"""Doing something only as long as the client is there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Receive

from corral.runtime.tasks import Tasks


async def while_there(receive: Receive, work: Callable[[], Awaitable[None]]) -> None:
    """Do it until it is done or the client has left; then it is cancelled. The body must have been read before."""
    has_left = False
    watching = Tasks("client")

    async def watch(scope: asyncio.Timeout) -> None:
        nonlocal has_left
        while (await receive())["type"] != "http.disconnect":
            continue
        has_left = True
        scope.reschedule(asyncio.get_running_loop().time())

    try:
        async with asyncio.timeout(None) as scope:
            watching.start(watch(scope), name="watch")
            await work()
    except TimeoutError:
        if not has_left:
            raise
    finally:
        await watching.close()
