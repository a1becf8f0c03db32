"""A batch: the requests of a file, answered by one run with a cursor into files of answers and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from corral.domain.run import RunId, RunState


class BatchStatus(StrEnum):
    """Names the state of a batch of inference requests, in OpenAI's words."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"  # all lines are answered; the files are hashed
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in FINAL_BATCH_STATUSES


FINAL_BATCH_STATUSES = frozenset(
    {BatchStatus.COMPLETED, BatchStatus.FAILED, BatchStatus.EXPIRED, BatchStatus.CANCELLED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Describes one batch of inference requests: its files, its progress, and when it reached which state."""

    # The id of its run.
    id: RunId
    owner: str
    run_state: RunState
    run_error_code: str
    run_error_text: str
    input_file_id: str
    output_file_id: str | None
    error_file_id: str | None
    endpoint: str
    completion_window: str
    metadata: Mapping[str, str]
    stored_status: BatchStatus
    # What is wrong with the lines of its input: code, line, message, param.
    errors: Sequence[Mapping[str, Any]]
    # The first byte of the input, and the number of its lines, behind those that are answered.
    next_byte: int
    next_line: int
    total: int
    completed: int
    failed: int
    created_at: datetime
    expires_at: datetime
    in_progress_at: datetime | None
    finalizing_at: datetime | None
    ended_at: datetime | None
    cancelling_at: datetime | None

    @property
    def status(self) -> BatchStatus:
        """Return the state that the owner sees. Behind the end of its run a batch is open until its files are whole."""
        if self.stored_status.is_final or not self.run_state.is_final:
            return self.stored_status
        if self.run_state is RunState.CANCELLED:
            return BatchStatus.CANCELLING
        return BatchStatus.FINALIZING
