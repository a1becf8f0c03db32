"""The logs of all processes, also of those that have ended: bounded in number, the oldest unused one goes first."""

from __future__ import annotations

import shutil
from pathlib import Path

from corral.bus.messages import Log, ReadLog
from corral.domain.errors import NotFound
from corral.worker.processes.keys import file_name
from corral.worker.processes.logs.book import LogBook, LogLimits

# Says whose log a folder holds: its name alone cannot be read back.
_KEY_FILE = "key"


class LogShelf:
    def __init__(self, folder: Path, limits: LogLimits) -> None:
        self._folder = folder
        self.limits = limits
        self._books: dict[str, LogBook] = {}

    def folder_of(self, key: str) -> Path:
        return self._folder / file_name(key)

    def keys(self) -> tuple[str, ...]:
        return tuple(sorted(self._found()))

    def open(self, key: str, *, in_use: frozenset[str]) -> LogBook:
        """The log of a process that is being started. `in_use` are the keys whose logs must stay."""
        folder = self.folder_of(key)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if key not in self._found():
            (folder / _KEY_FILE).write_text(key, encoding="utf-8")
        self._forget_oldest(in_use | {key})
        return self._book(key)

    async def read(self, wish: ReadLog) -> Log:
        """Lines after a number, or with a negative number the last of that many."""
        if not wish.key:
            return Log(keys=self.keys())
        if wish.key not in self._books and wish.key not in self._found():
            raise NotFound(f"There is no log of {wish.key[:80]!r}.", code="log_not_found")
        book = self._book(wish.key)
        if wish.wait_s > 0 and wish.after >= book.last:
            await book.grown(wish.wait_s)
        lines = book.read(wish.after, wish.limit)
        # Somebody who asks for more than there ever was has seen another log: he goes on with this one.
        reached = lines[-1].number if lines else min(max(wish.after, 0), book.last)
        return Log(lines=lines, first=book.first, next=reached)

    def _book(self, key: str) -> LogBook:
        if key not in self._books:
            self._books[key] = LogBook(self.folder_of(key), self.limits)
        return self._books[key]

    def _found(self) -> dict[str, Path]:
        """Keys and their folders, those that were written to last at the end."""
        files = [path for path in self._folder.glob(f"*/{_KEY_FILE}") if path.is_file()]
        files.sort(key=lambda path: path.parent.stat().st_mtime_ns)
        return {path.read_text(encoding="utf-8"): path.parent for path in files}

    def _forget_oldest(self, in_use: frozenset[str]) -> None:
        found = self._found()
        spare = [key for key in found if key not in in_use]
        for key in spare[: max(0, len(found) - self.limits.keys)]:
            shutil.rmtree(found[key], ignore_errors=True)
            self._books.pop(key, None)
