"""The origins of model files, made of a frontend's settings.

The code behind it is imported with the first file that is asked for: it would be a good part of a frontend's start, and
many frontends never fetch anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from corral.app.settings import FrontendSettings, parse_folders, parse_registry_credentials
from corral.domain.model import FilePart
from corral.ports.origin import Found, Moved
from corral.ports.runtime import Clock

if TYPE_CHECKING:
    from corral.transfer.origins.origins import AllOrigins


class ModelOrigins:
    """`ports.origin.Origins`, and a service: its connections are closed with it.

    `own` are folders that may be read besides those of the settings: the library's.
    """

    name = "origins"

    def __init__(
        self,
        settings: FrontendSettings,
        clock: Clock,
        rng: Random,
        *,
        own: tuple[Path, ...] = (),
        environment: Mapping[str, str],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._own = own
        self._environment = environment
        self._opening = asyncio.Lock()
        self._origins: AllOrigins | None = None

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        origins, self._origins = self._origins, None
        if origins is not None:
            await origins.close()

    async def resolve(self, part: FilePart) -> tuple[Found, ...]:
        return await (await self._opened()).resolve(part)

    async def fetch(self, found: Found, into: Path, moved: Moved) -> Path:
        return await (await self._opened()).fetch(found, into, moved)

    async def forget(self, found: Found, into: Path) -> None:
        await (await self._opened()).forget(found, into)

    async def _opened(self) -> AllOrigins:
        async with self._opening:
            if self._origins is None:
                await asyncio.to_thread(import_module, "corral.transfer.origins.origins")
                self._origins = self._make()
        return self._origins

    def _make(self) -> AllOrigins:
        from corral.transfer.origins.origin import OriginOptions  # noqa: PLC0415 - late, see above
        from corral.transfer.origins.origins import AllOrigins  # noqa: PLC0415 - late, see above

        settings = self._settings
        credentials = settings.registry_credentials
        options = OriginOptions(
            paths=(*parse_folders(settings.model_paths), *self._own),
            hub_endpoint=settings.hub_endpoint or "",
            hub_token=settings.hub_token.get_secret_value() if settings.hub_token else "",
            registry_credentials=parse_registry_credentials(credentials.get_secret_value()) if credentials else {},
            environment=self._environment,
            allows_private=settings.allow_private_sources,
        )
        return AllOrigins(options, self._clock, self._rng)
