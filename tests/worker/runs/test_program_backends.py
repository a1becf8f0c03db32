"""The backend of a program that cannot be installed ends its run with the reason, and not as if its worker was lost."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any, cast

import pytest

from corral.adapters.system import SystemClock
from corral.domain.run import LOSSES
from corral.policy.gallery import build_to_json
from corral.runtime.tasks import TaskSet
from corral.transfer.faults import SourceFailed
from corral.wire.run_work import RunOutcome, RunSpec
from corral.worker.jobs.job import KeyedLocks
from corral.worker.programs.program_host import ProgramHost, ProgramHostDeps, ProgramProgress
from corral.worker.programs.program_preparer import ProgramPreparer, ProgramPreparerDeps
from corral.worker.runs.trace_sender import RunAttempt
from tests.worker.pretend_work import build

IDS = RunAttempt(node_id="node-1", run_id="run-1", job_id="job-1", boot_id="boot-1")


class OfflineInstaller:
    """Has no backend, and reaches no source of one."""

    def resolve(self, name: str) -> None:
        del name

    async def install(self, *_: Any, **__: Any) -> None:
        raise SourceFailed("The package index cannot be reached.", hint="Check the network of this node.")


class InstallingWork:
    """The beginning of each program: its backend."""

    def __init__(self, preparer: ProgramPreparer) -> None:
        self._preparer = preparer

    async def execute(self, ids: RunAttempt, spec: RunSpec, progress: ProgramProgress) -> RunOutcome:
        del ids, progress
        await self._preparer.ensure_backend(spec)
        return RunOutcome(state="completed", content="", result={})


class EndListener:
    """Keeps how a run has ended."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[RunOutcome] = asyncio.get_running_loop().create_future()

    def on_end(self, outcome: RunOutcome) -> None:
        self.ended.set_result(outcome)


@pytest.mark.behaviour("QUANT-17")
async def test_program_whose_backend_cannot_be_fetched_fails_with_the_reason(tmp_path: Path) -> None:
    deps = ProgramPreparerDeps(
        control=cast("Any", None),
        installer=cast("Any", OfflineInstaller()),
        files=cast("Any", None),
        backend_locks=KeyedLocks(1),
        on_installed=lambda: None,
        work_dir=tmp_path,
        environment={},
        threads=1,
        headroom_bytes=0,
        clock=SystemClock(),
        rng=random.Random(1),
    )
    tasks = TaskSet("test")
    host = ProgramHost(IDS, ProgramHostDeps(works={"quantize": InstallingWork(ProgramPreparer(deps))}, tasks=tasks))
    listener = EndListener()
    spec = RunSpec(run_id=IDS.run_id, kind="quantize", model="", extra={"build": build_to_json(build())})
    await host.start_run(IDS.run_id, spec, cast("Any", listener))
    outcome = await listener.ended
    await tasks.close()
    assert (outcome.state, outcome.error_code) == ("failed", "source_unavailable")
    assert outcome.error_code not in LOSSES
    assert "cpu-llama-cpp could not be installed on this node: The package index cannot be reached." in str(
        outcome.error_text
    )
