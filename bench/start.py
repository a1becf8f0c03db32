"""From the command to *ready*: a cluster's first start in an empty home, and the next ones; what an idle frontend and a
short command take.

Baseline in the same run: PostgreSQL and NATS alone, the slower of the two, as the same command reports them.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from statistics import median

import psutil

from bench.cluster import free_port
from bench.report import ReportRow, format_table

NEXT_STARTS = 5
_SECONDS = re.compile(r"^\s+(PostgreSQL|NATS)\s.*?([0-9.]+) s$|is ready at .* \(([0-9.]+) s\)$", re.MULTILINE)


def run() -> str:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("CORRAL_")}
        environment |= {"CORRAL_HOME": f"{folder}/home", "CORRAL_PORT": str(free_port())}
        first = _start(environment)
        later = [_start(environment) for _ in range(NEXT_STARTS)]
        idle_mb, command_s = _measure_idle(environment)
    whole = ReportRow("whole cluster", {"first start s": first[0], "next start s": median(ready for ready, _ in later)})
    parts = ReportRow(
        "PostgreSQL and NATS alone", {"first start s": first[1], "next start s": median(own for _, own in later)}
    )
    starts = format_table(
        f"`corral up` to ready, median of {NEXT_STARTS}", [whole, parts], ratio_of=tuple(whole.values)
    )
    idle = ReportRow("after a start", {"idle frontend MB": idle_mb, "`corral nodes list` CPU s": command_s})
    return f"{starts}\n{format_table('Memory and CPU time', [idle])}"


def _measure_idle(environment: dict[str, str]) -> tuple[float, float]:
    """Return the resident megabytes of a frontend that serves nothing, and the CPU seconds of a command."""
    corral = [sys.executable, "-m", "corral"]
    subprocess.run([*corral, "up", "--detach"], env=environment, check=True, capture_output=True)
    used = []
    for _ in range(NEXT_STARTS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*corral, "nodes", "list"], env=environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    resident = next(
        one.memory_info().rss
        for one in psutil.process_iter(["cmdline"])
        if (one.info["cmdline"] or [])[-2:] == ["corral", "serve"]
        and one.environ().get("CORRAL_HOME") == environment["CORRAL_HOME"]
    )
    subprocess.run([*corral, "down"], env=environment, check=True, capture_output=True)
    return resident / 2**20, median(used)


def _start(environment: dict[str, str]) -> tuple[float, float]:
    """Return the seconds until everything was ready, and until PostgreSQL and NATS were."""
    corral = [sys.executable, "-m", "corral"]
    shown = subprocess.run([*corral, "up", "--detach"], env=environment, check=True, capture_output=True, text=True)
    subprocess.run([*corral, "down"], env=environment, check=True, capture_output=True)
    found = _SECONDS.findall(shown.stdout + shown.stderr)
    ready = next(float(whole) for _, _, whole in found if whole)
    return ready, max(float(own) for name, own, _ in found if name)
