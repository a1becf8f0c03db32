"""A real cluster for the benchmarks: `corral up` in a temporary home, with a real PostgreSQL that syncs to disk."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil


@dataclass(frozen=True)
class BenchCluster:
    home: Path
    port: int
    frontend_pid: int
    database_url: str
    admin_key: str

    def pin(self, core: int) -> None:
        """The frontend on one core and the load on the other, so that they do not fight."""
        process = psutil.Process(self.frontend_pid)
        if hasattr(process, "cpu_affinity"):
            process.cpu_affinity([core])

    def frontend_cpu_s(self) -> float:
        times = psutil.Process(self.frontend_pid).cpu_times()
        return float(times.user + times.system)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def cluster() -> Iterator[BenchCluster]:
    corral = [sys.executable, "-m", "corral"]
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder:
        home, port = Path(folder) / "home", free_port()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("CORRAL_")}
        environment |= {"CORRAL_HOME": str(home), "CORRAL_PORT": str(port)}
        subprocess.run([*corral, "up", "--detach"], env=environment, check=True)
        try:
            shown = subprocess.run(
                [*corral, "status", "--json"], env=environment, check=True, capture_output=True, text=True
            )
            yield _described(home, port, json.loads(shown.stdout))
        finally:
            subprocess.run([*corral, "down"], env=environment, check=True)


def _described(home: Path, port: int, status: dict[str, Any]) -> BenchCluster:
    frontend_pid = int(status["frontends"][0]["pid"])
    database_url = psutil.Process(frontend_pid).environ()["CORRAL_DATABASE_URL"]
    return BenchCluster(
        home=home,
        port=port,
        frontend_pid=frontend_pid,
        database_url=database_url,
        admin_key=(home / "admin.key").read_text().strip(),
    )
