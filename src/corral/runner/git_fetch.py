"""Fetches the skills of a git repository: `python -m corral.runner.git_fetch`, a process of its own for each sync.

Reads a request as JSON from its standard input and writes one line of JSON with the commit, then a tar.gz with the
folders of the skills. Only the newest commit of one branch is fetched, into the present folder. A process of its own,
because a repository is input of strangers: its parent limits its memory and its time, and kills it.

Guarantees: bytes and entries are bounded; links and submodules are never followed. With `is_public_only` each
connection, redirects included, is made only if every address of the host is public, and used only if the one that it
has reached is. Limit: proxies that the environment names are not used.
"""

from __future__ import annotations

import io
import json
import socket
import stat
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import urllib3
from dulwich.client import HTTPUnauthorized, Urllib3HttpGitClient
from dulwich.config import ConfigFile
from dulwich.errors import GitProtocolError, HangupException, NotGitRepository
from dulwich.object_store import DiskObjectStore, ObjectStoreGraphWalker
from dulwich.objects import Blob, Commit, Tree

from corral.domain.errors import CorralError, InvalidRequest
from corral.policy.addresses import is_private_address
from corral.policy.skills import (
    ARCHIVE_PATH_BYTES_MAX,
    FILE_BYTES_MAX,
    FILES_MAX,
    REPO_SKILLS_MAX,
    normalise_path,
)
from corral.runtime.attempt import AttemptFailure, attempt_sync

# The pack of one commit: skills are texts, and a repository with more holds something else.
PACK_BYTES_MAX = 64 * 1024 * 1024
# What is delivered to a frontend, before it is packed: a frontend takes 16 MiB, and there may be nothing to compress.
SKILLS_BYTES_MAX = 14 * 1024 * 1024
ENTRIES_MAX = 20_000
DEPTH_MAX = 24
PROBLEMS_MAX = 50
CONNECT_S, READ_S = 15.0, 60.0
REDIRECTS_MAX = 3
DOCUMENT_NAME = b"SKILL.md"


class GitFetchError(CorralError):
    """The repository cannot be fetched; the sentence is for its owner."""

    code = "git_fetch_failed"


class _AddressRefused(urllib3.exceptions.HTTPError):
    """A connection to a private address is refused."""


class _PublicHttpConnection(urllib3.connection.HTTPConnection):
    def _new_conn(self) -> socket.socket:
        _require_public(self.host, self.port or 80)
        return _check_peer(super()._new_conn())


class _PublicHttpsConnection(urllib3.connection.HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        _require_public(self.host, self.port or 443)
        return _check_peer(super()._new_conn())


class _PublicHttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _PublicHttpConnection


class _PublicHttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _PublicHttpsConnection


def _require_public(host: str, port: int) -> None:
    """Raise if a host, or any address of it, is private. The text is judged first: resolving an internal name would
    disclose it."""
    if not is_private_address(host):
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise _AddressRefused(f"The name service does not know the host ({error.strerror}).") from error
        if not any(is_private_address(str(address[0])) for *_, address in found):
            return
    raise _AddressRefused("The address leads into a private network or to the worker itself.")


def _check_peer(connection: socket.socket) -> socket.socket:
    """Return a connection that has reached a public address: the name may lead elsewhere since it was judged."""
    if is_private_address(str(connection.getpeername()[0])):
        connection.close()
        raise _AddressRefused("The address leads into a private network or to the worker itself.")
    return connection


@dataclass(slots=True, kw_only=True)
class RepoFolder:
    """A folder of a git repository with a `SKILL.md`: its files, or why it is left out."""

    path: str
    files: dict[str, Blob] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRepo:
    """Commit of a branch of a git repository, and an archive with its skills."""

    commit: str
    is_unchanged: bool = False
    archive: bytes = b""
    problems: tuple[str, ...] = ()


def fetch_repo(request: Mapping[str, Any], folder: Path) -> FetchedRepo:
    """Fetch the newest commit of a branch into a folder, and return its skills."""
    with closing(DiskObjectStore.init(folder)) as store:
        commit_id = _receive_pack(request, store)
        if commit_id.decode() == request.get("commit"):
            return FetchedRepo(commit=commit_id.decode(), is_unchanged=True)
        return _collect(store, commit_id)


def _receive_pack(request: Mapping[str, Any], store: DiskObjectStore) -> bytes:
    """Store the objects of the newest commit of a branch, unless it is the known one, and return its id."""
    target, commit_pack, abort_pack = store.add_pack()
    received = 0

    def write(data: bytes) -> int:
        nonlocal received
        received += len(data)
        if received > PACK_BYTES_MAX:
            raise GitFetchError(f"The repository has more than {PACK_BYTES_MAX >> 20} MiB in one commit.")
        return target.write(data)

    chosen = b""

    def choose(refs: Mapping[bytes, bytes | None], depth: int | None = None) -> list[Any]:
        nonlocal chosen
        del depth
        chosen = _find_commit(refs, str(request.get("branch") or ""))
        return [] if chosen.decode() == request.get("commit") else [chosen]

    is_whole = False
    try:
        _fetch(request, choose, write)
        is_whole = received > 0
    finally:
        if not is_whole:
            abort_pack()
    if is_whole:
        commit_pack()
    return chosen


def _fetch(request: Mapping[str, Any], choose: Any, write: Any) -> None:
    parts = urlsplit(str(request["url"]))
    pools = urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S),
        retries=urllib3.Retry(total=REDIRECTS_MAX, redirect=REDIRECTS_MAX),
        headers={"User-Agent": "git/corral"},
    )
    if request.get("is_public_only", True):
        pools.pool_classes_by_scheme = {"http": _PublicHttpPool, "https": _PublicHttpsPool}
    client = Urllib3HttpGitClient(
        f"{parts.scheme}://{parts.netloc}",
        pool_manager=pools,
        config=ConfigFile(),
        quiet=True,
        # Sent to the host of the address, and to none that it redirects to.
        username=str(request.get("username") or "") or None,
        password=str(request.get("password") or "") or None,
    )
    walker = ObjectStoreGraphWalker([], lambda _: [], shallow=set())
    try:
        client.fetch_pack(parts.path, choose, walker, write, depth=1)
    except (NotGitRepository, HTTPUnauthorized) as error:
        raise GitFetchError(_make_absence_sentence(has_secret=bool(request.get("password")))) from error
    except (GitProtocolError, HangupException) as error:
        raise GitFetchError(f"The repository cannot be fetched: {str(error)[:300]}") from error


def _make_absence_sentence(*, has_secret: bool) -> str:
    if has_secret:
        return "There is no git repository at this address, or its secret does not open it."
    return "There is no git repository at this address, or it is not public and needs a secret."


def _find_commit(refs: Mapping[bytes, bytes | None], branch: str) -> bytes:
    found = refs.get(f"refs/heads/{branch}".encode() if branch else b"HEAD")
    if found is None:
        name = f"no branch {branch!r}" if branch else "no branch of its own: name one"
        raise GitFetchError(f"The repository has {name}.")
    return found


def _collect(store: DiskObjectStore, commit_id: bytes) -> FetchedRepo:
    commit = store[commit_id]  # type: ignore[index]
    if not isinstance(commit, Commit):
        raise GitFetchError("The branch leads to no commit.")
    folders = _find_folders(store, commit.tree)
    problems = [f"{folder.path or 'SKILL.md'}: {folder.problem}" for folder in folders if folder.problem]
    kept: list[RepoFolder] = []
    size_bytes = 0
    for folder in folders:
        if folder.problem:
            continue
        size_bytes += sum(blob.raw_length() for blob in folder.files.values())
        if size_bytes > SKILLS_BYTES_MAX or len(kept) >= REPO_SKILLS_MAX:
            problems.append(
                f"{folder.path}: left out with those behind it; {SKILLS_BYTES_MAX >> 20} MiB and {REPO_SKILLS_MAX} "
                "skills are taken of a repository."
            )
            break
        kept.append(folder)
    return FetchedRepo(commit=commit_id.decode(), archive=_pack(kept), problems=tuple(problems[:PROBLEMS_MAX]))


def _find_folders(store: DiskObjectStore, root: bytes) -> list[RepoFolder]:
    """Return the outermost folders with a `SKILL.md`, by path."""
    found: list[RepoFolder] = []
    # Of the whole repository.
    walk = _TreeWalk(store)
    waiting: list[tuple[str, bytes, int]] = [("", root, 0)]
    while waiting:
        path, tree_id, depth = waiting.pop()
        entries = walk.read(tree_id, depth)
        if any(name == DOCUMENT_NAME and stat.S_ISREG(mode) for name, mode, _ in entries):
            found.append(_read_folder(walk, path, tree_id, depth))
            continue
        waiting += [
            (f"{path}{_decode(name)}/", entry_id, depth + 1) for name, mode, entry_id in entries if stat.S_ISDIR(mode)
        ]
    return sorted(found, key=lambda folder: folder.path)


def _read_folder(walk: _TreeWalk, path: str, tree_id: bytes, depth: int) -> RepoFolder:
    folder = RepoFolder(path=path.rstrip("/"))
    for name, mode, entry_id in _iter_files(walk, "", tree_id, depth):
        found = walk.store[entry_id] if stat.S_ISREG(mode) else None  # type: ignore[index]
        if not isinstance(found, Blob):
            return RepoFolder(path=folder.path, problem=f"{name} is a link or a submodule.")
        folder.files[name] = found
        problem = _find_path_problem(f"{path}{name}")
        if found.raw_length() > FILE_BYTES_MAX:
            problem = f"{name} is larger than {FILE_BYTES_MAX >> 20} MiB."
        if len(folder.files) > FILES_MAX + 1:
            problem = f"it has more than {FILES_MAX} files."
        if problem:
            return RepoFolder(path=folder.path, problem=problem)
    return folder


def _find_path_problem(path: str) -> str:
    """Return why no frontend takes a file at this path; empty if one does."""
    try:
        normalise_path(path, ARCHIVE_PATH_BYTES_MAX)
    except InvalidRequest as error:
        return error.message
    return ""


def _iter_files(walk: _TreeWalk, path: str, tree_id: bytes, depth: int) -> Iterator[tuple[str, int, bytes]]:
    for name, mode, entry_id in walk.read(tree_id, depth):
        inner = f"{path}{_decode(name)}"
        if stat.S_ISDIR(mode):
            yield from _iter_files(walk, f"{inner}/", entry_id, depth + 1)
        else:
            yield inner, mode, entry_id


class _TreeWalk:
    """Reads trees of one commit, and counts their entries."""

    def __init__(self, store: DiskObjectStore) -> None:
        self.store = store
        self._count = 0

    def read(self, tree_id: bytes, depth: int) -> list[tuple[bytes, int, bytes]]:
        tree = self.store[tree_id]  # type: ignore[index]
        if not isinstance(tree, Tree) or depth > DEPTH_MAX:
            raise GitFetchError(f"The repository has folders that are nested deeper than {DEPTH_MAX}.")
        entries: list[tuple[bytes, int, bytes]] = [(entry.path, entry.mode, entry.sha) for entry in tree.iteritems()]
        self._count += len(entries)
        if self._count > ENTRIES_MAX:
            raise GitFetchError(f"The repository has more than {ENTRIES_MAX} files.")
        return entries


def _decode(name: bytes) -> str:
    return name.decode(errors="replace")


def _pack(folders: list[RepoFolder]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for folder in folders:
            for path, blob in folder.files.items():
                content = blob.as_raw_string()
                entry = tarfile.TarInfo(f"{folder.path}/{path}" if folder.path else path)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return target.getvalue()


def main() -> None:
    """Answer the request on the standard input."""
    request = json.loads(sys.stdin.buffer.read())
    outcome = attempt_sync(lambda: fetch_repo(request, Path.cwd()))
    archive = b""
    if isinstance(outcome, AttemptFailure):
        error = outcome.error
        is_known = isinstance(error, CorralError)
        sentence = outcome.sentence if is_known else f"The repository cannot be read: {type(error).__name__}."
        answer: dict[str, Any] = {"error": sentence}
    else:
        repo, archive = outcome.value, outcome.value.archive
        answer = {"commit": repo.commit, "is_unchanged": repo.is_unchanged, "problems": list(repo.problems)}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + archive)


if __name__ == "__main__":
    main()
