"""Completes batches whose run has ended: answers what had no time, hashes the files, and writes the end.

Every frontend runs it. Guarantee: a batch ends once, whichever frontends look at it and wherever one is killed: every
step starts from the rows, and repeating one changes nothing. A batch that was cancelled or has expired keeps the
answers that were stored; the requests that an expired one had no time for are named in its file of errors.
"""

from __future__ import annotations

from functools import partial

import structlog

from corral.batches.service import SLICE_BYTES_MAX, BatchAnswers, BatchService
from corral.domain.batch import Batch, BatchStatus
from corral.domain.errors import LimitReached
from corral.domain.run import RunState
from corral.policy import batches as policy
from corral.policy.runs import RUN_TIMEOUT
from corral.runs.artifacts import ArtifactService
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import batches as store
from corral.store.database import Database

log = structlog.get_logger(__name__)
INTERVAL_S = 2.0
# Ends that say that a batch had no time, or no worker, for all of its requests.
_EXPIRY_CODES = frozenset({RUN_TIMEOUT, "no_free_place"})


class BatchFinalizer:
    """Ends batches of inference requests whose run has ended, and completes their files. One pass is bounded."""

    def __init__(self, database: Database, service: BatchService, artifacts: ArtifactService) -> None:
        self._database = database
        self._service = service
        self._artifacts = artifacts

    async def tick(self) -> int:
        """End batches and return how many."""
        async with self._database.transaction() as tx:
            ended = await store.list_unfinalized(tx)
        count = 0
        for batch in ended:
            outcome = await attempt(partial(self._finalize, batch))
            if isinstance(outcome, AttemptFailure):
                log.warning("a batch could not be completed yet", batch=batch.id, problem=outcome.sentence)
            else:
                count += 1
        return count

    async def _finalize(self, batch: Batch) -> None:
        status = decide_end(batch)
        if status is BatchStatus.EXPIRED and batch.stored_status is BatchStatus.IN_PROGRESS:
            try:
                batch = await self._answer_expired(batch)
            except LimitReached as error:
                # The owner keeps too much already; the answers that are stored stay.
                log.warning("an expired batch has no room for its errors", batch=batch.id, problem=error.message)
        for file_id in (batch.output_file_id, batch.error_file_id):
            if file_id is not None:
                await self._artifacts.complete(file_id)
        async with self._database.transaction() as tx:
            await store.end_batch(tx, batch.id, status, batch.total)

    async def _answer_expired(self, batch: Batch) -> Batch:
        """Name the requests behind the cursor in the file of errors, a slice of the input at a time."""
        while True:
            content = await self._artifacts.read_range(batch.input_file_id, batch.next_byte, SLICE_BYTES_MAX)
            # A last line may have no end.
            end = content.rfind(b"\n") + 1 or len(content)
            if not end:
                return batch
            batch = await self._store_expired(batch, content[:end])
            if batch.ended_at is not None:
                return batch

    async def _store_expired(self, batch: Batch, content: bytes) -> Batch:
        lines, number = [], batch.next_line
        for line in content.split(b"\n"):
            if line.strip():
                number += 1
                lines.append(policy.render_expired(policy.find_custom_id(line), number, batch.id))
        answers = BatchAnswers(
            from_byte=batch.next_byte,
            to_byte=batch.next_byte + len(content),
            to_line=number,
            completed=0,
            failed=len(lines),
            output=b"",
            errors=b"".join(lines),
        )
        async with self._database.transaction() as tx:
            current = await store.get_batch(tx, batch.id, locks=True)
            if current.next_byte == batch.next_byte and current.ended_at is None:
                await self._service.write_answers(tx, current, current.owner, answers)
            return await store.get_batch(tx, batch.id)


def decide_end(batch: Batch) -> BatchStatus:
    """Return how a batch ends whose run has ended."""
    if batch.run_state is RunState.CANCELLED:
        return BatchStatus.CANCELLED
    if batch.run_state is RunState.COMPLETED:
        return BatchStatus.COMPLETED
    return BatchStatus.EXPIRED if batch.run_error_code in _EXPIRY_CODES else BatchStatus.FAILED
