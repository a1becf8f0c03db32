"""A little provider of identities: real HTTP, real RSA keys, strict about codes, PKCE and who may exchange them."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT_ID, CLIENT_SECRET = "corral", "the secret of the client: %&="
Change = Callable[[dict[str, Any]], None]


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Provider:
    """Everybody who comes is let in as `person`. What it signs can be bent by the test."""

    url: str = ""
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "4711", "preferred_username": "Ada"})
    keys: dict[str, rsa.RSAPrivateKey] = field(default_factory=lambda: {"one": new_key()})
    # By which of them it signs, or by a key that nobody knows of.
    kid: str | None = "one"
    signs_with: Any = None
    algorithm: str = "RS256"
    # Applied to the claims of a token before it is signed.
    bend: Change = lambda claims: None
    # Instead of the code: what is told to a browser that comes back.
    refuses: str = ""
    auth_methods: list[str] | None = None
    claimed_issuer: str = ""
    jwks_reads: int = 0
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    async def describe(self, _: web.Request) -> web.Response:
        document: dict[str, Any] = {
            "issuer": self.claimed_issuer or self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
        }
        if self.auth_methods is not None:
            document["token_endpoint_auth_methods_supported"] = self.auth_methods
        return web.json_response(document)

    async def authorize(self, request: web.Request) -> web.Response:
        query = dict(request.query)
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert "openid" in query["scope"].split()
        assert query["code_challenge_method"] == "S256"
        if self.refuses:
            raise web.HTTPFound(f"{query['redirect_uri']}?error={self.refuses}&state={query['state']}")
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        raise web.HTTPFound(f"{query['redirect_uri']}?code={code}&state={query['state']}")

    async def exchange(self, request: web.Request) -> web.Response:
        form = dict(await request.post())
        query = self.codes.pop(str(form.get("code")), None)
        if query is None or not self._is_client(request, form):
            return web.json_response({"error": "invalid_grant"}, status=400)
        digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if proof != query["code_challenge"] or form["redirect_uri"] != query["redirect_uri"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response({"id_token": self.token(query["nonce"]), "token_type": "Bearer", "access_token": "x"})

    def _is_client(self, request: web.Request, form: dict[str, Any]) -> bool:
        if self.auth_methods == ["client_secret_post"]:
            return form.get("client_secret") == CLIENT_SECRET and "Authorization" not in request.headers
        pair = "corral:the%20secret%20of%20the%20client%3A%20%25%26%3D"
        return request.headers.get("Authorization") == f"Basic {base64.b64encode(pair.encode()).decode()}"

    def token(self, nonce: str) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce, **self.person}
        self.bend(claims)
        key = self.signs_with if self.signs_with is not None else self.keys[self.kid or "one"]
        headers = {"kid": self.kid} if self.kid else None
        return jwt.encode(claims, key, algorithm=self.algorithm, headers=headers)

    async def publish(self, _: web.Request) -> web.Response:
        self.jwks_reads += 1
        public = [
            {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig"}
            for kid, key in self.keys.items()
        ]
        return web.json_response({"keys": public})


@asynccontextmanager
async def running_provider() -> AsyncIterator[Provider]:
    provider = Provider()
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", provider.describe)
    app.router.add_get("/authorize", provider.authorize)
    app.router.add_post("/token", provider.exchange)
    app.router.add_get("/keys", provider.publish)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield provider
    finally:
        await runner.cleanup()
