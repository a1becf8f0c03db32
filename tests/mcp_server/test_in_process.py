"""Calls of tools inside a frontend: what the application sees, and what comes back."""

from __future__ import annotations

import json

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from corral.api.errors import install_error_handlers
from corral.client.transport import ApiRequest
from corral.domain.errors import CorralError
from corral.mcp_server import http_endpoint
from corral.mcp_server.http_endpoint import InProcessTransport

OUTER: Scope = {
    "headers": [
        (b"authorization", b"Bearer ck_1"),
        (b"x-api-key", b"ck_1"),
        (b"cookie", b"corral_session=cs_1"),
        (b"x-corral-request", b"1"),
        (b"host", b"corral.example.com"),
        (b"origin", b"https://corral.example.com"),
        (b"content-length", b"999"),
        (b"mcp-protocol-version", b"2026-07-28"),
        (b"idempotency-key", b"outer"),
    ],
    "scheme": "https",
    "client": ("10.0.0.9", 1234),
    "server": ("127.0.0.1", 8080),
    "state": {"request_id": "mine-1"},
}


def _make_app() -> FastAPI:
    app = FastAPI()
    install_error_handlers(app)

    @app.post("/seen/{name:path}")
    async def _seen(request: Request, name: str) -> dict[str, object]:
        return {
            "name": name,
            "query": dict(request.query_params),
            "headers": dict(request.headers),
            "body": (await request.body()).decode(),
            "client": request.client.host if request.client else None,
            "scheme": request.url.scheme,
        }

    @app.get("/broken")
    async def _broken() -> None:
        raise RuntimeError("secret of the inside")

    @app.get("/streamed")
    async def _streamed() -> Response:
        return StreamingResponse(iter([b"[1,", b"2]"]), media_type="application/json")

    return app


async def test_request_has_the_credentials_and_the_id_of_the_caller_and_nothing_else_of_the_outer_request() -> None:
    transport = InProcessTransport(_make_app(), OUTER)
    request = ApiRequest(
        method="POST",
        path="/seen/org%2Fm%20x",
        parameters={"a": "b&c"},
        body={"n": 1},
        headers={"If-Match": "3"},
    )
    seen = json.loads(await transport.send(request))
    assert (seen["name"], seen["query"], seen["body"]) == ("org/m x", {"a": "b&c"}, '{"n": 1}')
    assert (seen["client"], seen["scheme"]) == ("10.0.0.9", "https")
    assert seen["headers"] == {
        "authorization": "Bearer ck_1",
        "x-api-key": "ck_1",
        "cookie": "corral_session=cs_1",
        "x-corral-request": "1",
        "host": "corral.example.com",
        "if-match": "3",
        "accept": "application/json",
        "content-length": "8",
        "content-type": "application/json",
        "x-request-id": "mine-1",
    }


async def test_response_in_pieces_is_put_together() -> None:
    transport = InProcessTransport(_make_app(), OUTER)
    assert await transport.send(ApiRequest(method="GET", path="/streamed")) == b"[1,2]"


async def test_unexpected_error_of_a_route_is_the_error_that_the_api_would_answer() -> None:
    transport = InProcessTransport(_make_app(), OUTER)
    with pytest.raises(CorralError, match="This is a bug in Corral") as caught:
        await transport.send(ApiRequest(method="GET", path="/broken"))
    assert caught.value.slug == "internal"
    assert "secret" not in str(caught.value)


async def test_error_before_any_response_is_raised() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("no response")

    with pytest.raises(RuntimeError, match="no response"):
        await InProcessTransport(app, OUTER).send(ApiRequest(method="GET", path="/"))


async def test_response_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "RESPONSE_BYTES_MAX", 4)
    transport = InProcessTransport(_make_app(), OUTER)
    with pytest.raises(CorralError, match="larger than any of Corral"):
        await transport.send(ApiRequest(method="GET", path="/streamed"))
