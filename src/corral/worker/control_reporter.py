"""Sends reports about this node to the control plane: after every change, after every registration, and periodically.

There is one reporter for running engines with stored model files, and one for installed backends.

Guarantee: a change is reported until a frontend has accepted it, however long that lasts. A frontend that is too old to
know the route is no error; the next report may reach a newer one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.domain.errors import NotFound
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.loop import Loop, LoopOptions, ValueSignal
from corral.wire.backends import BackendsReportIn, InstalledBackendIn
from corral.wire.holdings import (
    BLOBS_MAX,
    FILES_MAX,
    PROCESSES_MAX,
    HeldBlobIn,
    HeldFileIn,
    HeldModelIn,
    HoldingsIn,
    RunningProcessIn,
)
from corral.worker.control_plane import ControlPlane, FailureLog
from corral.worker.job_ports import HeldFiles, HeldModel, ModelFiles, ProcessSupervisor
from corral.worker.jobs.runner import BackendInventory

FIRST_RETRY_S = 1.0
# Sends the report in the name of this node.
SendReport = Callable[[str], Awaitable[None]]
log = structlog.get_logger(__name__)
HOLDINGS_EVERY_S = 30.0
BACKENDS_EVERY_S = 60.0
# Limits of one report; the route accepts no more.
MAX_REPORTED = 1000


class ControlReporter:
    """Base class that sends one kind of report, such as of engine processes, from a worker to a frontend. A service.

    It reports after every change and periodically.
    """

    def __init__(self, name: str, send: SendReport, *, every_s: float, clock: Clock, rng: Random) -> None:
        self.name = name
        self._send = send
        self._every_s = every_s
        self._failure_log = FailureLog(f"reporting {name}")
        self._failures = 0
        self.get_node_id: Callable[[], str | None] = lambda: None
        # The node for which a frontend accepted a report last.
        self.acknowledged_node_id: str | None = None
        self.on_acknowledged: Callable[[], None] = lambda: None
        self.acknowledged: ValueSignal[str] = ValueSignal()
        self.loop = Loop(LoopOptions(name=name, interval_s=every_s), self.tick, clock, rng)

    async def start(self) -> None:
        await self.loop.start()

    async def stop(self) -> None:
        await self.loop.stop()

    def wake(self) -> None:
        """Send a report now, because something has changed."""
        self.loop.wake()

    async def tick(self) -> None:
        node_id = self.get_node_id()
        if node_id is None:
            # The next registration wakes this loop.
            self._set_interval(self._every_s)
            return
        outcome = await attempt(lambda: self._send(node_id))
        if isinstance(outcome, AttemptFailure) and not _is_unknown_route(outcome.error):
            self._failure_log.record_failure(outcome.error)
            self._failures += 1
            self._set_interval(min(self._every_s, FIRST_RETRY_S * 2 ** min(self._failures - 1, 10)))
            return
        self._failure_log.record_recovery()
        self._failures = 0
        self._set_interval(self._every_s)
        self.acknowledged_node_id = node_id
        self.acknowledged.fire(node_id)
        self.on_acknowledged()

    def _set_interval(self, interval_s: float) -> None:
        self.loop.options = LoopOptions(name=self.name, interval_s=interval_s, jitter=0.2)


def _is_unknown_route(error: Exception) -> bool:
    """Return whether the frontend does not know the route. An unknown node is another matter, which its heartbeat
    handles."""
    return isinstance(error, NotFound) and error.slug != "node_not_found"


class HoldingsReporter(ControlReporter):
    """Reports a worker's engine processes and model files to a frontend, after every change. A service.

    It also reports periodically.

    If the files cannot be read, the report has only processes: then it says nothing about files.
    """

    def __init__(
        self,
        control: ControlPlane,
        processes: ProcessSupervisor,
        files: ModelFiles,
        *,
        boot_id: str,
        clock: Clock,
        rng: Random,
    ) -> None:
        super().__init__("what runs here", self._report, every_s=HOLDINGS_EVERY_S, clock=clock, rng=rng)
        self._control = control
        self._processes = processes
        self._files = files
        self._boot_id = boot_id
        processes.on_change = files.on_change = self.wake

    async def _report(self, node_id: str) -> None:
        outcome = await attempt(self._files.list_holdings)
        if isinstance(outcome, AttemptFailure):
            log.warning("the files of models cannot be read", problem=outcome.sentence)
        # Read after the disk, which takes longer, so that the processes are the newest.
        processes = [
            RunningProcessIn.model_validate(asdict(each)) for each in self._processes.list_running()[:PROCESSES_MAX]
        ]
        report = HoldingsIn(boot_id=self._boot_id, processes=processes, are_files_complete=False)
        if not isinstance(outcome, AttemptFailure):
            report = _with_files(report, outcome.value)
        await self._control.report_holdings(node_id, report)


def _with_files(report: HoldingsIn, held: HeldFiles) -> HoldingsIn:
    """Return a report with as many files as one report takes; a model is reported with all files or not at all."""
    models, room = [], FILES_MAX
    for model in held.models:
        room -= 1 + len(model.files)
        if room < 0:
            break
        models.append(_make_held_model(model))
    blobs = [HeldBlobIn.model_validate(asdict(blob)) for blob in held.blobs[:BLOBS_MAX]]
    is_complete = len(models) == len(held.models) and len(blobs) == len(held.blobs)
    return report.model_copy(update={"models": models, "blobs": blobs, "are_files_complete": is_complete})


def _make_held_model(model: HeldModel) -> HeldModelIn:
    files = [HeldFileIn(path=file.path, sha256=file.sha256, size_bytes=file.size_bytes) for file in model.files]
    return HeldModelIn(name=model.name, revision=model.revision, files=files)


class BackendReporter(ControlReporter):
    """Reports a worker's installed backends to a frontend, after every change and once a minute. A service."""

    def __init__(
        self,
        control: ControlPlane,
        get_inventory: Callable[[str], Awaitable[BackendInventory]],
        *,
        boot_id: str,
        clock: Clock,
        rng: Random,
    ) -> None:
        super().__init__("installed backends", self._report, every_s=BACKENDS_EVERY_S, clock=clock, rng=rng)
        self._control = control
        self._get_inventory = get_inventory
        self._boot_id = boot_id

    async def _report(self, node_id: str) -> None:
        inventory = await self._get_inventory(node_id)
        # If there are too many removals, only the newest are reported.
        removed = sorted(inventory.removed.items(), key=lambda item: item[1])[-MAX_REPORTED:]
        report = BackendsReportIn(
            boot_id=self._boot_id,
            backends=[InstalledBackendIn.model_validate(asdict(each)) for each in inventory.installed[:MAX_REPORTED]],
            removed=dict(removed),
        )
        await self._control.report_backends(node_id, report)
