"""Through how many files of `src/corral` one action goes: `make bench BENCH=request_files`.

It starts one frontend and one worker as processes, with a recorder (`bench/recorder`) in each, and counts the distinct
files in which a function ran between the request and its end: a chat request for a model that is not loaded, a chat
request for one that is, and the installation of a backend. Loops that run all the time (heartbeats, the feed) run
meanwhile, too; the last column leaves out the files that also ran during an idle interval before.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bench.report import ReportRow, format_table
from tests.e2e.cluster import Cluster, empty_cluster
from tests.e2e.models.scene import Models
from tests.support.polling import eventually

RECORDER = Path(__file__).parent / "recorder"
# Long enough that the slow loops have come round, too.
IDLE_S = 45.0
MODEL = "chat"


@dataclass
class FileCounter:
    """Records the files of all programs of a cluster while something happens."""

    cluster: Cluster
    target: Path

    async def count(self, action: Callable[[], Awaitable[object]]) -> set[str]:
        pids = [self.cluster.frontends[0].program.pid, *(worker.pid for worker in self.cluster.workers.values())]
        for pid in pids:
            os.kill(pid, signal.SIGUSR1)
        await action()
        files = set[str]()
        for pid in pids:
            os.kill(pid, signal.SIGUSR2)
            files |= await self._read(Path(f"{self.target}.{pid}"))
        return files

    async def _read(self, path: Path) -> set[str]:
        async def is_written() -> bool:
            return path.exists()

        await eventually(is_written, within_s=30)
        text = path.read_text()
        path.unlink()
        return set(text.splitlines())


async def _measure(folder: Path) -> list[tuple[str, set[str], set[str]]]:
    environment = {"PYTHONPATH": str(RECORDER), "CORRAL_BENCH_FILES": str(folder / "files")}
    async with empty_cluster(folder) as cluster:
        cluster.frontend_settings = environment | {"CORRAL_DISK_CHECK": "false"}
        cluster.worker_settings = environment
        await cluster.postgres.start()
        await cluster.add_frontends(1)
        await cluster.join("worker-1")
        models = Models(cluster, folder)
        await models.put(MODEL)
        counter = FileCounter(cluster, folder / "files")
        idle = await counter.count(lambda: asyncio.sleep(IDLE_S))

        async def install() -> None:
            status, admitted = await models.call("POST", "/api/backends/install/fake", {})
            assert status in (200, 202), admitted
            await models.becomes(admitted["id"], "completed")

        rows = [("installation of a backend", await counter.count(install), idle)]
        rows.append(("cold chat request", await counter.count(lambda: models.answers(MODEL)), idle))
        rows.append(("warm chat request", await counter.count(lambda: models.answers(MODEL)), idle))
        await models.forget(MODEL)
        return rows


def run() -> str:
    """Return the table of files by action."""
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder:
        rows = asyncio.run(_measure(Path(folder)))
    counted = [
        ReportRow(name, {"files": len(files), "files that did not run while idle": len(files - idle)})
        for name, files, idle in rows
    ]
    listed = [f"{name}: {', '.join(sorted(files - idle))}" for name, files, idle in rows]
    return "\n\n".join([format_table("Files that an action goes through", counted), *listed])
