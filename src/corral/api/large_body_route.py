"""Routes of FastAPI whose bodies may be as large as those of models: attachments of jobs, files and answers of batches.

FastAPI decodes a body on the event loop before it asks who sent it. Guarantee: here a large body is decoded in the
frontend's compute process, and only for a caller whose key or credential is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from corral.api.deps import ApiDeps, authenticate_caller, get_bearer_secret, get_deps
from corral.gateway.request.request_body import decode_elsewhere

# Up to this size, the limit of all other routes, decoding takes some milliseconds: the values are limited, too.
IN_PLACE_BYTES_MAX = 1024 * 1024


class LargeBodyRoute(APIRoute):
    """FastAPI route of a frontend that decodes large request bodies away from the event loop."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_large(request: Request) -> Response:
            large = _LargeBodyRequest(request.scope, request.receive)
            await large.decode_if_large(await get_deps(request))
            return await handle(large)

        return handle_large


class _LargeBodyRequest(Request):
    """Holds the decoded body, which FastAPI asks for."""

    _decoded: tuple[Any] | None = None

    async def decode_if_large(self, deps: ApiDeps) -> None:
        body = await self.body()
        if len(body) <= IN_PLACE_BYTES_MAX or "json" not in self.headers.get("content-type", ""):
            return
        node_id = self.path_params.get("node_id")
        if node_id is None:
            await authenticate_caller(self, deps)
        else:
            await deps.directory.authenticate_node(node_id, get_bearer_secret(self))
        self._decoded = (await deps.compute.run(decode_elsewhere, body))[:1]

    async def json(self) -> Any:
        return await super().json() if self._decoded is None else self._decoded[0]
