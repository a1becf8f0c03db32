"""Who this machine is: a secret of its own, a key for the bus, and the node that a frontend made of it.

Guarantee: secret and key are on the disk before the first registration, so a lost answer is harmless: the next call is
recognised by them. The file is whole or absent, readable by its owner alone. A damaged one is never replaced: with it
the machine would lose its place in the cluster without anybody having decided so.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from corral.domain.access import NODE_CREDENTIAL_PREFIX
from corral.domain.errors import CorralError
from corral.ports.runtime import Ids
from corral.runtime import disk

log = structlog.get_logger(__name__)

FILE_NAME = "identity.json"
FORMAT = 1
# Below this a secret was cut off; ours have 43 characters behind their prefix.
SHORTEST_CREDENTIAL = 32
_PRIVATE = 0o600


class IdentityDamaged(CorralError):
    """The worker's identity cannot be read."""

    code = "identity_damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class BusKeys:
    """How keys for the bus are made and read; the worker does not know their format."""

    new: Callable[[], tuple[str, str]]
    """A seed and its public key."""
    public_of: Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    credential: str = field(repr=False)
    bus_seed: str = field(repr=False)
    bus_public_key: str
    # What a frontend made of it: absent until a registration was answered.
    node_id: str | None = None
    name: str | None = None
    frontend: str | None = None

    def is_accepted_as(self, name: str, frontend: str) -> bool:
        """Whether a registration under this name at this address has been answered before."""
        return self.node_id is not None and self.name == name and self.frontend == frontend

    def accepted(self, node_id: str, name: str, frontend: str) -> Identity:
        return replace(self, node_id=node_id, name=name, frontend=frontend)

    def with_bus_key(self, seed: str, public_key: str) -> Identity:
        return replace(self, bus_seed=seed, bus_public_key=public_key)


class IdentityFile:
    """Read and written by the holder of the home's lock only."""

    def __init__(self, home: Path, keys: BusKeys) -> None:
        self._path = home / FILE_NAME
        self._keys = keys

    def load_or_create(self, ids: Ids) -> Identity:
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return self._create(ids)
        except (OSError, UnicodeDecodeError) as error:
            raise self._damaged(getattr(error, "strerror", None) or "it is not text") from error
        self._close_to_others()
        return self._parse(text)

    def save(self, identity: Identity) -> None:
        """Replace the file in one step; on return it is on the disk."""
        document = {
            "format": FORMAT,
            "credential": identity.credential,
            "bus_seed": identity.bus_seed,
            "node_id": identity.node_id,
            "name": identity.name,
            "frontend": identity.frontend,
        }
        try:
            disk.replace(self._path, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())
        except OSError as error:
            raise CorralError(
                f"The worker's identity cannot be written to {self._path}: {error.strerror}.",
                hint="The worker needs a folder that it may write to, on a disk that is not full.",
                code="identity_not_written",
            ) from error

    def _create(self, ids: Ids) -> Identity:
        seed, public = self._keys.new()
        made = Identity(credential=f"{NODE_CREDENTIAL_PREFIX}{ids.secret()}", bus_seed=seed, bus_public_key=public)
        self.save(made)
        return made

    def _parse(self, text: str) -> Identity:
        try:
            document = json.loads(text)
        except ValueError as error:
            raise self._damaged("it is not JSON") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise self._damaged("it has a format that this version does not know")
        credential = self._text(document, "credential")
        if not credential.startswith(NODE_CREDENTIAL_PREFIX) or len(credential) < SHORTEST_CREDENTIAL:
            raise self._damaged("its credential is not whole")
        seed = self._text(document, "bus_seed")
        try:
            public = self._keys.public_of(seed)
        except CorralError as error:
            raise self._damaged("its key for the bus is not whole") from error
        known = {name: self._text(document, name) for name in ("node_id", "name", "frontend") if document.get(name)}
        return Identity(credential=credential, bus_seed=seed, bus_public_key=public, **known)

    def _text(self, document: Mapping[str, object], name: str) -> str:
        value = document.get(name)
        if not isinstance(value, str):
            raise self._damaged(f"its {name} is missing")
        return value

    def _close_to_others(self) -> None:
        mode = stat.S_IMODE(self._path.stat().st_mode)
        if mode & 0o077:
            log.warning("others could read the worker's identity; closed to them now", path=str(self._path))
            self._path.chmod(_PRIVATE)

    def _damaged(self, what: str) -> IdentityDamaged:
        return IdentityDamaged(
            f"The worker's identity in {self._path} cannot be used: {what}.",
            hint="Put the file back from a backup. Or move it away and remove the node with `corral nodes remove`: "
            "the machine then joins anew with a join token.",
        )
