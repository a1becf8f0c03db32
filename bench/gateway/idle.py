"""Idle connections: the memory that each takes, and how they slow down another client."""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.cluster import free_port
from bench.gateway import GatewayLoad, choose_peers, measure
from bench.gateway.peers import RunningProxy, by_corral, run_engine
from bench.report import ReportRow, format_table, print_progress

IDLE = int(os.environ.get("BENCH_IDLE", "10000"))
_LEFT_OUT = {"by_plain_proxy", "by_litellm"}
_ASKING = GatewayLoad(name="JSON", is_stream=False, crowd=1)


def run() -> str:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder, ExitStack() as stack:
        upstream = free_port()
        stack.enter_context(run_engine(upstream))
        proxies = [stack.enter_context(by_corral(Path(folder)))]
        peers = [peer for peer in choose_peers() if peer.__name__ not in _LEFT_OUT]
        proxies += [stack.enter_context(peer(Path(folder), upstream)) for peer in peers]
        rows = [_stand_by(proxy) for proxy in proxies]
    return format_table(f"{IDLE:,} idle connections, and one client that sends requests", rows)


def _stand_by(proxy: RunningProxy) -> ReportRow:
    print_progress(f"{proxy.name}, {IDLE} idle connections")
    alone = measure(proxy, _ASKING)
    before_mib = proxy.memory_mib()
    idle = [socket.create_connection(("127.0.0.1", proxy.port), timeout=10) for _ in range(IDLE)]
    try:
        among = measure(proxy, _ASKING)
        grown = proxy.memory_mib() - before_mib
    finally:
        for one in idle:
            one.close()
    return ReportRow(
        proxy.name,
        {
            "KiB a connection": grown * 1024 / IDLE,
            "p50 ms alone": alone["p50 ms"],
            "p50 ms among them": among["p50 ms"],
            "p99 ms among them": among["p99 ms"],
        },
    )
