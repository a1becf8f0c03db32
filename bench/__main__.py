"""`python -m bench [name …]`: run the benchmarks and print their tables."""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime

import psutil

from bench import (
    agents,
    cold_start,
    gateway,
    heartbeats,
    knowledge,
    operations,
    page,
    page_crowd,
    placement,
    quantization,
    request_files,
    scaling,
    silence,
    staging,
    start,
)
from bench.gateway import hot, idle, processes, streams

SUITE = {
    "start": start.run,
    "heartbeats": heartbeats.run,
    "silence": silence.run,
    "operations": operations.run,
    "placement": placement.run,
    "staging": staging.run,
    "scaling": scaling.run,
    "cold_start": cold_start.run,
    "gateway": gateway.run,
    "hot": hot.run,
    "streams": streams.run,
    "idle": idle.run,
    "processes": processes.run,
    "page": page.run,
    "page_crowd": page_crowd.run,
    "request_files": request_files.run,
    "agents": agents.run,
    "quantization": quantization.run,
    "knowledge": knowledge.run,
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in SUITE]
    if unknown:
        print(f"error: there is no benchmark {unknown[0]!r}; there are: {', '.join(SUITE)}", file=sys.stderr)
        return 2
    print(_machine())
    for name in names or list(SUITE):
        print(SUITE[name](), flush=True)
    return 0


def _machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
