"""A real container registry on the loopback, and how to push to it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import platform
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.polling import eventually

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
PLAIN_LAYER = "application/vnd.oci.image.layer.v1.tar"
ZSTD_LAYER = "application/vnd.oci.image.layer.v1.tar+zstd"
CONFIG = "application/vnd.oci.image.config.v1+json"
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
USER = "reader:secret"
# bcrypt of that password, with the smallest cost.
_PASSWORDS = "reader:$2b$04$xbrUuXZUKqGt2CJzMERucOon1It0NLb9XedRIIxCknhSVcQ/LZrq.\n"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Registry:
    """`async with Registry(program, folder).running()`."""

    def __init__(self, program: str, folder: Path, *, needs_password: bool = False) -> None:
        self._program = program
        self._folder = folder
        self._needs_password = needs_password
        self.host = ""

    def _write_config(self, port: int) -> Path:
        config: dict[str, Any] = {
            "version": "0.1",
            "log": {"level": "error", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(self._folder / "data")}},
            "http": {"addr": f"127.0.0.1:{port}"},
        }
        if self._needs_password:
            passwords = self._folder / "passwords"
            passwords.write_text(_PASSWORDS)
            config["auth"] = {"htpasswd": {"realm": "test", "path": str(passwords)}}
        path = self._folder / "config.yml"
        # JSON is YAML.
        path.write_text(json.dumps(config))
        return path

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Registry]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        config = self._write_config(port)
        process = await asyncio.create_subprocess_exec(
            self._program, "serve", str(config), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        self.host = f"127.0.0.1:{port}"
        try:
            await eventually(self._answers)
            yield self
        finally:
            process.kill()
            await process.wait()

    async def _answers(self) -> bool:
        try:
            async with self._session() as session, session.get(f"http://{self.host}/v2/") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    def _session(self) -> aiohttp.ClientSession:
        encoded = base64.b64encode(USER.encode()).decode()
        return aiohttp.ClientSession(headers={"Authorization": f"Basic {encoded}"} if self._needs_password else None)

    # --- pushing ---

    async def push_blob(self, repository: str, content: bytes) -> dict[str, Any]:
        async with self._session() as session:
            async with session.post(f"http://{self.host}/v2/{repository}/blobs/uploads/") as begun:
                assert begun.status == 202, await begun.text()
                place = begun.headers["Location"]
            joint = "&" if "?" in place else "?"
            async with session.put(f"{place}{joint}digest={digest_of(content)}", data=content) as done:
                assert done.status == 201, await done.text()
        return {"digest": digest_of(content), "size": len(content)}

    async def push_manifest(self, repository: str, name: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """`name` may be empty: only by its digest then."""
        body = json.dumps(document).encode()
        address = f"http://{self.host}/v2/{repository}/manifests/{name or digest_of(body)}"
        headers = {"Content-Type": str(document["mediaType"])}
        async with self._session() as session, session.put(address, data=body, headers=headers) as done:
            assert done.status == 201, await done.text()
        return {"digest": digest_of(body), "size": len(body), "mediaType": document["mediaType"]}

    async def push_image(
        self, repository: str, tag: str, layers: Sequence[bytes], *, media_type: str = LAYER, title: str = ""
    ) -> dict[str, Any]:
        config = await self.push_blob(repository, b"{}")
        descriptors = []
        for layer in layers:
            descriptor = await self.push_blob(repository, layer) | {"mediaType": media_type}
            if title:
                descriptor["annotations"] = {"org.opencontainers.image.title": title}
            descriptors.append(descriptor)
        document = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config | {"mediaType": CONFIG},
            "layers": descriptors,
        }
        return await self.push_manifest(repository, tag, document)

    async def push_index(self, repository: str, tag: str, images: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """`images`: architecture to what `push_image` gave back."""
        manifests = [
            image | {"platform": {"os": "linux", "architecture": architecture}}
            for architecture, image in images.items()
        ]
        document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
        return await self.push_manifest(repository, tag, document)


class TokenGate:
    """Stands in front of a registry and wants a token, which is good for a few requests only."""

    def __init__(self, host: str, *, uses: int = 1000) -> None:
        self._host = host
        self._uses = uses
        self._tokens: dict[str, int] = {}
        self.scopes: list[str] = []
        self.basic: list[str | None] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        application = web.Application()
        application.router.add_get("/token", self._token)
        application.router.add_get("/v2/{rest:.*}", self._pass)
        async with TestServer(application) as server:
            self._own = f"http://{server.host}:{server.port}"
            yield f"{server.host}:{server.port}"

    async def _token(self, request: web.Request) -> web.Response:
        self.scopes.append(request.query["scope"])
        self.basic.append(request.headers.get("Authorization"))
        token = f"token-{len(self._tokens)}"
        self._tokens[token] = self._uses
        return web.json_response({"token": token})

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self._tokens.get(token, 0) <= 0:
            scope = "repository:" + request.match_info["rest"].rpartition("/")[0].rpartition("/")[0] + ":pull"
            challenge = f'Bearer realm="{self._own}/token",service="test",scope="{scope}"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        self._tokens[token] -= 1
        headers = {name: request.headers[name] for name in ("Accept", "Range", "If-Range") if name in request.headers}
        address = f"http://{self._host}{request.path}"
        async with aiohttp.ClientSession() as session, session.get(address, headers=headers) as response:
            kept = {
                name: response.headers[name]
                for name in ("Content-Type", "Content-Range", "ETag")
                if name in response.headers
            }
            return web.Response(status=response.status, body=await response.read(), headers=kept)
