"""Metrics for Prometheus: aggregates only, no names of nodes or people, so that `/metrics` needs no key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from corral.api.metric_families import RequestMetrics
from corral.domain.backend import AssignmentState
from corral.domain.operation import OperationState
from corral.domain.run import RunKind, RunState
from corral.operations.command_sender import CommandOutcome, JobEventOutcome, StepOutcome

# From the answer of a small model to a long piece of work with many tool calls.
RUN_SECONDS_BUCKETS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, float("inf"))


class MetricsPageCollector(Protocol):
    """Interface that collects the Prometheus pages of all frontend processes that share one port."""

    async def collect_pages(self) -> bytes:
        """Return the metrics of all processes on this port as one page."""
        ...


class FrontendMetrics:
    """Holds the Prometheus metrics of one frontend in a registry of its own. Implements `DispatchMetrics`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        # Metrics of inference requests; None: the page has only the others.
        self.request_metrics: RequestMetrics | None = None
        # Collects the pages of the other processes on this port; None: there are no others.
        self.page_collector: MetricsPageCollector | None = None
        self._requests = Counter(
            "corral_http_requests_total",
            "Responses by route and status.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "corral_http_request_seconds", "Time until the end of the response.", ["route"], registry=self.registry
        )
        self.heartbeats = Counter("corral_heartbeats_total", "Heartbeats received.", registry=self.registry)
        self.heartbeats_flushed = Counter(
            "corral_heartbeats_flushed_total", "Node rows written by flushes.", registry=self.registry
        )
        self.heartbeats_waiting = Gauge(
            "corral_heartbeats_waiting", "Nodes with a heartbeat not yet written.", registry=self.registry
        )
        self.leader = Gauge("corral_leader", "1 on the leader.", registry=self.registry)
        self.bus = Gauge("corral_bus_connected", "1 while this frontend is on the bus.", registry=self.registry)
        self.nodes = Gauge("corral_nodes", "Nodes by status.", ["status"], registry=self.registry)
        self.nodes_lost = Counter(
            "corral_nodes_lost_total", "Nodes found lost by this frontend.", registry=self.registry
        )
        self.loop_failures = Gauge("corral_loop_failures", "Failed passes by loop.", ["loop"], registry=self.registry)

        self.operations = Gauge(
            "corral_operations", "Operations by state, in the whole cluster.", ["state"], registry=self.registry
        )
        self.assignments = Gauge(
            "corral_assignments",
            "Pending changes of nodes in the whole cluster: open, or dead after too many failures.",
            ["state"],
            registry=self.registry,
        )
        self.runs, self._run_seconds = _make_run_metrics(self.registry)
        self.held_operations = Gauge(
            "corral_operations_held", "Operations that this frontend drives.", registry=self.registry
        )
        self._steps = Counter(
            "corral_operation_steps_total", "Steps of operations by outcome.", ["outcome"], registry=self.registry
        )
        self._step_seconds = Histogram(
            "corral_operation_step_seconds", "Time of a step of an operation.", registry=self.registry
        )
        self._commands = Counter(
            "corral_node_commands_total",
            "Commands sent to workers for operations, by outcome.",
            ["command", "outcome"],
            registry=self.registry,
        )
        self._job_events = Counter(
            "corral_job_events_total",
            "Job reports received: taken, dropped because too many were queued, or odd.",
            ["outcome"],
            registry=self.registry,
        )

    def count_step(self, outcome: StepOutcome, seconds: float) -> None:
        self._steps.labels(outcome).inc()
        self._step_seconds.observe(seconds)

    def count_command(self, command: str, outcome: CommandOutcome) -> None:
        self._commands.labels(command, outcome).inc()

    def count_job_event(self, outcome: JobEventOutcome) -> None:
        self._job_events.labels(outcome).inc()

    def set_counts(self, operations: Mapping[str, int], assignments: Mapping[str, int]) -> None:
        """Set the number of rows by state; a state without rows is set to 0."""
        for state in OperationState:
            self.operations.labels(state).set(operations.get(state, 0))
        for assignment_state in AssignmentState:
            self.assignments.labels(assignment_state).set(assignments.get(assignment_state, 0))

    def set_run_counts(self, runs: Mapping[tuple[str, str], int]) -> None:
        """Set the number of runs by kind and state; a pair without runs is set to 0."""
        for kind in RunKind:
            for state in RunState:
                self.runs.labels(kind, state).set(runs.get((kind, state), 0))

    def count_run(self, kind: RunKind, state: RunState, seconds: float) -> None:
        self._run_seconds.labels(kind, state).observe(seconds)

    def count_response(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        requests = self.request_metrics.render() if self.request_metrics is not None else b""
        return generate_latest(self.registry) + requests


def _make_run_metrics(registry: CollectorRegistry) -> tuple[Gauge, Histogram]:
    runs = Gauge(
        "corral_runs",
        "Runs of agents and tasks by kind and state, in the whole cluster.",
        ["kind", "state"],
        registry=registry,
    )
    seconds = Histogram(
        "corral_run_seconds",
        "Time from the start of a run to its end, counted by the frontend that ended it.",
        ["kind", "state"],
        buckets=RUN_SECONDS_BUCKETS,
        registry=registry,
    )
    return runs, seconds
