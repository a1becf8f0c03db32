"""Ports for bytes from outside of the cluster: origins of model files, small documents, shared storage.

Of a model's files, `resolve` says what an address means, without moving its bytes; `fetch` fetches one file of it. The
result of `resolve` is pinned where the source can do that: a tag or a branch that moves later does not change what is
fetched.

Errors of origins are `CorralError`s with a code. Trying again may help (`retryable`): source_unavailable, bad_answer.
It does not: not_found, digest_mismatch, unsupported, not_allowed, private_address, disk_full, bad_package,
invalid_request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from corral.domain.model import FilePart

# Called with the bytes fetched so far, and with the total if it is known.
ProgressCallback = Callable[[int, int | None], None]
# The kind of the main file where a source has several for one model.
MODEL_KIND = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginFile:
    """One file of a model at its origin, such as the Hugging Face hub, from which the file can be fetched.

    Its relative path, its address there, and the size and sha256 if the origin says them.

    `path` is relative: the name of the file, or its place in the folder that the address means. `address` belongs to
    the origin: text without secrets of ours, that may be kept and used by another process later. `kind` is what the
    source says that the file is: "" mostly; from an Ollama registry model, projector, adapter, template, system or
    params.
    """

    path: str
    address: str
    # Empty and None if the source does not say.
    sha256: str = ""
    size_bytes: int | None = None
    kind: str = ""


class ModelFileOrigins(Protocol):
    """Interface that finds and fetches model files at their origins, such as the Hugging Face hub."""

    async def resolve(self, part: FilePart) -> tuple[OriginFile, ...]:
        """Return one file, or all files of a folder, sorted by path; never none."""
        ...

    async def fetch(self, found: OriginFile, into: Path, moved: ProgressCallback) -> Path:
        """Fetch a whole file, verified against its expected size and digest, and return its path.

        The file lies in the folder `into` and is the caller's to move, unless the address is a local file: that one
        stays where it is, and its own path is returned (`path.parent != into`). Partial bytes stay in `into` when this
        is cancelled, fails or dies, and the next call continues with them. Two calls for one `found` and one folder at
        a time are not expected."""
        ...

    async def forget(self, found: OriginFile, into: Path) -> None:
        """Delete what `fetch` has left in `into`, finished or not."""
        ...


def pick_model_file(files: Sequence[OriginFile]) -> OriginFile | None:
    """Return the model file where one file is expected: the only one, or the only one of kind model. None otherwise."""
    of_a_model = [one for one in files if one.kind == MODEL_KIND]
    candidates = of_a_model or list(files)
    return candidates[0] if len(candidates) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """One HTTP request for a small document, such as a gallery's index.

    `limit_bytes` is for the decompressed body; `timeout_s` is for the whole request.
    """

    url: str
    method: str = "GET"
    # They may hold a secret and go to this address only, never to a redirect target.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    limit_bytes: int = 4 * 1024 * 1024
    timeout_s: float = 120.0
    # Refuse addresses of private networks and of this machine, by the very address of the connection, also after
    # redirects. For addresses that users name.
    is_public_only: bool = False
    # A request with a body is never redirected.
    follows_redirects: bool = True
    # False: the status and the headers will do, and a body of any size is left where it is.
    reads_body: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """The HTTP response to a `FetchRequest`, whatever its status. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class Fetcher(Protocol):
    """Interface that fetches small documents over HTTP: gallery indexes and registry manifests, never model files."""

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        """Return the response. Raises `Unavailable` with the code `source_unavailable` if there is none: refused, cut,
        slow, a body over the limit, or too many redirects; `Unprocessable` with the code `private_address` if a request
        for public addresses would have led elsewhere. The message holds neither password nor query of the address.
        """
        ...

    async def look_up_addresses(self, host: str) -> tuple[str, ...]:
        """Return the addresses of a host by the name service; empty if there are none."""
        ...


class SharedStorage(Protocol):
    """Interface of a storage such as an S3 bucket that keeps model files by sha256 for all frontends and nodes."""

    @property
    def name(self) -> str:
        """Return the name under which the contents are registered; the same on every frontend."""
        ...

    async def find(self, sha256: str) -> int | None:
        """Return the size of the object under this sha256; None if there is none."""
        ...

    async def put(self, sha256: str, path: Path, moved: Callable[[int], None]) -> None:
        """Upload a whole file, replacing an existing one; the storage checks each part on its way.

        Raises `Unavailable` (storage_unavailable) if the storage does not respond, `Unprocessable` (storage_refused) if
        it rejects the file. `moved` is called with the bytes uploaded so far."""
        ...

    def read(self, sha256: str, offset: int, length: int) -> AsyncIterator[bytes]:
        """Yield these bytes of a content, in pieces. Raises `NotFound` (blob_not_here) if the content is gone."""
        ...

    async def make_address(self, sha256: str, life_s: float) -> str:
        """Return an address from which any client can GET the content, with ranges, for `life_s`; the address is a
        secret."""
        ...

    async def remove(self, sha256: str) -> None:
        """Remove the content. Succeeds if there is none."""
        ...

    async def close(self) -> None: ...
