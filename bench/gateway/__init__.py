"""The gateway beside its peers: one core for each, the same engine behind, the same crowd in front, in one run.

A round asks all of them one after the other, for a second each, so that a neighbour of this machine disturbs nobody
alone. CPU time per request is the figure to trust: the rate depends on what the neighbours do. Corral does everything
that it always does (key, limits, routing, usage, metrics); the peers do what their defaults do, without keys.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench.cluster import free_port
from bench.gateway.installation import build_wire
from bench.gateway.peers import OTHER_CORE, PEERS, PeerFactory, RunningProxy, by_corral, run_engine
from bench.report import ReportRow, format_table, print_progress

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "9"))
SECONDS = 1.0
EVENTS = 200
CROWDS = (1, 64, 512)
# LiteLLM answers some fifty requests a second: a large crowd would wait for minutes, and in a second there is little to
# be seen. So these are asked by fewer, for longer, in every third round.
SLOW = {"LiteLLM": 64, "FastAPI and httpx": 64}
SLOW_SECONDS = 4.0
SLOW_EVERY = 3
_TEXT = "Tell me something that I do not know about horses, please, and be brief about it. " * 3


@dataclass(frozen=True)
class GatewayLoad:
    """Describes a load on the gateway: JSON or streams, and how many clients at once."""

    name: str
    is_stream: bool
    crowd: int

    def make_body(self) -> str:
        request_body: dict[str, Any] = {
            "model": "m",
            "messages": [{"role": "user", "content": _TEXT}],
            "max_tokens": EVENTS,
        }
        return json.dumps(request_body | ({"stream": True} if self.is_stream else {}), separators=(",", ":"))


LOADS = [
    GatewayLoad(name=name, is_stream=name == "streams", crowd=crowd) for name in ("JSON", "streams") for crowd in CROWDS
]


def run() -> str:
    found: dict[tuple[str, GatewayLoad], list[dict[str, float]]] = defaultdict(list)
    names: list[str] = []
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder, ExitStack() as stack:
        upstream = free_port()
        stack.enter_context(run_engine(upstream))
        proxies = [stack.enter_context(by_corral(Path(folder)))]
        proxies += [stack.enter_context(peer(Path(folder), upstream)) for peer in choose_peers()]
        names = [proxy.name for proxy in proxies]
        for number in range(ROUNDS):
            for load in LOADS:
                for proxy in proxies:
                    if _is_measured(proxy, load, number):
                        print_progress(
                            f"round {number + 1} of {ROUNDS}: {proxy.name}, {load.name}, {load.crowd} at once"
                        )
                        found[proxy.name, load].append(measure(proxy, load))
        direct = {load: send_load(upstream, "", load, SECONDS) for load in LOADS if load.crowd == 1}
    return "\n".join(_format_load(load, names, found, direct) for load in LOADS)


def _is_measured(proxy: RunningProxy, load: GatewayLoad, number: int) -> bool:
    return proxy.name not in SLOW or (load.crowd <= SLOW[proxy.name] and number % SLOW_EVERY == 0)


def choose_peers() -> list[PeerFactory]:
    """All peers, or those that `BENCH_PEERS` names."""
    names = os.environ.get("BENCH_PEERS")
    return [peer for peer in PEERS if names is None or peer.__name__.removeprefix("by_") in names.split(",")]


def measure(proxy: RunningProxy, load: GatewayLoad) -> dict[str, float]:
    seconds = SLOW_SECONDS if proxy.name in SLOW else SECONDS
    send_load(proxy.port, proxy.key, load, seconds / 4)
    before = proxy.cpu_s()
    result = send_load(proxy.port, proxy.key, load, seconds)
    assert not result["errors"], f"{proxy.name}: {result}"
    requests = max(1.0, result["requests"])
    return {
        "requests/s": requests / result["seconds"],
        "CPU µs": (proxy.cpu_s() - before) / requests * 1e6,
        "p50 ms": result["p50_us"] / 1e3,
        "p99 ms": result["p99_us"] / 1e3,
        "first p50 ms": result["first_p50_us"] / 1e3,
        "gap p99 ms": result["gap_p99_us"] / 1e3,
    }


def send_load(port: int, key: str, load: GatewayLoad, seconds: float) -> dict[str, float]:
    return run_load(port, key, load.crowd, seconds, load.make_body())


def run_load(port: int, key: str, crowd: int, seconds: float, body: str) -> dict[str, float]:
    """Run a load against a port, and return what the load generator reports."""
    command = [str(build_wire()), "load", "127.0.0.1", str(port), "/v1/chat/completions", str(crowd), str(seconds), key]
    done = subprocess.run(
        [*command, body],
        check=True,
        capture_output=True,
        text=True,
        preexec_fn=lambda: psutil.Process().cpu_affinity([OTHER_CORE]),
    )
    results: dict[str, float] = json.loads(done.stdout)
    return results


def _format_load(
    load: GatewayLoad,
    names: list[str],
    found: dict[tuple[str, GatewayLoad], list[dict[str, float]]],
    direct: dict[GatewayLoad, dict[str, float]],
) -> str:
    rows = []
    for name in names:
        rounds = found.get((name, load))
        if not rounds:
            continue
        values = {key: median(one[key] for one in rounds) for key in rounds[0]}
        if load in direct:
            values["added p50 ms"] = values["p50 ms"] - direct[load]["p50_us"] / 1e3
        if not load.is_stream:
            del values["gap p99 ms"]
        rows.append(ReportRow(name, values))
    base = next((row for row in rows if row.name == "nginx"), rows[-1])
    for row in rows:
        row.values["× nginx"] = row.values["requests/s"] / base.values["requests/s"]
        row.values["by CPU"] = base.values["CPU µs"] / row.values["CPU µs"]
    what = f"streams of {EVENTS} events" if load.is_stream else "answers of 1 KB"
    return format_table(f"{what}, {load.crowd} at once, one core, median of {ROUNDS}", rows)
