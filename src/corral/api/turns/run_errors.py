"""Errors of runs as errors of the calls that they answer: each end that is no answer has a status and a sentence.

A client library sends a failed request again by itself. A run may have used tools, so every error of a run that has
begun forbids that (`should_retry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from corral.domain.errors import (
    Conflict,
    CorralError,
    InvalidRequest,
    LimitReached,
    NotAllowed,
    NotFound,
    TooLarge,
    Unavailable,
    Unprocessable,
)
from corral.domain.run import Run, RunState
from corral.domain.state_words import RUN_WORDS, find_word
from corral.gateway.exchange.gateway import STOPPING
from corral.policy.runs import RUN_TIMEOUT

_NO_RETRY: Mapping[str, object] = {"should_retry": False}


class RunFailed(CorralError):
    """The run that was to answer the request has failed."""

    code: ClassVar[str] = "run_failed"
    status: ClassVar[int] = 502


class RunTimeout(CorralError):
    """The run that was to answer the request was not complete in time."""

    code: ClassVar[str] = RUN_TIMEOUT
    status: ClassVar[int] = 504


class RunInterrupted(CorralError):
    """The worker of this answer was lost in the middle of it. Send the request again."""

    code: ClassVar[str] = "run_interrupted"
    status: ClassVar[int] = 502


# The errors by the status with which a model was refused to the run. 401 is the run's own ticket: not the caller's
# fault.
_BY_STATUS: Mapping[int, type[CorralError]] = {
    error.status: error
    for error in (InvalidRequest, NotAllowed, NotFound, Conflict, TooLarge, Unprocessable, LimitReached, Unavailable)
} | {504: RunTimeout}
_BY_CODE: Mapping[str, type[CorralError]] = {
    RUN_TIMEOUT: RunTimeout,
    "internal": CorralError,
    # What the frontend says when it builds the specification of a run.
    "agent_not_found": NotFound,
    "mcp_server_not_found": NotFound,
    "secret_not_found": NotFound,
    "cluster_secret_refused": NotAllowed,
}


def make_outcome_error(outcome: Mapping[str, Any]) -> CorralError:
    """Return the error for a run whose trace has ended without an answer."""
    if outcome.get("state") == "cancelled":
        return _make_cancelled_error()
    result = outcome.get("result")
    status = result.get("status") if isinstance(result, Mapping) else None
    return _make_error(str(outcome.get("error_code") or ""), str(outcome.get("error_text") or ""), status)


def make_run_error(run: Run) -> CorralError:
    """Return the error for a run that has ended outside of its trace: cancelled, lost, or given up."""
    if run.state is RunState.CANCELLED:
        return _make_cancelled_error()
    return _make_error(run.fault.code if run.fault else "", run.fault.text if run.fault else run.message)


def make_timeout_error(seconds: float, state: str) -> RunTimeout:
    return RunTimeout(
        f"The run was not complete after {seconds:g} s; it was {find_word(RUN_WORDS, state)} and is cancelled now.",
        hint="`corral nodes list` shows whether agent workers have free places; budgets.wall of an agent is its time.",
    )


def make_stopping_error() -> Unavailable:
    return Unavailable(STOPPING, hint="The run is cancelled. What its tools have done stays done.", code="stopping")


def forbid_retry(error: CorralError) -> None:
    """Tell client libraries not to send a request again whose run has begun."""
    error.details |= _NO_RETRY


def _make_cancelled_error() -> Conflict:
    return Conflict("The run that answers this call was cancelled.", code="run_cancelled")


def _make_error(code: str, text: str, status: object = None) -> CorralError:
    kind = _BY_STATUS.get(status, RunFailed) if isinstance(status, int) else _BY_CODE.get(code, RunFailed)
    return kind(text or None, code=code or None)
