"""Outages in full length, and ten thousand connections. Not part of `make test`; `make chaos` runs them."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import pytest

from tests.e2e.gateway.outages import goes_away
from tests.e2e.models.scene import QUESTION, Models
from tests.support.frontends import ADMIN_KEY

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1200)]

TEN_MINUTES_S = 600.0
IDLE = 10_000
# As many as a port lets wait to be accepted, and fewer.
AT_ONCE = 200


async def test_postgresql_is_away_for_ten_minutes_under_traffic(models: Models) -> None:
    await goes_away(models, "ten-minutes", postgres=True, away_s=TEN_MINUTES_S)


async def test_postgresql_and_nats_are_away_for_ten_minutes_under_traffic(models: Models) -> None:
    await goes_away(models, "ten-minutes-without-both", postgres=True, nats=True, away_s=TEN_MINUTES_S)


async def test_ten_thousand_idle_connections_leave_room_for_requests(models: Models) -> None:
    await models.put("beside-idle-ones")
    await models.loaded("beside-idle-ones", "worker-1")
    address = urlsplit(models.cluster.frontends[0].url)
    async with AsyncExitStack() as stack:
        lines = []
        for _ in range(IDLE // AT_ONCE):
            opened = [asyncio.open_connection(address.hostname, address.port) for _ in range(AT_ONCE)]
            lines += await asyncio.gather(*opened)
        for _, writer in lines:
            stack.callback(writer.transport.abort)
        for _ in range(20):
            await models.answers("beside-idle-ones")
        async with models.stream("beside-idle-ones", max_tokens=20) as stream:
            assert (await stream.rest())[-1] == "[DONE]"
        # Each of them may ask, too.
        for reader, writer in lines[:: IDLE // 20]:
            writer.write(_asking("beside-idle-ones"))
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    await models.forget("beside-idle-ones")


def _asking(model: str) -> bytes:
    body = json.dumps({"model": model, "messages": QUESTION}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN_KEY}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
