"""Calls about skills and the git repositories that they come from; folders are packed before they are sent."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp

from corral.client.transport import (
    ApiRequest,
    ApiTransport,
    make_error_from_response,
    make_revision_headers,
    parse_json,
)
from corral.domain.errors import InvalidRequest
from corral.domain.skill import DOCUMENT_NAME
from corral.wire.skills import SkillDetailOut, SkillFileOut, SkillImportOut, SkillOut, SkillRepoOut

# Aliases, because inside a class with a method `list` that name means the method.
Skills = list[SkillOut]
Repos = list[SkillRepoOut]
# A frontend refuses more; a folder that was named by mistake is not packed as a whole.
UPLOAD_BYTES_MAX = 16 * 1024 * 1024
# An upload ends if no byte moves for this long.
STALL_S = 60.0
_PATH = "/api/agents/skills"
_REPOS_PATH = "/api/agents/git-repos"
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=STALL_S)


class SkillCalls:
    """Client-side calls of the HTTP API about skills of LLM agents and their git repositories."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(self, query: str = "") -> Skills:
        """Return your skills and the shared ones; with a query, those that contain it."""
        path, parameters = (f"{_PATH}/search", {"q": query}) if query else (_PATH, {})
        return await self._transport.fetch(ApiRequest(method="GET", path=path, parameters=parameters), Skills)

    async def get(self, name: str) -> SkillDetailOut:
        return await self._transport.fetch(ApiRequest(method="GET", path=_format_path(name)), SkillDetailOut)

    async def create(self, body: Mapping[str, Any]) -> SkillDetailOut:
        call = ApiRequest(method="POST", path=_PATH, body=body, creates=True)
        return await self._transport.fetch(call, SkillDetailOut)

    async def edit(self, name: str, body: Mapping[str, Any], *, revision: int | None = None) -> SkillDetailOut:
        """Replace the fields and instructions of a skill. `revision` is the one that was read: a newer one is a
        conflict."""
        headers = make_revision_headers(revision)
        call = ApiRequest(method="PUT", path=_format_path(name), body=body, headers=headers)
        return await self._transport.fetch(call, SkillDetailOut)

    async def delete(self, name: str) -> None:
        await self._transport.send(ApiRequest(method="DELETE", path=_format_path(name)))

    async def export(self, name: str) -> bytes:
        """Return a skill with its files as a tar.gz."""
        return await self._transport.send(ApiRequest(method="GET", path=f"{_PATH}/export/{quote(name, safe='')}"))

    async def import_path(self, path: Path, *, replaces: bool = False, is_shared: bool = False) -> SkillImportOut:
        """Create skills of an archive, of a folder, or of a single SKILL.md."""
        parameters = {"replace": str(replaces).lower(), "shared": str(is_shared).lower()}
        answer = await self._upload(f"{_PATH}/import", read_upload(path), parameters=parameters)
        return SkillImportOut.model_validate(parse_json(answer, origin=self._transport.url))

    async def put_file(self, name: str, path: str, content: bytes) -> SkillFileOut:
        """Store a file of a skill in the place of the one at this path."""
        answer = await self._upload(_format_path(name, "/resources"), content, fields={"path": path})
        return SkillFileOut.model_validate(parse_json(answer, origin=self._transport.url))

    async def read_file(self, name: str, path: str) -> bytes:
        return await self._transport.send(ApiRequest(method="GET", path=_format_file_path(name, path)))

    async def delete_file(self, name: str, path: str) -> None:
        await self._transport.send(ApiRequest(method="DELETE", path=_format_file_path(name, path)))

    # --- repositories ---

    async def list_repos(self) -> Repos:
        return await self._transport.fetch(ApiRequest(method="GET", path=_REPOS_PATH), Repos)

    async def add_repo(self, body: Mapping[str, Any]) -> SkillRepoOut:
        call = ApiRequest(method="POST", path=_REPOS_PATH, body=body, creates=True)
        return await self._transport.fetch(call, SkillRepoOut)

    async def edit_repo(self, repo_id: str, body: Mapping[str, Any]) -> SkillRepoOut:
        """Replace the definition of a repository."""
        call = ApiRequest(method="PUT", path=_format_repo_path(repo_id), body=dict(body))
        return await self._transport.fetch(call, SkillRepoOut)

    async def sync_repo(self, repo_id: str) -> SkillRepoOut:
        call = ApiRequest(method="POST", path=_format_repo_path(repo_id, "/sync"), creates=True)
        return await self._transport.fetch(call, SkillRepoOut)

    async def set_repo_enabled(self, repo_id: str, *, is_enabled: bool) -> SkillRepoOut:
        call = ApiRequest(method="POST", path=_format_repo_path(repo_id, "/toggle"), body={"enabled": is_enabled})
        return await self._transport.fetch(call, SkillRepoOut)

    async def delete_repo(self, repo_id: str) -> None:
        await self._transport.send(ApiRequest(method="DELETE", path=_format_repo_path(repo_id)))

    async def _upload(
        self,
        path: str,
        content: bytes,
        *,
        parameters: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send a file as a form, and return the answer. It is not repeated: a lost answer shows in the next list."""
        transport = self._transport
        form = aiohttp.FormData()
        for name, value in (fields or {}).items():
            form.add_field(name, value)
        form.add_field("file", io.BytesIO(content), filename="file", content_type="application/octet-stream")
        try:
            async with transport.session.post(
                f"{transport.url}{path}",
                data=form,
                params=dict(parameters or {}),
                headers=transport.make_headers(),
                timeout=_TIMEOUT,
                allow_redirects=False,
            ) as response:
                answer = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise transport.make_unreachable_error(error) from error
        if response.status != 201:
            raise make_error_from_response(response.status, answer, origin=transport.url)
        return answer


def read_upload(path: Path) -> bytes:
    """Return what is sent for a path: an archive as it is, a folder or a single SKILL.md as a tar. Raises
    `InvalidRequest` if it cannot be read or is too large."""
    try:
        if path.is_dir():
            return _pack_folder(path)
        content = _read_bounded(path, 0)
    except OSError as error:
        raise InvalidRequest(f"{error.filename or path} cannot be read: {error.strerror}.") from error
    return _pack({DOCUMENT_NAME: content}) if path.suffix.lower() == ".md" else content


def _pack_folder(folder: Path) -> bytes:
    files: dict[str, bytes] = {}
    size_bytes = 0
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if ".git" in inner.parts or "__pycache__" in inner.parts:
            continue
        if path.is_symlink():
            raise InvalidRequest(f"{path} is a link.", hint="Put a copy of the file in its place.")
        if path.is_file():
            files[inner.as_posix()] = _read_bounded(path, size_bytes)
            size_bytes += len(files[inner.as_posix()])
    if not any(Path(path).name == DOCUMENT_NAME for path in files):
        raise InvalidRequest(f"{folder} has no {DOCUMENT_NAME}.", hint="A skill is a folder with a SKILL.md in it.")
    return _pack(files)


def _read_bounded(path: Path, already_bytes: int) -> bytes:
    if already_bytes + path.stat().st_size > UPLOAD_BYTES_MAX:
        raise InvalidRequest(
            f"{path} is larger than skills may be: {UPLOAD_BYTES_MAX >> 20} MiB in all.", code="archive_too_large"
        )
    return path.read_bytes()


def _pack(files: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return target.getvalue()


def _format_path(name: str, rest: str = "") -> str:
    return f"{_PATH}/{quote(name, safe='')}{rest}"


def _format_file_path(name: str, path: str) -> str:
    return _format_path(name, f"/resources/{quote(path, safe='/')}")


def _format_repo_path(repo_id: str, rest: str = "") -> str:
    return f"{_REPOS_PATH}/{quote(repo_id, safe='')}{rest}"
