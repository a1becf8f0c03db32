"""Turns whatever ends the work of a run in the runner process into the run's outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from corral.domain.errors import CorralError
from corral.runtime.attempt import AttemptFailure, attempt
from corral.wire.run_work import RunOutcome

log = structlog.get_logger(__name__)


class FailureMaker(Protocol):
    """Interface that makes the outcome of a run that has failed."""

    def __call__(self, code: str, sentence: str, reason: str = "error") -> RunOutcome: ...


async def run_guarded(
    execute: Callable[[], Awaitable[RunOutcome]], make_failure: FailureMaker, *, run_id: str, what: str
) -> RunOutcome:
    """Return the outcome of a run's work. Only cancellation passes through; every error becomes an outcome. `what`
    begins the sentence for an unexpected one: "The batch"."""
    result = await attempt(execute)
    if not isinstance(result, AttemptFailure):
        return result.value
    error: BaseException = result.error
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, CorralError):
        return make_failure(error.slug, error.message)
    log.error("a run failed inside the runner", run_id=run_id, what=what, exc_info=error)
    return make_failure("internal", f"{what} failed inside the runner: {type(error).__name__}.")
