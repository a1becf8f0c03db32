"""Numbers for Prometheus: aggregates only, no names of nodes or people, so that `/metrics` needs no key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from corral.api.insight.families import RequestMetrics
from corral.domain.backend import AssignmentState
from corral.domain.operation import OperationState
from corral.operations.numbers import CommandOutcome, EventOutcome, StepOutcome


class Siblings(Protocol):
    """The other processes on this one's port."""

    async def together(self) -> bytes:
        """The page of all of them."""
        ...


class Metrics:
    """One registry per frontend: several may live in one process in tests."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        # What is told of requests to models; a page without them knows only the rest.
        self.requests: RequestMetrics | None = None
        # None: alone on its port.
        self.siblings: Siblings | None = None
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

        self.operations = Gauge(
            "corral_operations", "Operations by state, in the whole cluster.", ["state"], registry=self.registry
        )
        self.assignments = Gauge(
            "corral_assignments",
            "What nodes owe, in the whole cluster: open, or dead after too many failures.",
            ["state"],
            registry=self.registry,
        )
        self.held = Gauge("corral_operations_held", "Operations that this frontend drives.", registry=self.registry)
        self._steps = Counter(
            "corral_operation_steps_total", "Steps of operations by outcome.", ["outcome"], registry=self.registry
        )
        self._step_seconds = Histogram(
            "corral_operation_step_seconds", "Time of a step of an operation.", registry=self.registry
        )
        self._commands = Counter(
            "corral_node_commands_total",
            "What was told to workers for operations, by outcome.",
            ["command", "outcome"],
            registry=self.registry,
        )
        self._job_events = Counter(
            "corral_job_events_total",
            "Events of jobs that were heard: taken, dropped because too many waited, or odd.",
            ["outcome"],
            registry=self.registry,
        )

    def stepped(self, outcome: StepOutcome, seconds: float) -> None:
        self._steps.labels(outcome).inc()
        self._step_seconds.observe(seconds)

    def commanded(self, command: str, outcome: CommandOutcome) -> None:
        self._commands.labels(command, outcome).inc()

    def heard(self, outcome: EventOutcome) -> None:
        self._job_events.labels(outcome).inc()

    def counted(self, operations: Mapping[str, int], assignments: Mapping[str, int]) -> None:
        """Rows by state; a state without any is 0."""
        for state in OperationState:
            self.operations.labels(state).set(operations.get(state, 0))
        for owed in AssignmentState:
            self.assignments.labels(owed).set(assignments.get(owed, 0))

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        requests = self.requests.render() if self.requests is not None else b""
        return generate_latest(self.registry) + requests
