"""A hub on the loopback: the calls that the hub's library makes, and a second host that has the large files."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.worker.backends.server import FileServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LATER = "89abcdef0123456789abcdef0123456789abcdef"
TOKEN = "hf_secret"


@dataclass
class Repository:
    # By path; large ones are on the other host.
    files: dict[str, bytes]
    large: frozenset[str] = frozenset()
    is_private: bool = False
    is_gated: bool = False
    revisions: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})


class Hub:
    def __init__(self, storage: FileServer) -> None:
        self.repositories: dict[str, Repository] = {}
        # The host with the large files.
        self.storage = storage
        self.requests: list[tuple[str, str | None]] = []
        self.agents: set[str] = set()
        # Instead of an answer about a repository.
        self.fault: web.Response | None = None
        self.url = ""

    def put(self, name: str, repository: Repository) -> Repository:
        self.repositories[name] = repository
        for path in repository.large:
            self.storage.put(f"/{name}/{path}", repository.files[path])
        return repository

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Hub]:
        application = web.Application()
        application.router.add_get("/api/models/{name:[^/]+/[^/]+}", self._info)
        application.router.add_get("/api/models/{name:[^/]+/[^/]+}/revision/{revision}", self._info)
        application.router.add_get("/{name:[^/]+/[^/]+}/resolve/{revision}/{path:.+}", self._file)
        application.router.add_get("/{path:.*}", self._other)
        async with TestServer(application) as server:
            self.url = f"http://{server.host}:{server.port}"
            yield self

    def _find(self, request: web.Request) -> Repository | web.Response:
        token = request.headers.get("Authorization")
        self.requests.append((request.path, token))
        self.agents.add(request.headers.get("User-Agent", ""))
        found = self.repositories.get(request.match_info["name"])
        if found is None or (found.is_private and token != f"Bearer {TOKEN}"):
            # The hub does not tell strangers what is private.
            code = {"X-Error-Code": "RepoNotFound"} if token else {"X-Error-Message": "Invalid username or password."}
            return web.Response(status=404 if token else 401, headers=code)
        if found.is_gated and token != f"Bearer {TOKEN}":
            return web.Response(status=401 if token is None else 403, headers={"X-Error-Code": "GatedRepo"})
        return found

    async def _other(self, request: web.Request) -> web.Response:
        self.requests.append((request.path, request.headers.get("Authorization")))
        return web.Response(status=404)

    async def _info(self, request: web.Request) -> web.Response:
        if self.fault is not None:
            return web.Response(status=self.fault.status, body=self.fault.body, content_type=self.fault.content_type)
        found = self._find(request)
        if isinstance(found, web.Response):
            return found
        name, revision = request.match_info["name"], request.match_info.get("revision", "main")
        commit = revision if revision in found.revisions.values() else found.revisions.get(revision)
        if commit is None:
            return web.Response(status=404, headers={"X-Error-Code": "RevisionNotFound"})
        siblings = [self._sibling(found, path) for path in found.files]
        about = {"_id": "1", "id": name, "sha": commit, "private": found.is_private, "tags": [], "downloads": 0}
        return web.json_response(about | {"likes": 0, "siblings": siblings if "blobs" in request.query else []})

    def _sibling(self, repository: Repository, path: str) -> dict[str, object]:
        content = repository.files[path]
        about: dict[str, object] = {"rfilename": path, "size": len(content), "blobId": "0" * 40}
        if path in repository.large:
            digest = hashlib.sha256(content).hexdigest()
            about["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 134}
        return about

    async def _file(self, request: web.Request) -> web.StreamResponse:
        found = self._find(request)
        if isinstance(found, web.Response):
            return found
        path = request.match_info["path"]
        if path in found.large:
            raise web.HTTPFound(f"{self.storage.url}/{request.match_info['name']}/{path}")
        if path not in found.files:
            return web.Response(status=404, headers={"X-Error-Code": "EntryNotFound"})
        return web.Response(body=found.files[path], headers={"ETag": f'"{path}"'})
