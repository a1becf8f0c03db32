"""Numbers for Prometheus: aggregates only, no names of nodes or people, so that `/metrics` needs no key."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    """One registry per frontend: several may live in one process in tests."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "corral_http_requests_total",
            "Answers by route and status.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "corral_http_request_seconds", "Time to the end of the answer.", ["route"], registry=self.registry
        )
        self.heartbeats = Counter("corral_heartbeats_total", "Heartbeats received.", registry=self.registry)
        self.flushed = Counter(
            "corral_heartbeats_flushed_total", "Node rows written by flushes.", registry=self.registry
        )
        self.waiting = Gauge(
            "corral_heartbeats_waiting", "Nodes with a heartbeat not yet written.", registry=self.registry
        )
        self.leader = Gauge("corral_leader", "1 on the frontend that leads.", registry=self.registry)
        self.bus = Gauge("corral_bus_connected", "1 while this frontend is on the bus.", registry=self.registry)
        self.nodes = Gauge("corral_nodes", "Nodes by status.", ["status"], registry=self.registry)
        self.lost = Counter("corral_nodes_lost_total", "Nodes found lost by this frontend.", registry=self.registry)
        self.loop_failures = Gauge("corral_loop_failures", "Failed passes by loop.", ["loop"], registry=self.registry)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        return generate_latest(self.registry)
