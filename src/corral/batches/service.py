"""Starts batches, hands their input to workers in slices, and stores answers together with the cursor.

A batch is one run. Its worker checks the input, answers the lines and delivers whole lines for the files. Guarantee:
the lines for the files and the cursor behind them are stored in one transaction, fenced by the worker's attempt, so
each line of the input is answered at most once in the files, however often workers are lost or deliveries are repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.domain.access import Principal, parse_owner
from corral.domain.artifact import ArtifactKind
from corral.domain.batch import Batch, BatchStatus
from corral.domain.errors import Conflict, InvalidRequest, LimitReached, Unprocessable
from corral.domain.node import NodeId
from corral.domain.run import Run, RunBudgets, RunId, RunKind
from corral.domain.state_words import say_run_state
from corral.policy import batches as policy
from corral.ports.runtime import IdGenerator
from corral.runs.artifacts import ArtifactService
from corral.runs.held_runs import lock_held, require_held
from corral.runs.pool import RunEnding
from corral.runs.service import RunService
from corral.store import artifacts as artifact_store
from corral.store import batches as store
from corral.store import runs as run_store
from corral.store.artifacts import NewArtifact
from corral.store.batches import CursorMove, NewBatch
from corral.store.database import Database, Transaction, read_now
from corral.store.runs import NewRun

# How many bytes of the input a worker reads at a time: a whole line must fit into it.
SLICE_BYTES_MAX = policy.LINE_BYTES_MAX + 1024
# A run shall end by its own deadline and not while the files are written.
_WALL_MIN_S = 1.0
INPUT_PURPOSE = "batch"
OUTPUT_PURPOSE = "batch_output"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchServiceDeps:
    """Dependencies of a frontend's service for batches of inference requests."""

    database: Database
    ids: IdGenerator
    runs: RunService
    artifacts: ArtifactService


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """A request for a batch: its input file of inference requests, their endpoint, and notes of the caller."""

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSlice:
    """Names a range of bytes of a batch's input file: from a position on, at most so many."""

    start_byte: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAnswers:
    """Answers of a batch that a worker delivers: lines for its files, and the input position before and behind."""

    from_byte: int
    to_byte: int
    to_line: int
    completed: int
    failed: int
    output: bytes
    errors: bytes


class BatchService:
    """Starts and cancels batches of inference requests, and serves the workers that execute them.

    Implements `RunKindHandler`.
    """

    def __init__(self, deps: BatchServiceDeps) -> None:
        self._deps = deps
        self.wake_finalizer: Callable[[], None] = lambda: None

    # --- owners ---

    async def create(self, tx: Transaction, caller: Principal, spec: BatchSpec) -> Batch:
        """Start a batch inside a larger transaction. Its input is checked by the worker."""
        if spec.endpoint not in policy.ENDPOINTS:
            raise InvalidRequest(
                f"{spec.endpoint!r} cannot be the endpoint of a batch.",
                hint=f"Send one of: {', '.join(policy.ENDPOINTS)}.",
                code="invalid_endpoint",
            )
        if spec.completion_window != policy.COMPLETION_WINDOW:
            raise InvalidRequest(
                f"{spec.completion_window!r} is not a window for a batch.", hint="Send 24h.", code="invalid_window"
            )
        artifact = await artifact_store.get_artifact(tx, spec.input_file_id, owner=str(caller.owner))
        if artifact.purpose != INPUT_PURPOSE:
            raise InvalidRequest(
                f"The file has the purpose {artifact.purpose!r}.",
                hint="Upload it with the purpose batch.",
                code="invalid_purpose",
            )
        if artifact.size_bytes > policy.INPUT_BYTES_MAX:
            raise InvalidRequest(
                f"The input of a batch has at most {policy.INPUT_BYTES_MAX // 1024**2} MiB.",
                hint="Divide it into several batches.",
                code="file_too_large",
            )
        run = NewRun(
            kind=RunKind.BATCH,
            owner=caller.owner,
            owner_name=caller.name,
            key_id=caller.key_id,
            subject=spec.endpoint,
            request={"input_file_id": artifact.id, "endpoint": spec.endpoint},
            budgets=RunBudgets(wall_s=policy.WINDOW_S, steps=None),
        )
        run_id = await self._deps.runs.admission.start(tx, run)
        new = NewBatch(
            input_file_id=artifact.id,
            endpoint=spec.endpoint,
            completion_window=spec.completion_window,
            metadata=spec.metadata,
            window_s=policy.WINDOW_S,
        )
        await store.insert_batch(tx, run_id, new)
        return await store.get_batch(tx, run_id)

    async def cancel(self, batch_id: str, owner: str, actor: str) -> Batch:
        """Cancel a batch: its files keep what is answered. Cancelling one that is being cancelled changes nothing."""
        async with self._deps.database.transaction() as tx:
            batch = await store.get_batch(tx, batch_id, owner=owner)
        if batch.status.is_final or batch.status is BatchStatus.FINALIZING:
            raise Conflict(f"{say_run_state('The batch', batch.status)} already.", code="batch_ended")
        if batch.status is not BatchStatus.CANCELLING:
            await self._deps.runs.cancel(batch.id, owner, actor)
            self.wake_finalizer()
        async with self._deps.database.transaction() as tx:
            return await store.get_batch(tx, batch_id, owner=owner)

    # --- workers ---

    async def build_spec(self, tx: Transaction, run: Run) -> dict[str, Any]:
        batch = await store.get_batch(tx, run.id)
        now = await read_now(tx)
        left_s = max(_WALL_MIN_S, (batch.expires_at - now).total_seconds())
        return {
            "model": "",
            "budgets": {"wall_s": left_s, "steps": None, "tool_calls": None, "tokens": None},
            "extra": {
                "endpoint": batch.endpoint,
                "is_valid": batch.stored_status is BatchStatus.IN_PROGRESS,
                "next_byte": batch.next_byte,
                "next_line": batch.next_line,
                "slice_bytes": SLICE_BYTES_MAX,
            },
        }

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None:
        await store.record_finalizing(tx, ending.run.id)
        # A hint: the finalizer finds the batch by itself a moment later.
        self.wake_finalizer()

    async def read_input(self, node_id: NodeId, run_id: str, job_id: str, part: InputSlice) -> bytes:
        """Return bytes of the input to the worker that holds the batch."""
        async with self._deps.database.transaction() as tx:
            run = await run_store.find_run(tx, run_id, reads_request=False)
            require_held(run, node_id, job_id, kind=RunKind.BATCH)
            batch = await store.get_batch(tx, run_id)
        limit = min(part.limit, SLICE_BYTES_MAX)
        return await self._deps.artifacts.read_range(batch.input_file_id, part.start_byte, limit)

    async def record_validation(
        self, node_id: NodeId, run_id: str, job_id: str, total: int, errors: Sequence[Mapping[str, Any]]
    ) -> None:
        """Record what the worker found in the input. Repeating it changes nothing."""
        async with self._deps.database.transaction() as tx:
            await lock_held(tx, run_id, node_id, job_id, kind=RunKind.BATCH)
            if errors:
                await store.record_errors(tx, RunId(run_id), errors)
            else:
                await store.record_valid(tx, RunId(run_id), total)

    async def store_answers(self, node_id: NodeId, run_id: str, job_id: str, answers: BatchAnswers) -> Batch:
        """Store lines for the files, and move the cursor behind them. A delivery that is repeated changes nothing; the
        cursor in the result says how far the files are."""
        async with self._deps.database.transaction() as tx:
            run = await lock_held(tx, run_id, node_id, job_id, kind=RunKind.BATCH)
            batch = await store.get_batch(tx, run_id, locks=True)
            if batch.next_byte == answers.from_byte and answers.to_byte > answers.from_byte:
                try:
                    await self.write_answers(tx, batch, run.owner, answers)
                except LimitReached as error:
                    # Waiting would not help: the batch ends, and its owner learns why.
                    raise Unprocessable(error.message, hint=error.hint, code=error.slug) from error
                batch = await store.get_batch(tx, run_id)
        return batch

    async def write_answers(self, tx: Transaction, batch: Batch, owner: str, answers: BatchAnswers) -> None:
        """Write lines and cursor. The caller holds the lock of the batch."""
        output_id = await self._append_lines(tx, batch, owner, "output", answers.output)
        error_id = await self._append_lines(tx, batch, owner, "errors", answers.errors)
        move = CursorMove(
            to_byte=answers.to_byte,
            to_line=answers.to_line,
            completed=answers.completed,
            failed=answers.failed,
            output_file_id=output_id,
            error_file_id=error_id,
        )
        await store.move_cursor(tx, batch.id, move)

    async def _append_lines(self, tx: Transaction, batch: Batch, owner: str, what: str, lines: bytes) -> str | None:
        """Append lines to one of the files, which is made with its first line, and return the id of the file."""
        file_id = batch.output_file_id if what == "output" else batch.error_file_id
        if not lines:
            return file_id
        if file_id is None:
            file_id = self._deps.ids.new_id()
            new = NewArtifact(
                id=file_id,
                owner=parse_owner(owner),
                run_id=batch.id,
                kind=ArtifactKind.BATCH,
                name=f"batch_{batch.id.replace('-', '')}_{what}.jsonl",
                media_type="application/jsonl",
                purpose=OUTPUT_PURPOSE,
                keep_s=self._deps.artifacts.options.retention_s,
            )
            await self._deps.artifacts.begin(tx, new)
        await self._deps.artifacts.append(tx, owner, file_id, lines)
        return file_id
