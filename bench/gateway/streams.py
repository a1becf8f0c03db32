"""Many open streams: what each of them takes of memory and CPU, and how evenly its events come.

Every stream gets an event four times a second. Without a proxy between, the gaps are what the engine and the crowd make
of one core; that row is the baseline.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

from bench.cluster import free_port
from bench.gateway import choose_peers, run_load
from bench.gateway.peers import RunningProxy, by_corral, run_engine
from bench.report import ReportRow, format_table, print_progress

PACE_MS = 250
EVENTS = 32
CROWDS = tuple(int(one) for one in os.environ.get("BENCH_STREAMS", "1000,5000").split(","))
# What is built for a few clients is not asked to hold thousands.
_LEFT_OUT = {"by_plain_proxy", "by_litellm"}


def run() -> str:
    tables = []
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder, ExitStack() as stack:
        upstream = free_port()
        stack.enter_context(run_engine(upstream))
        proxies = [stack.enter_context(by_corral(Path(folder)))]
        peers = [peer for peer in choose_peers() if peer.__name__ not in _LEFT_OUT]
        proxies += [stack.enter_context(peer(Path(folder), upstream)) for peer in peers]
        for crowd in CROWDS:
            rows = [_hold(proxy, crowd) for proxy in proxies]
            rows.append(ReportRow("no proxy", _gaps(_ask(upstream, "", crowd))))
            title = f"{crowd:,} open streams, an event every {PACE_MS} ms, one core"
            tables.append(format_table(title, rows, ratio_of=("gap p99 ms",)))
    return "\n".join(tables)


def _hold(proxy: RunningProxy, crowd: int) -> ReportRow:
    print_progress(f"{proxy.name}, {crowd} streams")
    _ask(proxy.port, proxy.key, 1, events=2)
    before_mib, before_s = proxy.memory_mib(), proxy.cpu_s()
    peak, is_over = before_mib, threading.Event()

    def look() -> None:
        nonlocal peak
        while not is_over.wait(0.2):
            peak = max(peak, proxy.memory_mib())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        results = _ask(proxy.port, proxy.key, crowd)
    finally:
        is_over.set()
        looking.join()
    assert not results["errors"], f"{proxy.name}: {results}"
    events = results["requests"] * (EVENTS + 1)
    cpu_us = (proxy.cpu_s() - before_s) / events * 1e6
    memory = {"KiB a stream": (peak - before_mib) * 1024 / crowd, "CPU µs an event": cpu_us}
    return ReportRow(proxy.name, _gaps(results) | memory)


def _gaps(result: dict[str, float]) -> dict[str, float]:
    return {
        "gap p50 ms": result["gap_p50_us"] / 1e3,
        "gap p99 ms": result["gap_p99_us"] / 1e3,
        "first p99 ms": result["first_p99_us"] / 1e3,
    }


def _ask(port: int, key: str, crowd: int, *, events: int = EVENTS) -> dict[str, float]:
    messages = [{"role": "user", "content": "hello"}]
    body = {"model": "m", "messages": messages, "stream": True, "max_tokens": events, "top_k": PACE_MS}
    # Every stream once: the time is over when the first has ended.
    return run_load(port, key, crowd, events * PACE_MS / 2000, json.dumps(body, separators=(",", ":")))
