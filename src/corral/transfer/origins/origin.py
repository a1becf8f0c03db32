"""What every kind of origin is given, and what it can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from random import Random  # noqa: TID251 - only the type; the generator is passed in
from typing import Protocol

from corral.domain.errors import InvalidRequest
from corral.domain.model import FilePart
from corral.ports.origin import Found, Moved
from corral.ports.runtime import Clock
from corral.transfer.download import Downloader, Downloads
from corral.transfer.http import Http
from corral.transfer.options import Patience

# Of a file whose size nobody has promised. No model has files of this size; a broken server may have.
FILE_BYTES_MAX = 2 * 1024**4
# Of one address. A repository with more is not a model.
FILES_MAX = 10_000
# Partial files are the caller's folder's: everybody who fetches into it shares them.
_OWNER = "origins"


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginOptions:
    # Folders of this machine whose files may be read. None: no local files at all.
    paths: tuple[Path, ...] = ()
    # Empty: the public hub.
    hub_endpoint: str = ""
    hub_token: str = field(default="", repr=False)
    # Host of a registry, in small letters, to "user:password".
    registry_credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    # PATH, HOME, proxies, certificates, UV_* and PIP_*.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Users may name addresses inside a network.
    allows_private: bool = False
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    options: OriginOptions
    # For what the operator has set up: the hub, the index, registries with a credential. These may be anywhere.
    inside: Http
    # For addresses that users name.
    outside: Http
    clock: Clock
    rng: Random

    def http_for(self, host: str) -> Http:
        """For a registry: one that the operator has a credential for is the operator's choice."""
        return self.inside if host.lower() in self.options.registry_credentials else self.outside

    def downloader(self, into: Path, http: Http) -> Downloader:
        return Downloader(partials(into), http, self.clock, self.rng, FILE_BYTES_MAX)


class Origin(Protocol):
    """See `ports/origin.py`."""

    async def resolve(self, part: FilePart) -> tuple[Found, ...]: ...

    async def fetch(self, found: Found, into: Path, moved: Moved) -> Path: ...

    async def forget(self, found: Found, into: Path) -> None: ...


def partials(into: Path) -> Downloads:
    return Downloads(into, _OWNER)


def bad_address(uri: str, wanted: str) -> InvalidRequest:
    return InvalidRequest(f"{uri!r} is not an address of a file.", hint=f"It has to look like {wanted}.")


def is_inside(path: str) -> bool:
    """A relative path that stays in its folder."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\0" not in path and "\\" not in path
