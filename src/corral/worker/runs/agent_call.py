"""Asks another agent on behalf of a run: starts that agent's run at a frontend and polls until it has ended.

The call is repeated with the id of the tool call, which makes it one run however often it is sent. Guarantee: the
runner gets one reply, whatever happens, unless the run itself ends first. Frontends that are away only delay it.
"""

from __future__ import annotations

from random import Random  # noqa: TID251 - only the type; the generator is passed in

from pydantic import ValidationError

from corral.domain.errors import CorralError
from corral.domain.run import FINAL_RUN_STATES
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.wire.run_work import AskAgentIn, AskAgentOut
from corral.wire.runner_protocol import CallMessage, ReplyMessage, RunnerErrorBody
from corral.worker.control_plane import RunControlPlane
from corral.worker.runs.frontend_retries import FrontendRetryBackoff
from corral.worker.runs.trace_sender import RunAttempt

FIRST_POLL_S = 0.1
LONGEST_POLL_S = 1.0
_POLL_GROWTH = 1.5


class AgentCaller:
    """Carries out a run's calls of other LLM agents: the worker asks a frontend and waits for the answer."""

    def __init__(self, run: RunAttempt, control: RunControlPlane, clock: Clock, rng: Random) -> None:
        self._run = run
        self._control = control
        self._clock = clock
        self._rng = rng

    async def answer_call(self, call: CallMessage) -> ReplyMessage:
        """Return the answer of the other agent, or a sentence that says why there is none."""
        try:
            # Without the call's id two calls of one run would be taken for the same one.
            name, _, _ = (str(call.params[field]) for field in ("name", "message", "call_id"))
            body = AskAgentIn.model_validate({**call.params, "boot_id": self._run.boot_id, "job_id": self._run.job_id})
        except (KeyError, ValidationError):
            text = "The call of another agent needs name, message and call_id."
            return ReplyMessage(id=call.id, error=RunnerErrorBody(code="invalid_request", message=text))
        outcome = await attempt(lambda: self._poll(name, body))
        if isinstance(outcome, AttemptFailure):
            code = outcome.error.slug if isinstance(outcome.error, CorralError) else "failed"
            return ReplyMessage(id=call.id, error=RunnerErrorBody(code=code, message=outcome.sentence))
        return ReplyMessage(id=call.id, result=outcome.value.model_dump(mode="json"))

    async def _poll(self, name: str, body: AskAgentIn) -> AskAgentOut:
        run, retries, pause_s = self._run, FrontendRetryBackoff(self._clock, self._rng), FIRST_POLL_S
        while True:
            answer = await retries.call(lambda: self._control.ask_agent(run.node_id, run.run_id, name, body))
            if answer.state in FINAL_RUN_STATES:
                return answer
            await self._clock.sleep(pause_s)
            pause_s = min(LONGEST_POLL_S, pause_s * _POLL_GROWTH)
