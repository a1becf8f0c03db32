"""The jobs of a worker without a control plane, on a real disk with real engines, so that it can be killed.

Reads commands as lines of JSON, `{"load": …}` or `{"cancel": …}`, and prints what jobs and processes have become.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.app.settings import WorkerSettings
from corral.app.worker import ControlPlaneEndpoint, WorkerDeps, make_real_tools
from corral.bus.messages import CancelJob, GetJobs, LoadModel
from corral.worker.jobs.journal import DiskJobJournal, JobKind
from corral.worker.jobs.runner import JobRunner, JobRunnerDeps
from tests.worker.files.scene import CREDENTIAL

LOOK_S = 0.02


async def main(home: Path, library: str, port: int) -> None:
    clock, ids, rng = SystemClock(), SystemIdGenerator(), random.Random(1)
    place = ControlPlaneEndpoint(urls=(library,), credential=CREDENTIAL, node_id=lambda: "n1", ticket_key=lambda: "")
    settings = WorkerSettings(join=library, worker_home=home, engine_port=port, disk_headroom_bytes=0)
    tools = make_real_tools(WorkerDeps(settings=settings, clock=clock, ids=ids, rng=rng, control_plane=place))
    runner = JobRunner(
        JobRunnerDeps(
            installer=tools.installer,
            files=tools.files,
            processes=tools.processes,
            journal=DiskJobJournal(home),
            clock=clock,
            rng=rng,
            boot_id=ids.new_id(),
        )
    )
    for service in (*tools.services, runner):
        await service.start()
    await runner.serve_node("n1")
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with asyncio.TaskGroup() as group:
        group.create_task(_listen(runner, reader))
        printed = ""
        while True:
            jobs = (await runner.list_jobs(GetJobs())).jobs
            seen = {
                "jobs": [asdict(job) for job in jobs],
                "running": [asdict(one) for one in tools.processes.list_running()],
            }
            if (text := json.dumps(seen)) != printed:
                printed = text
                print(f"seen: {text}", flush=True)
            await clock.sleep(LOOK_S)


async def _listen(runner: JobRunner, reader: asyncio.StreamReader) -> None:
    while line := await reader.readline():
        ((verb, value),) = json.loads(line).items()
        if verb == "load":
            await runner.accept(JobKind.LOAD, TypeAdapter(LoadModel).validate_python(value))
        else:
            await runner.cancel(CancelJob(job_id=value))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
