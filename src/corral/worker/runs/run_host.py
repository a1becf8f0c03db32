"""The interface of what executes runs on a worker: the runner process, or the host of programs."""

from __future__ import annotations

from typing import Protocol

from corral.wire.run_work import ApprovalDecision, RunSpec
from corral.wire.runner_protocol import ReplyMessage
from corral.worker.runs.runner_supervisor import RunnerListener


class RunHost(Protocol):
    """Interface of what executes runs on a worker: the runner process, or the host of programs."""

    async def start_run(self, run_id: str, spec: RunSpec, listener: RunnerListener) -> None: ...

    def cancel_run(self, run_id: str) -> bool:
        """Ask a run to end. Return False if it is not here."""
        ...

    def abandon_run(self, run_id: str) -> None: ...

    def decide_call(self, run_id: str, call_id: str, decision: ApprovalDecision) -> bool: ...

    def reply(self, run_id: str, reply: ReplyMessage) -> None: ...
