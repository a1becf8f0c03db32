"""The worker's own folder, and the identity of this machine in it: its secret, a key for the bus, and its node.

The folder is made if it is absent, closed to others, and locked by one worker at a time. The lock is the kernel's: it
cannot outlive its holder, however that ends, and nothing has to be cleaned up.

Guarantee: secret and key are on the disk before the first registration, so a lost response is harmless: the next call
is recognised by them. The file is complete or absent, readable by its owner alone. A damaged one is never replaced: the
machine would lose its registration without an admin having decided so.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from corral.domain.access import NODE_CREDENTIAL_PREFIX
from corral.domain.errors import Conflict, CorralError, InvalidRequest
from corral.ports.runtime import IdGenerator
from corral.runtime import disk

log = structlog.get_logger(__name__)

FILE_NAME = "identity.json"
FORMAT = 1
# A shorter secret was cut off; ours have 43 characters behind their prefix.
SHORTEST_CREDENTIAL = 32
_PRIVATE = 0o600


class IdentityDamaged(CorralError):
    """The file with the worker's identity cannot be read."""

    code = "identity_damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class BusKeyFactory:
    """Interface that makes and reads a worker's key pairs for NATS, whose format the worker need not know."""

    make_key_pair: Callable[[], tuple[str, str]]
    """A seed and its public key."""
    derive_public_key: Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerIdentity:
    """The identity of a worker's machine: its secret, its NATS key, and the id of the node it was registered as."""

    credential: str = field(repr=False)
    bus_seed: str = field(repr=False)
    bus_public_key: str
    # Set by a frontend: absent until a registration was answered.
    node_id: str | None = None
    name: str | None = None
    frontend: str | None = None

    def is_accepted_as(self, name: str, frontend: str) -> bool:
        """Return whether a registration under this name at this address has been answered before."""
        return self.node_id is not None and self.name == name and self.frontend == frontend

    def with_registration(self, node_id: str, name: str, frontend: str) -> WorkerIdentity:
        return replace(self, node_id=node_id, name=name, frontend=frontend)

    def with_bus_key(self, seed: str, public_key: str) -> WorkerIdentity:
        return replace(self, bus_seed=seed, bus_public_key=public_key)


class WorkerIdentityFile:
    """Reads, creates and replaces the file with this worker's identity.

    Only for the holder of the home's lock.
    """

    def __init__(self, home: Path, key_factory: BusKeyFactory) -> None:
        self._path = home / FILE_NAME
        self._key_factory = key_factory

    def load_or_create(self, ids: IdGenerator) -> WorkerIdentity:
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return self._create(ids)
        except (OSError, UnicodeDecodeError) as error:
            raise self._make_damaged_error(getattr(error, "strerror", None) or "it is not text") from error
        self._close_to_others()
        return self._parse(text)

    def save(self, identity: WorkerIdentity) -> None:
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

    def _create(self, ids: IdGenerator) -> WorkerIdentity:
        seed, public = self._key_factory.make_key_pair()
        made = WorkerIdentity(
            credential=f"{NODE_CREDENTIAL_PREFIX}{ids.new_secret()}", bus_seed=seed, bus_public_key=public
        )
        self.save(made)
        return made

    def _parse(self, text: str) -> WorkerIdentity:
        try:
            document = json.loads(text)
        except ValueError as error:
            raise self._make_damaged_error("it is not JSON") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise self._make_damaged_error("it has a format that this version does not know")
        credential = self._get_text(document, "credential")
        if not credential.startswith(NODE_CREDENTIAL_PREFIX) or len(credential) < SHORTEST_CREDENTIAL:
            raise self._make_damaged_error("its credential is not whole")
        seed = self._get_text(document, "bus_seed")
        try:
            public = self._key_factory.derive_public_key(seed)
        except CorralError as error:
            raise self._make_damaged_error("its key for the bus is not whole") from error
        known = {name: self._get_text(document, name) for name in ("node_id", "name", "frontend") if document.get(name)}
        return WorkerIdentity(credential=credential, bus_seed=seed, bus_public_key=public, **known)

    def _get_text(self, document: Mapping[str, object], name: str) -> str:
        value = document.get(name)
        if not isinstance(value, str):
            raise self._make_damaged_error(f"its {name} is missing")
        return value

    def _close_to_others(self) -> None:
        mode = stat.S_IMODE(self._path.stat().st_mode)
        if mode & 0o077:
            log.warning("others could read the worker's identity; closed to them now", path=str(self._path))
            self._path.chmod(_PRIVATE)

    def _make_damaged_error(self, reason: str) -> IdentityDamaged:
        return IdentityDamaged(
            f"The worker's identity in {self._path} cannot be used: {reason}.",
            hint="Put the file back from a backup. Or move it away and remove the node with `corral nodes remove`: "
            "the machine then joins again with a join token.",
        )


LOCK_NAME = "worker.lock"
_ANOTHER_HOME = "Choose another folder with --worker-home."


class WorkerAlreadyRunning(Conflict):
    """Another worker process runs on this home folder."""

    code = "worker_running"


@contextlib.contextmanager
def hold_home(home: Path) -> Iterator[Path]:
    """Hold the lock of this folder until the block ends; raise `WorkerAlreadyRunning` if another worker has it."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Python closes the descriptor on exec, so an engine that is started later does not keep the lock.
        descriptor = os.open(home / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InvalidRequest(
            f"The worker's folder {home} cannot be used: {error.strerror}.", hint=_ANOTHER_HOME
        ) from error
    try:
        _lock(descriptor, home)
        yield home
    finally:
        os.close(descriptor)


def _lock(descriptor: int, home: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        holder_name = f"process {holder}" if holder.isdigit() else "another process"
        raise WorkerAlreadyRunning(
            f"A worker already runs on {home} ({holder_name}).",
            hint="Stop that one first, or give this one another --worker-home and --name.",
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
