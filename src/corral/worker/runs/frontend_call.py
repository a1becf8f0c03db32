"""Sends calls of a run to a frontend: slices of a batch's input, its answers, files that tools have made, skills that
are read and those that a sync has found, and what is read and written of collections.

Each call may be repeated: frontends store it once. Guarantee: the runner gets one reply, whatever happens, unless the
run itself ends first. Frontends that are away only delay it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from random import Random  # noqa: TID251 - only the type; the generator is passed in
from typing import Any

from corral.domain.errors import CorralError
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.wire.runner_protocol import CallMessage, ReplyMessage, RunnerErrorBody
from corral.worker.control_plane import RunCall, RunControlPlane
from corral.worker.runs.frontend_retries import FrontendRetryBackoff, is_passing
from corral.worker.runs.trace_sender import RunAttempt

# Frontends could not be reached for long: another worker may do better.
FRONTEND_UNREACHABLE = "frontend_unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunRoute:
    """Names a route below that of a run."""

    verb: str
    parts: tuple[str, ...]


_ROUTES: Mapping[str, _RunRoute] = {
    "read_batch": _RunRoute(verb="GET", parts=("batch", "input")),
    "report_validation": _RunRoute(verb="POST", parts=("batch", "validation")),
    "store_answers": _RunRoute(verb="POST", parts=("batch", "answers")),
    "store_file": _RunRoute(verb="POST", parts=("files",)),
    "read_skill": _RunRoute(verb="GET", parts=("skills", "content")),
    "store_skills": _RunRoute(verb="POST", parts=("skills",)),
    "read_document": _RunRoute(verb="GET", parts=("document",)),
    "store_chunks": _RunRoute(verb="POST", parts=("document", "chunks")),
    "search_collection": _RunRoute(verb="POST", parts=("collection", "search")),
    "add_memory": _RunRoute(verb="POST", parts=("collection", "memories")),
}


class FrontendCaller:
    """Carries out at a worker the calls of one run that a frontend has to answer, such as storing a file."""

    def __init__(self, run: RunAttempt, control: RunControlPlane, clock: Clock, rng: Random) -> None:
        self._run = run
        self._control = control
        self._clock = clock
        self._rng = rng

    async def answer_call(self, call: CallMessage) -> ReplyMessage:
        """Return the answer of a frontend, or a sentence that says why there is none."""
        route = _ROUTES[call.method]
        run = self._run
        fields: dict[str, Any] = {**call.params, "job_id": run.job_id}
        if route.verb == "POST":
            fields["boot_id"] = run.boot_id
        request = RunCall(verb=route.verb, parts=route.parts, fields=fields)
        retries = FrontendRetryBackoff(self._clock, self._rng)
        send = partial(self._control.call_run, run.node_id, run.run_id, request)
        outcome = await attempt(lambda: retries.call(send))
        if not isinstance(outcome, AttemptFailure):
            return ReplyMessage(id=call.id, result=outcome.value)
        error = outcome.error
        code = error.slug if isinstance(error, CorralError) else "failed"
        if is_passing(error):
            code = FRONTEND_UNREACHABLE
        return ReplyMessage(id=call.id, error=RunnerErrorBody(code=code, message=outcome.sentence))
