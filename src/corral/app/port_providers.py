"""Implements a frontend's ports where no adapter does: by doing nothing, or by code that is imported late.

The null classes are for frontends that only administer or have no network access, and for the simulator. The origins of
model files are imported at the first file: they would be a large part of a frontend's start time, and many frontends
never fetch one. The libraries for shared storage are an extra, imported only where the settings name a storage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from corral.adapters.storage import parse_address, parse_key
from corral.app.settings import FrontendSettings, parse_folders, parse_registry_credentials
from corral.domain.errors import INSTALL_HINT, InvalidRequest, Unavailable
from corral.domain.model import FilePart
from corral.ports.files import FetchRequest, FetchResponse, OriginFile, ProgressCallback, SharedStorage
from corral.ports.requests import EngineEndpoint, EngineLost, EngineRequest, ResponseHandler
from corral.ports.runtime import Clock


class NullEngineClient:
    """An `EngineClient` that reaches no engine: every call is lost at once. For frontends that only administer, and for
    the simulator."""

    def send(self, endpoint: EngineEndpoint, request: EngineRequest, handler: ResponseHandler) -> _NullCallHandle:
        del request
        line = _NullCallHandle()
        error = EngineLost(f"There is no way to {endpoint.address}.")
        line.lost_callback = asyncio.get_running_loop().call_soon(handler.on_lost, error)
        return line


class _NullCallHandle:
    """An `EngineCallHandle` of a call that is lost at once."""

    lost_callback: asyncio.Handle | None = None

    def pause(self) -> None:
        return

    def resume(self) -> None:
        return

    def write(self, piece: bytes, *, is_last: bool = False) -> None:
        del piece, is_last

    def abort(self) -> None:
        if self.lost_callback is not None:
            self.lost_callback.cancel()


class NullFetcher:
    """A `Fetcher` that reaches no address, for frontends without network access and for the simulator."""

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        raise Unavailable(f"There is no way to {request.url.partition('?')[0][:200]}.", code="source_unavailable")

    async def look_up_addresses(self, host: str) -> tuple[str, ...]:
        del host
        return ()


class NullModelFileOrigins:
    """A `ModelFileOrigins` that has no file."""

    async def resolve(self, part: FilePart) -> tuple[OriginFile, ...]:
        raise Unavailable(f"There is no way to {part.uri.partition('?')[0][:200]}.", code="source_unavailable")

    async def fetch(self, found: OriginFile, into: Path, moved: ProgressCallback) -> Path:
        del into, moved
        raise Unavailable(f"There is no way to {found.path}.", code="source_unavailable")

    async def forget(self, found: OriginFile, into: Path) -> None:
        del found, into


def open_storage(settings: FrontendSettings) -> SharedStorage | None:
    """Return the shared storage, or None if none is configured. Raises `InvalidRequest` if the needed extra is not
    installed."""
    if settings.library_storage is None:
        return None
    try:
        from corral.adapters.storage.s3 import S3Storage  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise InvalidRequest(
            "library_storage is set, and the library for it is not installed.",
            hint=INSTALL_HINT.format(extra="s3"),
        ) from error
    key = settings.library_storage_key
    return S3Storage(parse_address(settings.library_storage), parse_key(key.get_secret_value()) if key else None)


if TYPE_CHECKING:
    from corral.transfer.origins.origin_router import OriginRouter


class LazyModelFileOrigins:
    """Resolves and fetches model files according to the settings of a frontend; imports the code for it at the first
    file. Implements `ModelFileOrigins`.

    `extra_folders` are folders that may be read besides those of the settings: the library's.
    """

    name = "origins"

    def __init__(
        self,
        settings: FrontendSettings,
        clock: Clock,
        rng: Random,
        *,
        extra_folders: tuple[Path, ...] = (),
        environment: Mapping[str, str],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._extra_folders = extra_folders
        self._environment = environment
        self._open_lock = asyncio.Lock()
        self._origins: OriginRouter | None = None

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        origins, self._origins = self._origins, None
        if origins is not None:
            await origins.close()

    async def resolve(self, part: FilePart) -> tuple[OriginFile, ...]:
        return await (await self._ensure_open()).resolve(part)

    async def fetch(self, found: OriginFile, into: Path, moved: ProgressCallback) -> Path:
        return await (await self._ensure_open()).fetch(found, into, moved)

    async def forget(self, found: OriginFile, into: Path) -> None:
        await (await self._ensure_open()).forget(found, into)

    async def _ensure_open(self) -> OriginRouter:
        async with self._open_lock:
            if self._origins is None:
                await asyncio.to_thread(import_module, "corral.transfer.origins.origin_router")
                self._origins = self._make_origins()
        return self._origins

    def _make_origins(self) -> OriginRouter:
        from corral.transfer.origins.file_origin import OriginOptions  # noqa: PLC0415 - late, see above
        from corral.transfer.origins.origin_router import OriginRouter  # noqa: PLC0415 - late, see above

        settings = self._settings
        credentials = settings.registry_credentials
        options = OriginOptions(
            paths=(*parse_folders(settings.model_paths), *self._extra_folders),
            hub_endpoint=settings.hub_endpoint or "",
            hub_token=settings.hub_token.get_secret_value() if settings.hub_token else "",
            registry_credentials=parse_registry_credentials(credentials.get_secret_value()) if credentials else {},
            environment=self._environment,
            allows_private=settings.allow_private_sources,
        )
        return OriginRouter(options, self._clock, self._rng)
