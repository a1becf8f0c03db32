"""The proxy that everybody writes: FastAPI, httpx, and a `StreamingResponse`. Nothing of Corral is in it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI, Request
from starlette.background import BackgroundTask
from starlette.responses import StreamingResponse

_client: httpx.AsyncClient


@asynccontextmanager
async def _lifespan(_: FastAPI) -> AsyncIterator[None]:
    global _client
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=1024)
    async with httpx.AsyncClient(base_url=os.environ["UPSTREAM"], timeout=None, limits=limits) as _client:
        yield


app = FastAPI(lifespan=_lifespan)


@app.post("/v1/{path:path}")
async def proxy(path: str, request: Request) -> StreamingResponse:
    headers = {"content-type": request.headers["content-type"]}
    request_out = _client.build_request("POST", f"/v1/{path}", content=await request.body(), headers=headers)
    answer = await _client.send(request_out, stream=True)
    kept = {"content-type": answer.headers["content-type"]}
    closing = BackgroundTask(answer.aclose)
    return StreamingResponse(answer.aiter_raw(), status_code=answer.status_code, headers=kept, background=closing)
