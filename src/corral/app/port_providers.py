"""Implements a frontend's ports where no adapter does: by doing nothing, or by code that is imported late.

The null classes are for frontends that only administer or have no network access, and for the simulator. The origins of
model files are imported at the first file: they would be a large part of a frontend's start time, and many frontends
never fetch one. The libraries for shared storage are an extra, imported only where the settings name a storage.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import structlog

from corral.adapters.nats.credentials import UserTokenIssuer
from corral.adapters.nats.revocation import CredentialRevoker
from corral.adapters.storage import parse_address, parse_key
from corral.app.settings import FrontendSettings, parse_folders, parse_registry_credentials
from corral.bus.subjects import BusRole
from corral.domain.errors import INSTALL_HINT, CorralError, InvalidRequest, Unavailable
from corral.domain.model import FilePart
from corral.domain.node import Node, NodeType
from corral.ports.credentials import ANY_AUDIENCE, BusCredential
from corral.ports.files import FetchRequest, FetchResponse, OriginFile, ProgressCallback, SharedStorage
from corral.ports.requests import EngineEndpoint, EngineLost, EngineRequest, ResponseHandler
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet
from corral.transfer.tickets import Ticket, read_ticket, sign_ticket, verify_ticket


class NullEngineClient:
    """Implements `EngineClient` (requests to engines) without reaching any engine: every call is lost at once.

    For frontends that only administer, and for the simulator.
    """

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
    """Implements `Fetcher` (small documents over HTTP) without reaching any address.

    For frontends without network access and for the simulator.
    """

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        raise Unavailable(f"There is no way to {request.url.partition('?')[0][:200]}.", code="source_unavailable")

    async def look_up_addresses(self, host: str) -> tuple[str, ...]:
        del host
        return ()


class NullModelFileOrigins:
    """Implements `ModelFileOrigins` without finding any file.

    For frontends without network access and for the simulator.
    """

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
    """Finds and fetches model files from their origins, as a frontend's settings allow; imports its code late.

    The code is imported at the first file, so that a frontend starts fast. Implements `ModelFileOrigins`.

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


log = structlog.get_logger(__name__)


class NodeCredentialIssuer:
    """Issues and revokes the NATS credentials of nodes for a frontend, and signs tickets with the same seed.

    Implements `BusCredentialIssuer`.
    """

    name = "node credentials"

    def __init__(self, minter: UserTokenIssuer, revoker: CredentialRevoker, *, ttl_s: float, clock: Clock) -> None:
        self._minter = minter
        self._revoker = revoker
        self._ttl_s = ttl_s
        self._clock = clock
        self._tasks = TaskSet("revocations")

    def mint(self, node: Node, public_key: str) -> BusCredential:
        role = BusRole.AGENT if node.type is NodeType.AGENT else BusRole.WORKER
        token = self._minter.mint(
            role, public_key, subject_id=node.id, name=node.name, ttl_s=self._ttl_s, now=self._clock.wall()
        )
        return BusCredential(token=token, expires_in_s=self._ttl_s)

    async def revoke(self, *public_keys: str) -> None:
        """Start to revoke the credential in the background; does not wait for the server's confirmation."""
        if self._revoker.can_revoke:
            self._tasks.start(self._revoke(public_keys), name="revoke")
        else:
            log.info("bus credential not revoked: no operator seed; it runs out by itself", within_s=self._ttl_s)

    def issue_ticket(self, reader: str, scope: str, *, audience: str = ANY_AUDIENCE, ttl_s: float) -> str:
        expires_at = math.ceil(self._clock.wall().timestamp() + ttl_s)
        ticket = Ticket(reader=reader, scope=scope, expires_at=expires_at, audience=audience)
        return sign_ticket(ticket, self._minter.sign)

    def is_valid_ticket(self, text: str, *, reader: str, scope: str, audience: str) -> bool:
        try:
            ticket = verify_ticket(
                text, self._minter.account_public, audience=audience, scopes=(scope,), now=self._clock.wall()
            )
        except CorralError:
            return False
        return ticket.reader == reader

    def find_ticket_scope(self, text: str, *, audience: str) -> tuple[str, float] | None:
        now = self._clock.wall()
        try:
            ticket = read_ticket(text, self._minter.account_public, audience=audience, now=now)
        except CorralError:
            return None
        return ticket.scope, ticket.expires_at - now.timestamp()

    def get_ticket_key(self) -> str:
        return self._minter.account_public

    def derive_key(self, purpose: str) -> bytes:
        # A signature by Ed25519 is the same every time. What is signed begins with words that neither a token of the
        # bus nor a ticket begins with, and the signature itself is never shown.
        return hashlib.sha256(self._minter.sign(f"corral derived key 1\n{purpose}".encode())).digest()

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        await self._tasks.join()

    async def _revoke(self, public_keys: tuple[str, ...]) -> None:
        outcome = await attempt(lambda: self._revoker.revoke(*public_keys))
        if isinstance(outcome, AttemptFailure):
            log.warning("bus credential not revoked; it runs out by itself", error=outcome.sentence)
