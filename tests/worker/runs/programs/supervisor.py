"""Keeps a scripted runner as a worker does, and prints the pid of the runner once it is ready."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from corral.adapters.system import SystemClock
from corral.worker.runs.runner_supervisor import RunnerOptions, RunnerSupervisor

PROGRAM = Path(__file__).parent / "runner.py"


async def main(directory: Path) -> None:
    options = RunnerOptions(command=(sys.executable, str(PROGRAM)), directory=directory)
    supervisor = RunnerSupervisor(options, SystemClock(), random.Random(1))
    await supervisor.start()
    supervisor.warm_up()
    sys.stdout.write(f"{await supervisor.became_ready.wait()}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


asyncio.run(main(Path(sys.argv[1])))
