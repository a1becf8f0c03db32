"""A real cluster for the benchmarks: `corral up` in a temporary home, with a real PostgreSQL that syncs to disk."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil


@dataclass(frozen=True)
class BenchCluster:
    """Holds a running cluster of a benchmark, and measures its frontend process."""

    home: Path
    port: int
    frontend_pid: int
    database_url: str
    admin_key: str
    # The environment of the frontend at its start.
    frontend_environment: Mapping[str, str] = field(repr=False, default_factory=dict)

    def pin(self, core: int) -> None:
        """Pin the frontend to one core and the load to the other, so that they do not compete."""
        process = psutil.Process(self.frontend_pid)
        if hasattr(process, "cpu_affinity"):
            process.cpu_affinity([core])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def frontend_cpu_s(self) -> float:
        times = psutil.Process(self.frontend_pid).cpu_times()
        return float(times.user + times.system)

    def forget_peak(self) -> None:
        """Count the frontend's peak of memory from now on."""
        clear = Path(f"/proc/{self.frontend_pid}/clear_refs")
        if clear.exists():
            clear.write_text("5")

    def frontend_peak_mib(self) -> float:
        """Return the peak of the frontend's memory since `forget_peak`; where the system does not report it, the
        current size."""
        status = Path(f"/proc/{self.frontend_pid}/status")
        if status.exists():
            line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
            return int(line.split()[1]) / 1024
        return float(psutil.Process(self.frontend_pid).memory_info().rss) / 2**20


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def run_cluster(
    up: Sequence[str] = ("corral", "up", "--detach"), *, python: str = sys.executable, **variables: str
) -> Iterator[BenchCluster]:
    """Run a cluster with the module and arguments of `up`. `variables` go into the environment of all its processes."""
    corral = [python, "-m", "corral"]
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder:
        home, port = Path(folder) / "home", free_port()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("CORRAL_")}
        # Without an agent worker, which has no part in what is measured.
        environment |= {"CORRAL_HOME": str(home), "CORRAL_PORT": str(port), "CORRAL_AGENT_WORKER": "false"} | variables
        subprocess.run([python, "-m", *up], env=environment, check=True)
        try:
            shown = subprocess.run(
                [*corral, "status", "--json"], env=environment, check=True, capture_output=True, text=True
            )
            yield _describe_cluster(home, port, json.loads(shown.stdout))
        finally:
            subprocess.run([*corral, "down"], env=environment, check=True)


def _describe_cluster(home: Path, port: int, status: dict[str, Any]) -> BenchCluster:
    frontend_pid = int(status["frontends"][0]["pid"])
    environment = psutil.Process(frontend_pid).environ()
    return BenchCluster(
        home=home,
        port=port,
        frontend_pid=frontend_pid,
        database_url=Path(environment["CORRAL_DATABASE_URL_FILE"]).read_text().strip(),
        admin_key=(home / "admin.key").read_text().strip(),
        frontend_environment=environment,
    )
