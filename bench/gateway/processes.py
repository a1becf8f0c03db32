"""One frontend process and two that share a port, on two cores that the engine and the crowd use as well."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.gateway import GatewayLoad, measure
from bench.gateway.peers import by_corral
from bench.report import ReportRow, format_table, print_progress

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
LOADS = (GatewayLoad(name="JSON", is_stream=False, crowd=64), GatewayLoad(name="streams", is_stream=True, crowd=64))


def run() -> str:
    rows = []
    for processes in (2, 1):
        values: dict[str, float] = {}
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="corral-bench-"))
            proxy = stack.enter_context(by_corral(Path(folder), processes=processes))
            assert len(proxy.pids) == processes, proxy.pids
            for load in LOADS:
                print_progress(f"{processes} processes, {load.name}")
                rounds = [measure(proxy, load) for _ in range(ROUNDS)]
                values[f"{load.name}/s"] = median(one["requests/s"] for one in rounds)
                values[f"{load.name}, CPU µs"] = median(one["CPU µs"] for one in rounds)
        rows.append(ReportRow("two processes" if processes == 2 else "one process", values))
    return format_table("Processes that share a port, 64 at once", rows, ratio_of=("JSON/s", "streams/s"))
