"""Routes all kinds of addresses: `ModelFileOrigins` as a frontend has it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random  # noqa: TID251 - only the type; the generator is passed in

from corral.domain.errors import InvalidRequest
from corral.domain.model import FilePart
from corral.ports.files import OriginFile, ProgressCallback, pick_model_file
from corral.ports.runtime import Clock
from corral.transfer.faults import TransferFailed, translate_disk_full
from corral.transfer.files import PRIVATE_FOLDER, run_in_thread
from corral.transfer.http_client import TransferHttpClient, redact_url
from corral.transfer.origins.file_origin import FileOrigin, OriginDeps, OriginOptions, PathOrigin, UrlOrigin, is_inside
from corral.transfer.origins.hub_origin import HubOrigin
from corral.transfer.origins.oci_origin import OciOrigin, OllamaOrigin
from corral.transfer.origins.wheel_origin import WheelOrigin

_KINDS: Mapping[str, Callable[[OriginDeps], FileOrigin]] = {
    "file": PathOrigin,
    "http": UrlOrigin,
    "https": UrlOrigin,
    "hf": HubOrigin,
    "oci": OciOrigin,
    "oci+http": OciOrigin,
    "blob": OciOrigin,
    "ollama": OllamaOrigin,
    "ollama+http": OllamaOrigin,
    "wheel": WheelOrigin,
}


class OriginRouter:
    """Routes each address of a model file to the origin of its kind. Implements `ports.files.ModelFileOrigins`."""

    def __init__(self, options: OriginOptions, clock: Clock, rng: Random) -> None:
        self._options = options
        self._clock = clock
        self._rng = rng
        self._sessions = contextlib.AsyncExitStack()
        self._open_lock = asyncio.Lock()
        self._deps: OriginDeps | None = None

    async def close(self) -> None:
        self._deps = None
        await self._sessions.aclose()

    async def resolve(self, part: FilePart) -> tuple[OriginFile, ...]:
        found = await (await self._open_origin(part.uri)).resolve(part)
        for one in found:
            if not is_inside(one.path):
                raise TransferFailed(f"{one.path!r} leads out of the model's folder.", code="bad_package")
        return _apply_promise(part, found)

    async def fetch(self, found: OriginFile, into: Path, on_progress: ProgressCallback) -> Path:
        origin = await self._open_origin(found.address)
        with translate_disk_full(f"{found.path} was fetched"):
            await run_in_thread(lambda _stop: into.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER))
            return await origin.fetch(found, into, on_progress)

    async def forget(self, found: OriginFile, into: Path) -> None:
        await (await self._open_origin(found.address)).forget(found, into)

    async def _open_origin(self, uri: str) -> FileOrigin:
        kind = _KINDS.get("file" if uri.startswith("/") else uri.partition(":")[0])
        if kind is None:
            raise _make_unknown_error(uri)
        async with self._open_lock:
            if self._deps is None:
                self._deps = await self._make_deps()
        return kind(self._deps)

    async def _make_deps(self) -> OriginDeps:
        options = self._options
        inside = TransferHttpClient(options.patience, options.environment)
        outside = TransferHttpClient(options.patience, options.environment, only_public=not options.allows_private)
        return OriginDeps(
            options=options,
            trusted_http=await self._sessions.enter_async_context(inside),
            public_http=await self._sessions.enter_async_context(outside),
            clock=self._clock,
            rng=self._rng,
        )


def _make_unknown_error(uri: str) -> TransferFailed | InvalidRequest:
    if uri.startswith("upload:"):
        return TransferFailed(
            "That file is not in the library yet.",
            hint="Send it first: `corral models import`.",
            code="not_found",
        )
    known = ", ".join(sorted(name for name in _KINDS if name not in ("blob", "http") and "+" not in name))
    return InvalidRequest(
        f"{redact_url(uri)!r} is not a kind of address that Corral knows.", hint=f"Addresses begin with: {known}."
    )


def _apply_promise(part: FilePart, found: tuple[OriginFile, ...]) -> tuple[OriginFile, ...]:
    """Check a promised digest against what the source says before a byte moves, and against the bytes later."""
    if not part.sha256:
        return found
    one = pick_model_file(found)
    if one is None:
        raise InvalidRequest(f"{redact_url(part.uri)} is {len(found)} files; a sha256 is that of one.")
    if one.sha256 and one.sha256 != part.sha256:
        raise TransferFailed(
            f"{redact_url(part.uri)} is not what was promised: its sha256 is {one.sha256}, not {part.sha256}.",
            hint="Either the expected sha256 is wrong or the file was changed. Do not use it until that is clear.",
            code="digest_mismatch",
        )
    return tuple(replace(each, sha256=part.sha256) if each is one else each for each in found)
