"""CORRAL_HOME: what lies where, who may read it, the lock that lets one `corral up` run on it, and what can go wrong.

    admin.key   the first API key, for people               nats/       configuration, accounts
    secrets.key the key that seals stored secrets           worker/     the local worker's own folder
    secrets/    passwords, tokens and seeds                 run/        state.json, lock
    postgres/   data, and binaries if root needs a copy     logs/       one file per process

Folders are 0700 and files 0600. The lock is the kernel's: it cannot outlive its holder, however that ends. It belongs
to the file and not to its path: after the home was deleted another `corral up` can lock a new file, so holders compare.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corral.domain.errors import Conflict, InvalidRequest, Unavailable
from corral.embedded.private_files import make_private_folder, remove_unfinished
from corral.runtime.processes import ProcessBirth, identify_process

# PostgreSQL's own limit is 1,024 bytes for any path below its data folder.
MAX_PATH_BYTES = 800
UNKNOWN_HOLDER = ProcessBirth(pid=0, born_s=0.0)
_ANOTHER_HOME = "Choose another folder with --home or CORRAL_HOME."


class HomeUnusable(InvalidRequest):
    """The home folder for Corral's data cannot be used."""

    code = "home_unusable"


class HomeBusy(Conflict):
    """Corral already runs on this home folder."""

    code = "home_busy"


class HomeLost(Unavailable):
    """The home folder for Corral's data was deleted or replaced while Corral ran on it."""

    code = "home_lost"
    retryable = False


class BinaryNotFound(Unavailable):
    """A program that `corral up` has to start was not found."""

    code = "binary_missing"
    retryable = False


class ChildStartFailed(Unavailable):
    """A child process of `corral up` did not become ready."""

    code = "start_failed"
    retryable = False


@dataclass(frozen=True, slots=True)
class HomeLayout:
    """Computes the paths of files and folders below the home folder of `corral up`; does not touch the disk."""

    root: Path

    @property
    def admin_key(self) -> Path:
        return self.root / "admin.key"

    @property
    def secrets_key(self) -> Path:
        """Return the file with the key that seals stored secrets. Without the file these secrets are lost."""
        return self.root / "secrets.key"

    @property
    def secrets(self) -> Path:
        return self.root / "secrets"

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def postgres_data(self) -> Path:
        return self.postgres / "data"

    @property
    def nats(self) -> Path:
        return self.root / "nats"

    @property
    def worker(self) -> Path:
        return self.root / "worker"

    @property
    def agent(self) -> Path:
        """Return the folder of the agent worker."""
        return self.root / "agent"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def lock(self) -> Path:
        return self.run / "lock"

    @property
    def state(self) -> Path:
        return self.run / "state.json"

    @property
    def join_token(self) -> Path:
        return self.secrets / "local-join-token"

    @property
    def postgres_password(self) -> Path:
        return self.secrets / "postgres-password"

    @property
    def database_url(self) -> Path:
        """Return the file from which the frontend reads how to reach PostgreSQL, with the password; written at each
        start."""
        return self.secrets / "database-url"

    @property
    def nats_authority(self) -> Path:
        return self.secrets / "nats-authority.json"

    @property
    def nats_account_seed(self) -> Path:
        return self.secrets / "nats-account.seed"

    @property
    def nats_operator_seed(self) -> Path:
        return self.secrets / "nats-operator.seed"

    @property
    def nats_system_seed(self) -> Path:
        return self.secrets / "nats-system.seed"

    def get_log_path(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.root, self.secrets, self.postgres, self.nats, self.worker, self.agent, self.run, self.logs)


def locate_home(path: Path) -> HomeLayout:
    """Return the home at `path`, whether or not it exists."""
    try:
        root = path.expanduser().resolve()
    except (OSError, RuntimeError) as error:
        raise HomeUnusable(
            f"The folder {path} cannot be used: {_describe_error(error)}.", hint=_ANOTHER_HOME
        ) from error
    if len(os.fsencode(root)) > MAX_PATH_BYTES:
        raise HomeUnusable(
            f"The path of the folder is longer than {MAX_PATH_BYTES} bytes, which is too long for PostgreSQL.",
            hint=_ANOTHER_HOME,
        )
    if not str(root).isprintable():
        raise HomeUnusable(f"The path {str(root)!r} holds characters that cannot be printed.", hint=_ANOTHER_HOME)
    return HomeLayout(root)


def open_home(path: Path) -> HomeLayout:
    """Return the home at `path`, made if it does not exist, with every folder closed to others."""
    home = locate_home(path)
    try:
        if home.root.exists() and not home.root.is_dir():
            raise HomeUnusable(f"{home.root} is a file, not a folder.", hint=_ANOTHER_HOME)
        home.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        _refuse_foreign(home.root)
        _refuse_write_protected(home.root)
        for folder in home.folders:
            make_private_folder(folder)
    except OSError as error:
        raise HomeUnusable(
            f"The folder {home.root} cannot be used: {_describe_error(error)}.", hint=_choose_hint(error)
        ) from error
    return home


def _refuse_foreign(root: Path) -> None:
    owner = root.stat().st_uid
    if owner != os.geteuid():
        raise HomeUnusable(
            f"The folder {root} belongs to another user (uid {owner}).",
            hint="Run this as that user, or choose another folder with --home or CORRAL_HOME.",
        )


def _refuse_write_protected(root: Path) -> None:
    """Raise for a folder that its owner has write-protected, because that was done on purpose."""
    mode = stat.S_IMODE(root.stat().st_mode)
    if mode & stat.S_IWUSR == 0:
        raise HomeUnusable(
            f"The folder {root} is write-protected (mode {mode:04o}).",
            hint=f"If it is to be used: chmod u+w {shlex.quote(str(root))}. {_ANOTHER_HOME}",
        )


def _describe_error(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error).lower()


def _choose_hint(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "Make room on that disk."
    return _ANOTHER_HOME


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeLock:
    """Lock of `corral up` on its home folder; says whether the locked file is still the one at its path."""

    path: Path
    descriptor: int

    def is_held(self) -> bool:
        """Return whether the path still leads to the file that is locked. If not, the home was deleted, moved or
        replaced, and another process may have locked it. A path that cannot be read proves nothing: then it counts as
        held."""
        locked_file = os.fstat(self.descriptor)
        try:
            found = self.path.stat()
        except OSError as error:
            return error.errno not in (errno.ENOENT, errno.ENOTDIR)
        return (found.st_dev, found.st_ino) == (locked_file.st_dev, locked_file.st_ino)


def describe_lost_home(home: HomeLayout) -> str:
    return f"The folder {home.root} was deleted or replaced while Corral ran on it."


@contextlib.contextmanager
def hold_lock(home: HomeLayout) -> Iterator[HomeLock]:
    """Hold the lock of this home until the block ends; raise `HomeBusy` naming the holder."""
    descriptor = os.open(home.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _make_busy_error(home) from error
        lock = HomeLock(path=home.lock, descriptor=descriptor)
        if not lock.is_held():
            raise HomeLost(describe_lost_home(home), hint="Start it again.")
        _write_holder(descriptor)
        for folder in home.folders:
            remove_unfinished(folder)
        yield lock
    finally:
        os.close(descriptor)


def find_lock_holder(home: HomeLayout) -> ProcessBirth | None:
    """Return the process that holds the lock (`UNKNOWN_HOLDER` if the file does not name it), or None if it is free."""
    try:
        descriptor = os.open(home.lock, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_holder(home) or UNKNOWN_HOLDER
    finally:
        os.close(descriptor)
    return None


def _write_holder(descriptor: int) -> None:
    me = identify_process(os.getpid())
    assert me is not None, "this process exists"
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"pid": me.pid, "born_s": me.born_s}).encode(), 0)


def _read_holder(home: HomeLayout) -> ProcessBirth | None:
    try:
        known = json.loads(home.lock.read_text(encoding="utf-8"))
        return ProcessBirth(pid=int(known["pid"]), born_s=float(known["born_s"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _make_busy_error(home: HomeLayout) -> HomeBusy:
    holder = _read_holder(home)
    holder_name = f"process {holder.pid}" if holder is not None else "another process"
    return HomeBusy(
        f"Corral already runs on {home.root} ({holder_name}).",
        hint="`corral status` shows it and `corral down` stops it. A second cluster needs its own --home and --port.",
    )
