"""Files that this frontend is fetching into its library, for operations that it holds.

One fetch for each model, whoever wants it. It is not bound to a step: steps come and look. Guarantee: a fetch ends with
the last operation that wants it, and what it has fetched stays for the next. Limit: it belongs to this process;
another frontend that takes the operation over begins its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import structlog

from corral.domain.errors import CorralError
from corral.domain.model import Model, ModelFile
from corral.domain.operation import Fault, OperationId, Phase, Progress
from corral.policy import faults
from corral.ports.library import ModelLibrary
from corral.ports.runtime import Clock
from corral.runtime.guard import Failed, attempt
from corral.runtime.tasks import Tasks

log = structlog.get_logger(__name__)

# How long to wait before trying a source again that did not answer; then it has failed.
PAUSES_S = (2.0, 10.0, 30.0)


@dataclass(slots=True, kw_only=True)
class Fetch:
    """Where it is. `fault` and `is_done` are its end."""

    model: str
    # What is being fetched: a model that has been given other files since wants another fetch.
    files: tuple[ModelFile, ...]
    task: asyncio.Task[Any] | None = None
    wanted_by: set[OperationId] = field(default_factory=set)
    current_bytes: int = 0
    total_bytes: int | None = None
    file_name: str = ""
    # Why the last try came to nothing, while another one is to come.
    problem: str = ""
    fault: Fault | None = None
    is_done: bool = False

    def moved(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        self.current_bytes, self.total_bytes = max(self.current_bytes, current_bytes), total_bytes
        self.file_name = file_name or self.file_name

    def progress(self, share: float) -> Progress:
        """`share`: how much of the whole bar this is, 0 to 1."""
        percent = 0.0
        if self.total_bytes:
            percent = min(100.0, 100.0 * self.current_bytes / self.total_bytes) * share
        return Progress(
            percent=percent,
            phase=Phase.DOWNLOADING,
            current_bytes=self.current_bytes or None,
            total_bytes=self.total_bytes,
            file_name=self.file_name[:255],
        )


class Fetches:
    """`call` is told when a fetch has ended, once for each operation that wants it."""

    def __init__(
        self,
        library: ModelLibrary,
        clock: Clock,
        *,
        on_crash: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._library = library
        self._clock = clock
        self._tasks = Tasks("fetches", on_crash)
        self._running: dict[str, Fetch] = {}
        # Since when an operation has missed files that its nodes wait for.
        self._lost_since: dict[OperationId, float] = {}
        # Looks at the copies of an operation's files, done or not.
        self._checks: dict[OperationId, asyncio.Task[None]] = {}
        self.call: Callable[[OperationId], None] = lambda _: None

    def look(self, operation_id: OperationId, model: Model) -> Fetch:
        """The fetch of this model; begun if there is none."""
        fetch = self._running.get(model.name)
        if fetch is not None and fetch.files != model.config.files:
            self._cancel(fetch)
            fetch = None
        if fetch is None:
            fetch = self._running[model.name] = Fetch(model=model.name, files=model.config.files)
            fetch.task = self._tasks.start(self._run(fetch, model), name=f"fetch {model.name}")
        fetch.wanted_by.add(operation_id)
        return fetch

    def is_wanted_by(self, operation_id: OperationId) -> bool:
        """Whether a fetch runs, or has ended and was not looked at yet, for this operation."""
        return any(operation_id in fetch.wanted_by for fetch in self._running.values())

    def check(self, operation_id: OperationId, sha256s: Collection[str]) -> bool:
        """Have this frontend's copies of contents looked at, once for an operation; whether that is done."""
        task = self._checks.get(operation_id)
        if task is None:
            task = self._tasks.start(self._check(operation_id, sha256s), name=f"check for {operation_id}")
            self._checks[operation_id] = task
        return task.done()

    async def _check(self, operation_id: OperationId, sha256s: Collection[str]) -> None:
        outcome = await attempt(lambda: self._library.drop_damaged(sha256s))
        if isinstance(outcome, Failed):
            log.warning("the library's copies could not be looked at", problem=outcome.sentence)
        self.call(operation_id)

    def is_lost_for(self, operation_id: OperationId, seconds: float, *, is_lost: bool) -> bool:
        """Note whether files of an operation are lost now; whether they have been all the time for so long."""
        if not is_lost:
            self._lost_since.pop(operation_id, None)
            return False
        now = self._clock.monotonic()
        return now - self._lost_since.setdefault(operation_id, now) >= seconds

    def forget(self, fetch: Fetch) -> None:
        """Its end has been seen: the next look begins anew."""
        if self._running.get(fetch.model) is fetch:
            del self._running[fetch.model]

    def stop(self, operation_id: OperationId) -> None:
        """This operation does not want it any more; nobody does: it is cancelled."""
        self._lost_since.pop(operation_id, None)
        check = self._checks.pop(operation_id, None)
        if check is not None:
            check.cancel()
        for fetch in list(self._running.values()):
            fetch.wanted_by.discard(operation_id)
            if not fetch.wanted_by:
                self._cancel(fetch)

    def _cancel(self, fetch: Fetch) -> None:
        self.forget(fetch)
        if fetch.task is not None:
            fetch.task.cancel()

    def keep(self, held: frozenset[OperationId]) -> None:
        """Of operations that this frontend holds no longer, nothing is wanted."""
        wanted = {key for fetch in self._running.values() for key in fetch.wanted_by}
        for key in (wanted | self._lost_since.keys() | self._checks.keys()) - held:
            self.stop(key)

    async def close(self) -> None:
        await self._tasks.close()
        self._running.clear()

    async def _run(self, fetch: Fetch, model: Model) -> None:
        for pause_s in (*PAUSES_S, None):
            outcome = await attempt(lambda: self._library.enter(model.name, model.config.files, fetch))
            if not isinstance(outcome, Failed):
                fetch.is_done = True
                break
            error = outcome.error
            if pause_s is None or not (isinstance(error, CorralError) and error.retryable):
                fetch.fault = _fault_of(error, outcome.sentence)
                break
            fetch.problem = outcome.sentence
            await self._clock.sleep(pause_s)
        for key in sorted(fetch.wanted_by):
            self.call(key)


def _fault_of(error: Exception, sentence: str) -> Fault:
    if isinstance(error, CorralError):
        hint = f" {error.hint}" if error.hint else ""
        return Fault(code=error.slug, text=f"The files could not be fetched: {error.message}{hint}")
    return Fault(code=faults.INTERNAL, text=f"A fault of Corral while fetching: {sentence}")
