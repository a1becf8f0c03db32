"""The named baseline: a heartbeat that is one transaction of its own, on the same framework, server and driver.

A registry that writes every heartbeat at once works like this: `python -m bench.baseline_app PORT URL`.
"""

from __future__ import annotations

import hashlib
import sys

import asyncpg
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from corral.wire.nodes import HeartbeatIn, HeartbeatOut

app = FastAPI()
SQL = """
    UPDATE nodes SET last_heartbeat_at = now(), lease_expires_at = now() + interval '45 s', liveness = 'alive',
           bus_ok = $3, available_vram = $4, available_ram = $5, available_disk = $6
     WHERE id = $1 AND credential_hash = $2
    RETURNING approved_at IS NOT NULL, drained_at IS NOT NULL
"""


@app.post("/api/node/{node_id}/heartbeat")
async def heartbeat(node_id: str, request: Request, body: HeartbeatIn) -> Response:
    pool: asyncpg.Pool = request.app.state.pool
    secret = request.headers["authorization"].removeprefix("Bearer ")
    hashed = hashlib.sha256(secret.encode()).hexdigest()
    async with pool.acquire() as connection, connection.transaction():
        row = await connection.fetchrow(
            SQL, node_id, hashed, body.bus_ok, body.available_vram, body.available_ram, body.available_disk
        )
    if row is None:
        return JSONResponse({}, status_code=404)
    answer = HeartbeatOut(approved=row[0], draining=row[1], heartbeat_interval_s=10)
    return JSONResponse(answer.model_dump())


@app.get("/healthz")
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


async def serve(port: int, url: str) -> None:
    app.state.pool = await asyncpg.create_pool(url, min_size=10, max_size=20)
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", http="httptools", loop="uvloop")
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
