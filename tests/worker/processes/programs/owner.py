"""A worker's supervisor in a process of its own, so that it can be killed: starts engines and waits for its end."""

import asyncio
import sys
from pathlib import Path

from tests.worker.processes.scene import NoReport, Scene, make_command


async def main(root: Path, models: list[str]) -> None:
    scene = Scene(root=root)
    scene.install(api_key="environment", environment={"KEY": "{api_key}"})
    supervisor = await scene.start(threads=4)
    for model in models:
        process = await supervisor.start_backend(make_command(model, fork="yes", threads=2, say="3"), NoReport())
        print(process.key, process.pid, process.address, flush=True)
    print("done", flush=True)
    await asyncio.Event().wait()


asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
