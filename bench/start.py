"""From the command to *ready*: a cluster's first start in an empty home, and the next ones.

Baseline in the same run: PostgreSQL and NATS alone, the slower of the two, as the same command reports them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from statistics import median

from bench.cluster import free_port
from bench.report import Row, table

NEXT_STARTS = 5
_SECONDS = re.compile(r"^\s+(PostgreSQL|NATS)\s.*?([0-9.]+) s$|is ready at .* \(([0-9.]+) s\)$", re.MULTILINE)


def run() -> str:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("CORRAL_")}
        environment |= {"CORRAL_HOME": f"{folder}/home", "CORRAL_PORT": str(free_port())}
        first = _start(environment)
        later = [_start(environment) for _ in range(NEXT_STARTS)]
    whole = Row("whole cluster", {"first start s": first[0], "next start s": median(ready for ready, _ in later)})
    parts = Row(
        "PostgreSQL and NATS alone", {"first start s": first[1], "next start s": median(own for _, own in later)}
    )
    return table(f"`corral up` to ready, median of {NEXT_STARTS}", [whole, parts], ratio_of=tuple(whole.values))


def _start(environment: dict[str, str]) -> tuple[float, float]:
    """Seconds until everything was ready, and until PostgreSQL and NATS were."""
    corral = [sys.executable, "-m", "corral"]
    shown = subprocess.run([*corral, "up", "--detach"], env=environment, check=True, capture_output=True, text=True)
    subprocess.run([*corral, "down"], env=environment, check=True, capture_output=True)
    found = _SECONDS.findall(shown.stdout + shown.stderr)
    ready = next(float(whole) for _, _, whole in found if whole)
    return ready, max(float(own) for name, own, _ in found if name)
