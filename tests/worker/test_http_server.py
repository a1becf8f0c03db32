"""The worker's own port."""

from __future__ import annotations

import aiohttp
import pytest

from corral.worker.http_server import WorkerHttpServer, open_listener


async def _get(session: aiohttp.ClientSession, port: int, path: str) -> tuple[int, dict[str, str]]:
    async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.json()


@pytest.mark.behaviour("OPS-86")
async def test_health_is_always_good_and_readiness_follows_the_reason():
    reason: str | None = "not on the bus"
    server = WorkerHttpServer(open_listener("127.0.0.1", 0), lambda: reason)
    port = server.port
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            assert (await _get(session, port, "/healthz"))[0] == 200
            assert await _get(session, port, "/readyz") == (503, {"status": "not ready", "reason": "not on the bus"})
            reason = None
            assert await _get(session, port, "/readyz") == (200, {"status": "ready"})
    finally:
        await server.stop()
