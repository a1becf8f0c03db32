"""All kinds of addresses behind one door: `Origins` as a frontend has it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random  # noqa: TID251 - only the type; the generator is passed in

from corral.domain.errors import InvalidRequest
from corral.domain.model import FilePart
from corral.ports.origin import Found, Moved, the_file
from corral.ports.runtime import Clock
from corral.transfer.faults import TransferFailed, told_when_full
from corral.transfer.files import PRIVATE_FOLDER
from corral.transfer.http import Http, shown
from corral.transfer.origins.hub import HubOrigin
from corral.transfer.origins.oci import OciOrigin
from corral.transfer.origins.ollama import OllamaOrigin
from corral.transfer.origins.origin import Means, Origin, OriginOptions, is_inside
from corral.transfer.origins.path import PathOrigin
from corral.transfer.origins.url import UrlOrigin
from corral.transfer.origins.wheel import WheelOrigin
from corral.transfer.threads import in_thread

_KINDS: Mapping[str, Callable[[Means], Origin]] = {
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


class AllOrigins:
    """`ports.origin.Origins`. Sessions are opened when they are needed, and closed by `close`."""

    def __init__(self, options: OriginOptions, clock: Clock, rng: Random) -> None:
        self._options = options
        self._clock = clock
        self._rng = rng
        self._open = contextlib.AsyncExitStack()
        self._opening = asyncio.Lock()
        self._means: Means | None = None

    async def close(self) -> None:
        self._means = None
        await self._open.aclose()

    async def resolve(self, part: FilePart) -> tuple[Found, ...]:
        found = await (await self._origin(part.uri)).resolve(part)
        for one in found:
            if not is_inside(one.path):
                raise TransferFailed(f"{one.path!r} leads out of the model's folder.", code="bad_package")
        return _with_promise(part, found)

    async def fetch(self, found: Found, into: Path, moved: Moved) -> Path:
        origin = await self._origin(found.address)
        with told_when_full(f"{found.path} was fetched"):
            await in_thread(lambda _stop: into.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER))
            return await origin.fetch(found, into, moved)

    async def forget(self, found: Found, into: Path) -> None:
        await (await self._origin(found.address)).forget(found, into)

    async def _origin(self, uri: str) -> Origin:
        kind = _KINDS.get("file" if uri.startswith("/") else uri.partition(":")[0])
        if kind is None:
            raise _unknown(uri)
        async with self._opening:
            if self._means is None:
                self._means = await self._make()
        return kind(self._means)

    async def _make(self) -> Means:
        options = self._options
        inside = Http(options.patience, options.environment)
        outside = Http(options.patience, options.environment, only_public=not options.allows_private)
        return Means(
            options=options,
            inside=await self._open.enter_async_context(inside),
            outside=await self._open.enter_async_context(outside),
            clock=self._clock,
            rng=self._rng,
        )


def _unknown(uri: str) -> TransferFailed | InvalidRequest:
    if uri.startswith("upload:"):
        return TransferFailed(
            "That file is not in the library yet.",
            hint="Send it first: `corral models import`.",
            code="not_found",
        )
    known = ", ".join(sorted(name for name in _KINDS if name not in ("blob", "http") and "+" not in name))
    return InvalidRequest(f"{shown(uri)!r} has no kind that Corral knows.", hint=f"Addresses begin with: {known}.")


def _with_promise(part: FilePart, found: tuple[Found, ...]) -> tuple[Found, ...]:
    """A promised digest is held against what the source says before a byte moves, and against the bytes later."""
    if not part.sha256:
        return found
    one = the_file(found)
    if one is None:
        raise InvalidRequest(f"{shown(part.uri)} is {len(found)} files; a sha256 is that of one.")
    if one.sha256 and one.sha256 != part.sha256:
        raise TransferFailed(
            f"{shown(part.uri)} is not what was promised: its sha256 is {one.sha256}, not {part.sha256}.",
            hint="Either the promise is wrong or somebody has changed the file. Do not use it until that is clear.",
            code="digest_mismatch",
        )
    return tuple(replace(each, sha256=part.sha256) if each is one else each for each in found)
