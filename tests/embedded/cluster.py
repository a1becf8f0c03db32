"""A cluster on a temporary home, run by the real command line with stand-ins for the frontend and the worker."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from corral.embedded.home import HomeLayout
from corral.embedded.owned_processes import MARKER_HOME, find_leftovers
from corral.embedded.postgres import find_bin_folder
from corral.embedded.supervisor_state import ChildState, SupervisorPhase, SupervisorSnapshot, read_snapshot

T = TypeVar("T")
PROGRAM = Path(__file__).parent / "programs" / "up.py"
LIMIT_S = 40.0


def eventually(look: Callable[[], T | None], *, limit_s: float = LIMIT_S) -> T:
    """The first value of `look` that is not empty; for states of real processes, which give no signal."""
    never = threading.Event()
    for _ in range(int(limit_s / 0.02)):
        value = look()
        if value:
            return value
        never.wait(0.02)
    raise AssertionError(f"still not so after {limit_s} s: {look}")


def lives(pid: int) -> bool:
    """A zombie does not: it waits for a parent that is in no hurry."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass
class Cluster:
    """`prefix` and `python` let another user run it; `program` may be the real one."""

    root: Path
    python: str = sys.executable
    prefix: Sequence[str] = ()
    program: Sequence[str] = (str(PROGRAM),)
    env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    @property
    def home(self) -> HomeLayout:
        return HomeLayout(self.root)

    @property
    def snapshot(self) -> SupervisorSnapshot:
        return read_snapshot(self.home.state)

    def phase(self) -> SupervisorPhase:
        return self.snapshot.phase

    @property
    def talk_file(self) -> Path:
        return self.root.with_name(f"{self.root.name}-talk-{self.starts}")

    @property
    def talk(self) -> str:
        return self.talk_file.read_text()

    def command(self, *arguments: str) -> list[str]:
        return [*self.prefix, self.python, *self.program, *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        base = {"PATH": os.defpath, "HOME": str(self.root.parent), "CORRAL_HOME": str(self.root)}
        # Off unless a test is about it: it costs a second process and its runner.
        base["CORRAL_AGENT_WORKER"] = "false"
        return {**base, **self.env, **more}

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def begin(self, *arguments: str, **more: str) -> None:
        """Start `corral up` in the foreground and return at once."""
        self.starts += 1
        port = () if "--port" in arguments else ("--port", "0")
        with self.talk_file.open("wb") as talk:
            self.process = subprocess.Popen(
                self.command("up", *port, *arguments), env=self.environment(**more), stderr=talk, stdout=talk
            )

    def up(self, *arguments: str, **more: str) -> None:
        self.begin(*arguments, **more)
        eventually(lambda: "Corral is ready at" in self.talk or self._has_ended())
        assert "Corral is ready at" in self.talk, self.talk

    def _has_ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(timeout=60)

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        return self.wait()

    def kill_supervisor(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(timeout=10)

    def pid(self, name: str) -> int:
        pid = self.snapshot.children[name].pid
        assert pid is not None
        return pid

    def pids(self) -> set[int]:
        return {one.pid for one in self.snapshot.children.values() if one.pid is not None}

    def kill(self, name: str) -> None:
        """Kill a child in the hardest way and wait until another one is ready in its place."""
        before = self.pid(name)
        os.kill(before, signal.SIGKILL)

        def is_back() -> bool:
            record = self.snapshot.children[name]
            return record.state is ChildState.READY and record.pid not in {before, None}

        eventually(is_back)
        eventually(lambda: self.phase() == SupervisorPhase.READY)

    def sql(self, statement: str) -> str:
        done = subprocess.run(
            [
                str(find_bin_folder(None) / "psql"),
                *("-h", "127.0.0.1", "-p", str(self.snapshot.ports["postgres"])),
                *("-U", "corral", "-d", "corral", "-qtAX", "-v", "ON_ERROR_STOP=1", "-c", statement),
            ],
            env={"PATH": os.defpath, "PGPASSWORD": self.home.postgres_password.read_text().strip()},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def status(self) -> tuple[int, dict[str, Any]]:
        done = self.run("status", "--json")
        return done.returncode, json.loads(done.stdout)

    def living(self) -> list[int]:
        return [one.process.pid for one in find_leftovers(self.home)]

    def secrets(self) -> dict[str, str]:
        files = [self.home.admin_key, self.home.secrets_key, *self.home.secrets.iterdir()]
        return {file.name: file.read_text().strip() for file in files}

    def close(self) -> None:
        """End whatever a test left, even a failed one."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(timeout=10)
        # Not with the product's own search: a broken one must not leave processes behind.
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(MARKER_HOME) == str(self.root) or process.cwd() == str(
                    self.home.postgres_data
                ):
                    process.kill()


@contextlib.contextmanager
def running(
    *command: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """An innocent bystander."""
    process = subprocess.Popen(list(command), env=env or {"PATH": os.defpath}, cwd=cwd)
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=10)
