"""Clients that stay connected and say nothing: what each of them takes, and what the others notice of them."""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.cluster import free_port
from bench.gateway import Load, chosen, measure
from bench.gateway.peers import Proxy, by_corral, engine
from bench.report import Row, say, table

IDLE = int(os.environ.get("BENCH_IDLE", "10000"))
_LEFT_OUT = {"by_plain_proxy", "by_litellm"}
_ASKING = Load(name="JSON", is_stream=False, crowd=1)


def run() -> str:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder, ExitStack() as stack:
        upstream = free_port()
        stack.enter_context(engine(upstream))
        proxies = [stack.enter_context(by_corral(Path(folder)))]
        peers = [peer for peer in chosen() if peer.__name__ not in _LEFT_OUT]
        proxies += [stack.enter_context(peer(Path(folder), upstream)) for peer in peers]
        rows = [_stand_by(proxy) for proxy in proxies]
    return table(f"{IDLE:,} clients that stay connected and say nothing, and one that asks", rows)


def _stand_by(proxy: Proxy) -> Row:
    say(f"{proxy.name}, {IDLE} idle connections")
    alone = measure(proxy, _ASKING)
    before_mib = proxy.memory_mib()
    idle = [socket.create_connection(("127.0.0.1", proxy.port), timeout=10) for _ in range(IDLE)]
    try:
        among = measure(proxy, _ASKING)
        grown = proxy.memory_mib() - before_mib
    finally:
        for one in idle:
            one.close()
    return Row(
        proxy.name,
        {
            "KiB a connection": grown * 1024 / IDLE,
            "p50 ms alone": alone["p50 ms"],
            "p50 ms among them": among["p50 ms"],
            "p99 ms among them": among["p99 ms"],
        },
    )
