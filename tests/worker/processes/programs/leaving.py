"""A worker's supervisor that is killed while its engine loads, or while that pauses after a crash."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from corral.bus.messages import StartBackend
from corral.worker.processes.restarts import Patience
from tests.support.waiting import eventually
from tests.worker.processes.scene import NoReport, Scene, crash, wish


def wanted(ready_when: str) -> StartBackend:
    asked = wish("llama", threads=2, ready_when=ready_when)
    return replace(asked, revision="r1", operation_id="o1", job_id="j1", ready_s=60.0)


async def main(root: Path, mode: str, ready_when: str) -> None:
    scene = Scene(root=root)
    scene.install(api_key="environment", environment={"KEY": "{api_key}"})
    supervisor = await scene.start(threads=4, patience=Patience(first_s=1.0 if mode == "loading" else 3600.0))
    starting = asyncio.get_running_loop().create_task(supervisor.start_backend(wanted(ready_when), NoReport()))
    state = "starting" if mode == "loading" else "backing_off"
    if mode == "pausing":
        await crash(await starting)

    async def is_there() -> bool:
        return [one.state for one in supervisor.running()] == [state]

    await eventually(is_there)
    (told,) = supervisor.running()
    print(f"left: {told.pid}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
