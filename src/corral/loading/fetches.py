"""Runs the fetches of model files into this frontend's library, for operations that it holds.

There is one fetch for each model, whichever operations need it. A fetch is not bound to a step: steps come and look.
Guarantee: a fetch ends with the last operation that needs it, and the bytes that it has fetched stay for the next.
Limit: a fetch belongs to this process; another frontend that takes the operation over starts its own.

`FileProvisioner` provides the files that an operation needs; if no library or node has them, it has them fetched here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import structlog

from corral.domain.errors import CorralError
from corral.domain.model import Model, ModelFile
from corral.domain.node import NodeId
from corral.domain.operation import Fault, JobPhase, OperationId, Progress, Target, TargetState
from corral.loading.kinds.view import ModelOperationView, give_up, make_running_verdict, read_target_plan
from corral.loading.load_reports import extend_deadlines
from corral.operations.driver import AdvanceResult
from corral.policy import faults
from corral.policy.loads import STALLED, LoadTimeouts, is_starting_engine
from corral.policy.progress import TargetEnd
from corral.ports.library import ModelLibrary
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet
from corral.store import holdings as staged_store
from corral.store.database import Transaction
from corral.store.holdings import StagedFile

log = structlog.get_logger(__name__)

# The waits before a source that did not respond is tried again; after the last one the fetch fails.
PAUSES_S = (2.0, 10.0, 30.0)
# How often a fetch is looked at: the row, and with it every watcher, is at most so far behind.
LOOK_S = 0.5
# A frontend that restarts takes its library away for a moment: files count as lost only after they had no holder for
# so long.
LOST_S = 15.0
# How often the files that a node still waits for are checked.
GUARD_S = 5.0


@dataclass(slots=True, kw_only=True)
class ModelFetch:
    """One running fetch of a model's files into a frontend's library.

    `fault` or `is_done` is set when it has ended.
    """

    model: str
    # The files that are being fetched: a model that was given other files needs another fetch.
    files: tuple[ModelFile, ...]
    task: asyncio.Task[Any] | None = None
    operation_ids: set[OperationId] = field(default_factory=set)
    current_bytes: int = 0
    total_bytes: int | None = None
    file_name: str = ""
    # Why the last attempt failed, while another one is to come.
    problem: str = ""
    fault: Fault | None = None
    is_done: bool = False

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        self.current_bytes, self.total_bytes = max(self.current_bytes, current_bytes), total_bytes
        self.file_name = file_name or self.file_name

    def compute_progress(self, share: float) -> Progress:
        """Return the progress of the fetch. `share`: how much of the whole bar the fetch is, 0 to 1."""
        percent = 0.0
        if self.total_bytes:
            percent = min(100.0, 100.0 * self.current_bytes / self.total_bytes) * share
        return Progress(
            percent=percent,
            phase=JobPhase.DOWNLOADING,
            current_bytes=self.current_bytes or None,
            total_bytes=self.total_bytes,
            file_name=self.file_name[:255],
        )


class ModelFetchRegistry:
    """Runs at most one fetch of a model's files at a time in a frontend, shared by all operations that need them."""

    def __init__(
        self,
        library: ModelLibrary,
        clock: Clock,
        *,
        on_crash: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._library = library
        self._clock = clock
        self._tasks = TaskSet("fetches", on_crash)
        self._running: dict[str, ModelFetch] = {}
        # Since when files that the nodes of an operation wait for have been missing.
        self._lost_since: dict[OperationId, float] = {}
        # Checks of the copies of an operation's files, running or done.
        self._checks: dict[OperationId, asyncio.Task[None]] = {}
        self.on_fetch_end: Callable[[OperationId], object] = lambda _: None

    def ensure_fetch(self, operation_id: OperationId, model: Model) -> ModelFetch:
        """Return the fetch of this model; start one if there is none."""
        fetch = self._running.get(model.name)
        if fetch is not None and fetch.files != model.config.files:
            self._cancel(fetch)
            fetch = None
        if fetch is None:
            fetch = self._running[model.name] = ModelFetch(model=model.name, files=model.config.files)
            fetch.task = self._tasks.start(self._run(fetch, model), name=f"fetch {model.name}")
        fetch.operation_ids.add(operation_id)
        return fetch

    def is_fetching_for(self, operation_id: OperationId) -> bool:
        """Return whether a fetch runs, or has ended and was not looked at yet, for this operation."""
        return any(operation_id in fetch.operation_ids for fetch in self._running.values())

    def ensure_checked(self, operation_id: OperationId, sha256s: Collection[str]) -> bool:
        """Start a check of this frontend's copies of contents, once for an operation; return whether it is done."""
        task = self._checks.get(operation_id)
        if task is None:
            task = self._tasks.start(self._check(operation_id, sha256s), name=f"check for {operation_id}")
            self._checks[operation_id] = task
        return task.done()

    async def _check(self, operation_id: OperationId, sha256s: Collection[str]) -> None:
        outcome = await attempt(lambda: self._library.drop_damaged(sha256s))
        if isinstance(outcome, AttemptFailure):
            log.warning("could not check the library's copies", problem=outcome.sentence)
        self.on_fetch_end(operation_id)

    def record_loss(self, operation_id: OperationId, seconds: float, *, is_lost: bool) -> bool:
        """Record whether files of an operation are missing now; return whether they have been missing for `seconds`
        without a break."""
        if not is_lost:
            self._lost_since.pop(operation_id, None)
            return False
        now = self._clock.monotonic()
        return now - self._lost_since.setdefault(operation_id, now) >= seconds

    def forget(self, fetch: ModelFetch) -> None:
        """Forget a fetch whose end has been handled: the next call starts a new one."""
        if self._running.get(fetch.model) is fetch:
            del self._running[fetch.model]

    def release(self, operation_id: OperationId) -> None:
        """Release the operation's claim on its fetch, and cancel the fetch when no operation needs it any more."""
        self._lost_since.pop(operation_id, None)
        check = self._checks.pop(operation_id, None)
        if check is not None:
            check.cancel()
        for fetch in list(self._running.values()):
            fetch.operation_ids.discard(operation_id)
            if not fetch.operation_ids:
                self._cancel(fetch)

    def _cancel(self, fetch: ModelFetch) -> None:
        self.forget(fetch)
        if fetch.task is not None:
            fetch.task.cancel()

    async def close(self) -> None:
        await self._tasks.close()
        self._running.clear()

    async def _run(self, fetch: ModelFetch, model: Model) -> None:
        for pause_s in (*PAUSES_S, None):
            outcome = await attempt(lambda: self._fetch(fetch, model))
            if not isinstance(outcome, AttemptFailure):
                fetch.is_done = True
                break
            error = outcome.error
            if pause_s is None or not (isinstance(error, CorralError) and error.retryable):
                fetch.fault = _make_fault(error, outcome.sentence)
                break
            fetch.problem = outcome.sentence
            await self._clock.sleep(pause_s)
        for key in sorted(fetch.operation_ids):
            self.on_fetch_end(key)

    async def _fetch(self, fetch: ModelFetch, model: Model) -> None:
        await self._library.ensure_files(model.name, model.config.files, fetch)
        for adapter in model.adapters:
            await self._library.ensure_files(adapter.model, adapter.sources, fetch)


def _make_fault(error: Exception, sentence: str) -> Fault:
    if isinstance(error, CorralError):
        hint = f" {error.hint}" if error.hint else ""
        return Fault(code=error.slug, text=f"The files could not be fetched: {error.message}{hint}")
    return Fault(code=faults.INTERNAL, text=f"Internal error of Corral while fetching: {sentence}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLoss:
    """Says which nodes of an operation wait for model files that they can no longer get.

    `is_total`: the files have no holder left.
    """

    targets: tuple[Target, ...] = ()
    is_total: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProvisioner:
    """Makes sure that the model files which an operation needs are available, and fetches missing ones."""

    fetches: ModelFetchRegistry
    timeouts: LoadTimeouts

    async def ensure_files(
        self, tx: Transaction, view: ModelOperationView, model: Model, *, share: float
    ) -> AdvanceResult | None:
        """Return the progress of the fetch of this model; None if its files are available. `share`: the fetch's part
        of the bar."""
        fetch = self.fetches.ensure_fetch(view.operation.id, model)
        if fetch.is_done:
            self.fetches.forget(fetch)
            return None
        if fetch.fault is not None:
            # The fetch is kept until the operation has ended: until that is written, every look comes to the same
            # result.
            return await give_up(tx, view, fetch.fault)
        progress = fetch.compute_progress(share)
        if progress.current_bytes != view.operation.progress.current_bytes:
            await extend_deadlines(tx, [view.operation.id], self.timeouts)
        elif is_past_deadline(view.operation.deadline_at, view.now):
            self.fetches.release(view.operation.id)
            text = f"No bytes of the files have arrived for too long. {fetch.problem}".strip()
            return await give_up(tx, view, Fault(code=STALLED, text=text))
        words = f"Fetching the files of {model.name}"
        if fetch.problem:
            words += f"; retrying after: {fetch.problem}"
        return AdvanceResult(verdict=make_running_verdict(view, words, progress=progress, next_s=LOOK_S))

    async def find_loss(self, tx: Transaction, view: ModelOperationView, model: Model) -> FileLoss:
        """Return the open targets whose files are neither in a library nor on one of their source nodes."""
        waiting = list_waiting_targets(view)
        sha256s = {file.sha256 for file in model.engine_files or ()}
        if not waiting or not sha256s:
            return FileLoss()
        in_library = frozenset(await staged_store.filter_in_library(tx, sha256s))
        missing = sha256s - in_library
        staged = await staged_store.list_files(tx, missing) if missing else []
        cut_off = tuple(target for target in waiting if not _can_reach(target, missing, staged))
        if not self.fetches.record_loss(view.operation.id, LOST_S, is_lost=bool(cut_off)):
            return FileLoss()
        return FileLoss(targets=cut_off, is_total=not is_available(model, in_library, staged))

    async def restore(
        self, tx: Transaction, view: ModelOperationView, model: Model, loss: FileLoss
    ) -> AdvanceResult | None:
        """Fetch files again that are lost everywhere; nodes that wait for them continue by themselves. None if there
        is nothing to wait for."""
        return await self.ensure_files(tx, view, model, share=0.0) if loss.is_total else None

    def ensure_checked(self, view: ModelOperationView, model: Model) -> bool:
        """Return whether this frontend has checked its copies of the files for this operation; start the check if
        not."""
        return self.fetches.ensure_checked(view.operation.id, {file.sha256 for file in model.engine_files or ()})

    def is_fetching(self, view: ModelOperationView) -> bool:
        return self.fetches.is_fetching_for(view.operation.id)


def list_waiting_targets(view: ModelOperationView) -> list[Target]:
    """Open targets whose nodes may not have all files yet."""
    return [target for target in view.open_targets if not is_starting_engine(target.progress)]


def list_cut_off_ends(loss: FileLoss) -> list[tuple[Target, TargetEnd]]:
    """Return the ends of targets whose sources no longer have the files: each gets a new command."""
    if loss.is_total:
        return []
    text = "The sources of the files no longer have them; others do."
    return [
        (target, TargetEnd(state=TargetState.ERROR, fault=Fault(code="source_unavailable", text=text)))
        for target in loss.targets
    ]


def add_file_check(
    result: AdvanceResult, view: ModelOperationView, model: Model, fetch: AdvanceResult | None
) -> AdvanceResult:
    """Add a check of the files to what an operation does next, as long as nodes wait for them. `fetch`: the running
    fetch of lost files."""
    if not model.files or not list_waiting_targets(view):
        return result
    next_check = view.compute_time_after(GUARD_S)
    moments = [result.verdict.next_at or next_check, fetch.verdict.next_at or next_check if fetch else next_check]
    message = fetch.verdict.message if fetch else result.verdict.message
    return replace(result, verdict=replace(result.verdict, message=message, next_at=min(moments)))


def _can_reach(target: Target, missing: Collection[str], staged: Sequence[StagedFile]) -> bool:
    known = {target.node, *(NodeId(node) for node in read_target_plan(target).get("from") or ())}
    held = {item.sha256 for item in staged if item.is_whole and item.node_id in known}
    return all(sha256 in held for sha256 in missing)


def is_past_deadline(deadline_at: datetime | None, now: datetime) -> bool:
    return deadline_at is not None and deadline_at <= now


def has_known_files(model: Model) -> bool:
    return model.files is not None


def is_available(model: Model, in_library: frozenset[str], staged: Sequence[StagedFile]) -> bool:
    """Return whether every content is available: from the library, or from nodes that have it whole."""
    held = in_library | {item.sha256 for item in staged if item.is_whole}
    return model.engine_files is not None and all(file.sha256 in held for file in model.engine_files)
