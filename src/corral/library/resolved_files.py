"""Resolves the files of a model configuration: every address resolved, every path made safe, before a byte moves."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from corral.domain.errors import InvalidRequest, NotFound, Unprocessable
from corral.domain.model import Blob, FilePart, ModelFile
from corral.ports.files import ModelFileOrigins, OriginFile, pick_model_file
from corral.transfer.chunks import check_sha256

# A folder with more files than this is no model.
FILES_MAX = 20_000
PATH_CHARACTERS_MAX = 1024
UPLOAD = "upload:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedFile:
    """Names one file of a model with the found sources of its parts. No parts: it was uploaded."""

    path: str
    parts: tuple[OriginFile, ...]
    # Empty: no sha256 was given.
    sha256: str = ""

    @property
    def size_bytes(self) -> int | None:
        sizes = [part.size_bytes for part in self.parts]
        return None if not sizes or None in sizes else sum(size or 0 for size in sizes)

    @property
    def key(self) -> str:
        """Return a key that is equal for equal contents, as far as that is known before the fetch."""
        if self.sha256:
            return self.sha256
        return hashlib.sha256("\n".join(part.address for part in self.parts).encode()).hexdigest()


def is_upload(file: ModelFile) -> bool:
    """Whether the file was uploaded to the library, and has no other source."""
    return len(file.parts) == 1 and file.parts[0].uri.startswith(UPLOAD)


async def resolve_files(origins: ModelFileOrigins, files: Sequence[ModelFile]) -> tuple[ResolvedFile, ...]:
    """Return all files of a model, by path. Two files with one path are refused, and so is a path that leads out."""
    found: dict[str, ResolvedFile] = {}
    for file in files:
        for resolved in await _resolve(origins, file):
            path = check_path(resolved.path)
            if path in found:
                raise Unprocessable(f"Two files of the model have the path {path}.", code="duplicate_path")
            found[path] = replace(resolved, path=path)
    if len(found) > FILES_MAX:
        raise Unprocessable(f"The model has {len(found)} files; {FILES_MAX} are allowed.", code="too_many_files")
    return tuple(found[path] for path in sorted(found))


async def measure(
    origins: ModelFileOrigins, files: Sequence[ModelFile], find: Callable[[str], Awaitable[Blob | None]]
) -> int | None:
    """Ask the sources of these files whether they exist, and return how many bytes they have in all.

    Nothing is fetched. None if a source does not report its size. Raises what fetching would raise for an address
    that is wrong, that does not respond, or that leads into a private network. `find` looks for an uploaded file.
    """
    sizes = []
    for one in await resolve_files(origins, files):
        if one.parts:
            sizes.append(one.size_bytes)
            continue
        sent = await find(one.sha256)
        if sent is None:
            raise NotFound(
                f"No file with the sha256 {one.sha256} has been uploaded.",
                hint="Upload it first: POST /api/files, or `corral models import FILE`.",
                code="blob_not_found",
            )
        sizes.append(sent.size_bytes)
    return None if None in sizes else sum(size or 0 for size in sizes)


async def _resolve(origins: ModelFileOrigins, file: ModelFile) -> list[ResolvedFile]:
    if not file.parts:
        raise InvalidRequest(f"{file.path or 'A file'} has no source.", code="no_source")
    if len(file.parts) == 1:
        return await _resolve_one(origins, file, file.parts[0])
    parts = [_require_single(await origins.resolve(part), part) for part in file.parts]
    return [ResolvedFile(path=file.path, parts=tuple(parts), sha256=_merge_promises(file.sha256))]


async def _resolve_one(origins: ModelFileOrigins, file: ModelFile, part: FilePart) -> list[ResolvedFile]:
    is_folder = not file.path or file.path.endswith("/")
    if is_upload(file):
        sha256 = _merge_promises(file.sha256, part.sha256, part.uri.removeprefix(UPLOAD))
        if is_folder:
            raise InvalidRequest("An uploaded file needs a path of its own in the model.", code="no_path")
        return [ResolvedFile(path=file.path, parts=(), sha256=sha256)]
    found = await origins.resolve(part)
    if is_folder:
        return [
            ResolvedFile(path=f"{file.path}{one.path}", parts=(one,), sha256=_merge_promises(one.sha256))
            for one in found
        ]
    one = _require_single(found, part)
    return [ResolvedFile(path=file.path, parts=(one,), sha256=_merge_promises(file.sha256, part.sha256, one.sha256))]


def _require_single(found: Sequence[OriginFile], part: FilePart) -> OriginFile:
    one = pick_model_file(found)
    if one is not None:
        return one
    raise Unprocessable(
        f"{part.uri.partition('?')[0]} is a folder of {len(found)} files, where one file is expected.",
        hint="Name the file in the address, or let the path end with a slash.",
        code="is_a_folder",
    )


def _merge_promises(*promises: str) -> str:
    """Return the one sha256 that was given; raises if several differ."""
    given = {check_sha256(promise) for promise in promises if promise}
    if len(given) > 1:
        raise Unprocessable(
            f"Different sha256 values were given for one file: {', '.join(sorted(given))}.",
            hint="Correct the sha256 in the configuration, or take it out.",
            code="digest_mismatch",
        )
    return next(iter(given), "")


def check_path(path: str) -> str:
    """Return the path as it is kept; `Unprocessable` if it would lead out of the model's folder on a node."""
    parts = PurePosixPath(path).parts
    is_printable = path.isprintable() and "\\" not in path
    if not parts or path.startswith("/") or ".." in parts or not is_printable or len(path) > PATH_CHARACTERS_MAX:
        raise Unprocessable(f"{path[:200]!r} cannot be the path of a model's file.", code="bad_path")
    return "/".join(parts)
