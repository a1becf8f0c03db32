"""The interface of all origins of model files, and the two plain ones: a file at an HTTP address, and files of the
frontend's own machine below the folders that its settings name.

Local files are read where they lie and never changed. Sidecars with a digest (`X.sha256`, `X.sha256.target` beside a
file X) are not files of a model.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from random import Random  # noqa: TID251 - only the type; the generator is passed in
from typing import Protocol
from urllib.parse import unquote, urlsplit

from corral.domain.errors import InvalidRequest
from corral.domain.model import FilePart
from corral.ports.files import OriginFile, ProgressCallback
from corral.ports.runtime import Clock
from corral.transfer.downloader import Downloader, DownloadRequest, PartialDownloads
from corral.transfer.faults import TransferFailed
from corral.transfer.files import StopFlag, run_in_thread
from corral.transfer.http_client import TransferHttpClient, TransferOptions

# Limit for a file without a promised size. No model has files of this size; a broken server may have.
FILE_BYTES_MAX = 2 * 1024**4
# Limit of files of one address. A repository with more is not a model.
FILES_MAX = 10_000
# Partial files belong to the caller's folder: all fetches into that folder share them.
_OWNER = "origins"
_NAMELESS = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginOptions:
    """Tunables of fetching model files from origins: allowed folders, hub, registry credentials and limits."""

    # Folders of this machine whose files may be read. None means no local files at all.
    paths: tuple[Path, ...] = ()
    # Empty means the public hub.
    hub_endpoint: str = ""
    hub_token: str = field(default="", repr=False)
    # Registry host in lower case, to "user:password".
    registry_credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    # PATH, HOME, proxies, certificates, UV_* and PIP_*.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Whether users may name addresses inside a private network.
    allows_private: bool = False
    patience: TransferOptions = field(default_factory=TransferOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginDeps:
    """Dependencies of the origins from which model files are fetched: options, HTTP clients and clock."""

    options: OriginOptions
    # For what the operator has set up: the hub, the index, registries with a credential. These may be anywhere.
    trusted_http: TransferHttpClient
    # For addresses that users name.
    public_http: TransferHttpClient
    clock: Clock
    rng: Random

    def choose_http(self, host: str) -> TransferHttpClient:
        """Return the client for a registry: one that the operator has a credential for is trusted."""
        return self.trusted_http if host.lower() in self.options.registry_credentials else self.public_http

    def make_downloader(self, into: Path, http: TransferHttpClient) -> Downloader:
        return Downloader(open_partials(into), http, self.clock, self.rng, FILE_BYTES_MAX)


class FileOrigin(Protocol):
    """Interface that resolves and fetches model files from one kind of address, such as the Hugging Face hub."""

    async def resolve(self, part: FilePart) -> tuple[OriginFile, ...]: ...

    async def fetch(self, found: OriginFile, into: Path, on_progress: ProgressCallback) -> Path: ...

    async def forget(self, found: OriginFile, into: Path) -> None: ...


def open_partials(into: Path) -> PartialDownloads:
    return PartialDownloads(into, _OWNER)


def make_address_error(uri: str, expected_form: str) -> InvalidRequest:
    return InvalidRequest(f"{uri!r} is not an address of a file.", hint=f"It has to look like {expected_form}.")


def is_inside(path: str) -> bool:
    """Return whether a relative path stays in its folder."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\0" not in path and "\\" not in path


class UrlOrigin:
    """Fetches a model file from an HTTP address that a user named."""

    def __init__(self, deps: OriginDeps) -> None:
        self._deps = deps

    async def resolve(self, part: FilePart) -> tuple[OriginFile, ...]:
        name = _parse_name(part.uri)
        request = DownloadRequest(url=part.uri, file_name=name)
        size = await self._deps.make_downloader(Path(), self._deps.public_http).fetch_size(request)
        return (OriginFile(path=name, address=part.uri, sha256=part.sha256, size_bytes=size),)

    async def fetch(self, found: OriginFile, into: Path, on_progress: ProgressCallback) -> Path:
        return (
            await self._deps.make_downloader(into, self._deps.public_http).fetch(_make_request(found), on_progress)
        ).path

    async def forget(self, found: OriginFile, into: Path) -> None:
        open_partials(into).delete(_make_request(found))


def _make_request(found: OriginFile) -> DownloadRequest:
    return DownloadRequest(url=found.address, file_name=found.path, sha256=found.sha256, size_bytes=found.size_bytes)


def _parse_name(url: str) -> str:
    try:
        parts = urlsplit(url)
        name = PurePosixPath(unquote(parts.path)).name
        is_fine = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_fine, name = False, ""
    if not is_fine:
        raise make_address_error(url, "https://host/file")
    return name if name not in ("", "..") else _NAMELESS


_SIDECARS = (".sha256", ".sha256.target")


class PathOrigin:
    """Reads model files from folders of the frontend's own machine that its settings allow."""

    def __init__(self, deps: OriginDeps) -> None:
        self._deps = deps
        self._allowed = tuple(Path(os.path.realpath(folder)) for folder in deps.options.paths)

    async def resolve(self, part: FilePart) -> tuple[OriginFile, ...]:
        path = _parse_path(part.uri)
        return await run_in_thread(lambda stop: tuple(self._find(path, stop)))

    async def fetch(self, found: OriginFile, into: Path, on_progress: ProgressCallback) -> Path:
        path = _parse_path(found.address)
        size = await run_in_thread(lambda _stop: self._check_size(path))
        if found.sha256:
            request = DownloadRequest(url=found.address, file_name=path.name, sha256=found.sha256, size_bytes=size)
            await self._deps.make_downloader(into, self._deps.trusted_http).fetch(request, on_progress)
        on_progress(size, size)
        return path

    async def forget(self, found: OriginFile, into: Path) -> None:
        """Do nothing: no file was copied there."""

    def _find(self, path: Path, stop: StopFlag) -> Iterator[OriginFile]:
        self._check(path)
        if not path.is_dir():
            yield _make_file(path, path.name, self._check_size(path))
            return
        count = 0
        for file in _iterate_files(path, stop):
            count += 1
            if count > FILES_MAX:
                raise TransferFailed(f"{path} has more than {FILES_MAX} files.", code="unsupported")
            yield _make_file(file, file.relative_to(path).as_posix(), self._check_size(file))
        if not count:
            raise TransferFailed(f"There are no files in {path}.", code="not_found")

    def _check(self, path: Path) -> None:
        """Refuse a path outside the allowed folders, before its existence is disclosed."""
        real = Path(os.path.realpath(path))
        if not any(real.is_relative_to(folder) for folder in self._allowed):
            raise TransferFailed(
                f"{path} is not in a folder that models may be taken from.",
                hint="The setting model_paths of the frontend names these folders.",
                code="not_allowed",
            )

    def _check_size(self, path: Path) -> int:
        """Return the size of a file that may be read, wherever a link leads."""
        self._check(path)
        try:
            found = path.stat()
        except OSError as error:
            raise TransferFailed(f"{path} cannot be read: {error.strerror}.", code="not_found") from error
        if not stat.S_ISREG(found.st_mode):
            raise TransferFailed(f"{path} is neither a file nor a folder of files.", code="unsupported")
        return found.st_size


def _parse_path(uri: str) -> Path:
    text = uri
    if uri.startswith("file:"):
        parts = urlsplit(uri)
        if parts.netloc not in ("", "localhost"):
            raise make_address_error(uri, "file:///folder/file")
        text = unquote(parts.path)
    path = Path(text)
    if not path.is_absolute() or "\0" in text:
        raise make_address_error(uri, "/folder/file")
    return path


def _iterate_files(folder: Path, stop: StopFlag) -> Iterator[Path]:
    """Yield files sorted by path. Links to folders are not followed: they are yielded as links, and refused."""
    found = []
    for parent, folders, files in os.walk(folder, onerror=_raise_not_readable):
        stop.raise_if_set()
        names = set(files)
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        found += [Path(parent) / name for name in (*files, *links) if not _is_sidecar(name, names)]
    yield from sorted(found)


def _is_sidecar(name: str, names: set[str]) -> bool:
    return any(name.endswith(ending) and name.removesuffix(ending) in names for ending in _SIDECARS)


def _raise_not_readable(error: OSError) -> None:
    raise TransferFailed(f"{error.filename} cannot be read: {error.strerror}.", code="not_found") from error


def _make_file(path: Path, name: str, size: int) -> OriginFile:
    return OriginFile(path=name, address=path.as_uri(), size_bytes=size)
