"""A worker's supervisor that is killed while its engine loads, or while that pauses after a crash."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from corral.bus.messages import StartBackend
from corral.runtime.processes import RestartBackoff
from tests.support.polling import eventually
from tests.worker.processes.scene import NoReport, Scene, crash, make_command


def make_leaving_command(ready_when: str) -> StartBackend:
    command = make_command("llama", threads=2, ready_when=ready_when)
    return replace(command, revision="r1", operation_id="o1", job_id="j1", ready_s=60.0)


async def main(root: Path, mode: str, ready_when: str) -> None:
    scene = Scene(root=root)
    scene.install(api_key="environment", environment={"KEY": "{api_key}"})
    supervisor = await scene.start(
        threads=4, restart_backoff=RestartBackoff(first_s=1.0 if mode == "loading" else 3600.0)
    )
    starting = asyncio.get_running_loop().create_task(
        supervisor.start_backend(make_leaving_command(ready_when), NoReport())
    )
    state = "starting" if mode == "loading" else "backing_off"
    if mode == "pausing":
        await crash(await starting)

    async def is_there() -> bool:
        return [one.state for one in supervisor.list_running()] == [state]

    await eventually(is_there)
    (process,) = supervisor.list_running()
    print(f"left: {process.pid}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
