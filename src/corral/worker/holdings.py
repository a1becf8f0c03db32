"""Tells the control plane what runs here and which files of models lie here (`pushing.py` has the guarantee).

Processes are told also when the files cannot be looked at: then nothing is said about files.
"""

from __future__ import annotations

from dataclasses import asdict
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.ports.runtime import Clock
from corral.runtime.guard import Failed, attempt
from corral.wire.holdings import (
    BLOBS_MAX,
    FILES_MAX,
    PROCESSES_MAX,
    HeldBlobIn,
    HeldFileIn,
    HeldModelIn,
    HoldingsIn,
    ProcessIn,
)
from corral.worker.control import ControlPlane
from corral.worker.pushing import Pushing
from corral.worker.work import Files, HeldFiles, HeldModel, Processes

log = structlog.get_logger(__name__)

EVERY_S = 30.0


class HoldingsReports(Pushing):
    """A service. Every change of processes and files wakes it."""

    def __init__(
        self, control: ControlPlane, processes: Processes, files: Files, *, boot_id: str, clock: Clock, rng: Random
    ) -> None:
        super().__init__("what runs here", self._report, every_s=EVERY_S, clock=clock, rng=rng)
        self._control = control
        self._processes = processes
        self._files = files
        self._boot_id = boot_id
        processes.changed = files.changed = self.wake

    async def _report(self, node_id: str) -> None:
        looked = await attempt(self._files.holdings)
        if isinstance(looked, Failed):
            log.warning("the files of models cannot be looked at", problem=looked.sentence)
        # After the look at the disk, which takes longer: these are the newest.
        processes = [ProcessIn.model_validate(asdict(each)) for each in self._processes.running()[:PROCESSES_MAX]]
        report = HoldingsIn(boot_id=self._boot_id, processes=processes, are_files_complete=False)
        if not isinstance(looked, Failed):
            report = _with_files(report, looked.value)
        await self._control.report_holdings(node_id, report)


def _with_files(report: HoldingsIn, held: HeldFiles) -> HoldingsIn:
    """As much as one report takes; a model is told whole or not at all."""
    models, room = [], FILES_MAX
    for model in held.models:
        room -= 1 + len(model.files)
        if room < 0:
            break
        models.append(_told(model))
    blobs = [HeldBlobIn.model_validate(asdict(blob)) for blob in held.blobs[:BLOBS_MAX]]
    is_complete = len(models) == len(held.models) and len(blobs) == len(held.blobs)
    return report.model_copy(update={"models": models, "blobs": blobs, "are_files_complete": is_complete})


def _told(model: HeldModel) -> HeldModelIn:
    files = [HeldFileIn(path=file.path, sha256=file.sha256, size_bytes=file.size_bytes) for file in model.files]
    return HeldModelIn(name=model.name, revision=model.revision, files=files)
