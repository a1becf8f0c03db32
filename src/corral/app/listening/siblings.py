"""One `/metrics` for several processes on one port: whoever is scraped asks the others, and answers for all.

Each has a socket in a folder that their parent made, closed to other users, and says its own page to whoever connects.
Guarantee: every number has the label `process`, so that a page is the same as a scrape of each of them: what is counted
is summed, and one that was started again begins anew. Limit: one that does not answer within a second is not on that
page; neither are the others if the folder cannot be used, which is logged once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

from corral.api.insight.merging import labelled, merged
from corral.runtime.guard import Done, attempt
from corral.runtime.tasks import Tasks

log = structlog.get_logger(__name__)

# Names the folder to each of the processes.
FOLDER_VARIABLE = "CORRAL_FAMILY_DIR"
ANSWER_LIMIT_S = 1.0
PAGE_BYTES_MAX = 64 * 1024 * 1024


class Siblings:
    """`number` is this one's place among them, `page` its own numbers as they are now."""

    name = "siblings"

    def __init__(self, folder: Path, number: int, page: Callable[[], bytes], parent_pid: int) -> None:
        self._folder = folder
        self._parent_pid = parent_pid
        self._number = number
        self._page = page
        self._server: asyncio.Server | None = None
        self._tasks = Tasks(self.name)

    async def start(self) -> None:
        path = self._path(self._number)
        try:
            path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._on_asked, path)
        except OSError as error:
            log.warning("the other processes cannot be asked for their metrics", error=str(error))

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._tasks.close()
            self._path(self._number).unlink(missing_ok=True)
            if os.getppid() != self._parent_pid:
                # Nobody else will; the last one to leave succeeds.
                with suppress(OSError):
                    self._folder.rmdir()

    async def together(self) -> bytes:
        """The page of all of them, in their order."""
        numbers = sorted(int(path.stem) for path in self._folder.glob("*.sock") if path.stem.isdecimal())
        others: dict[int, asyncio.Task[bytes | None]] = {}
        async with asyncio.TaskGroup() as group:
            for number in numbers:
                if number != self._number:
                    others[number] = group.create_task(self._ask(number), name=f"metrics of {number}")
        pages = {number: page for number, task in others.items() if (page := task.result()) is not None}
        pages[self._number] = self._own()
        return merged(pages[number] for number in sorted(pages))

    def _own(self) -> bytes:
        return labelled(self._page(), self._number)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.sock"

    def _on_asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        self._tasks.start(self._tell(writer), name="tell")

    async def _tell(self, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                writer.write(self._own())
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError):
            # Whoever asked has left, or does not read.
            writer.transport.abort()

    async def _ask(self, number: int) -> bytes | None:
        outcome = await attempt(lambda: self._heard(number))
        return outcome.value if isinstance(outcome, Done) else None

    async def _heard(self, number: int) -> bytes:
        async with asyncio.timeout(ANSWER_LIMIT_S):
            reader, writer = await asyncio.open_unix_connection(self._path(number), limit=PAGE_BYTES_MAX)
            try:
                return await reader.read()
            finally:
                writer.close()
                await writer.wait_closed()
