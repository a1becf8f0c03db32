"""Tool calls of one run that wait for a person's decision."""

from __future__ import annotations

import asyncio

from corral.wire.run_work import ApprovalDecision


class ApprovalRegistry:
    """Holds the tool calls of one run that wait until a person allows or refuses them, by call id.

    A decision about any other call is ignored.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[ApprovalDecision]] = {}

    async def wait(self, call_id: str) -> ApprovalDecision:
        decided: asyncio.Future[ApprovalDecision] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = decided
        try:
            return await decided
        finally:
            self._waiting.pop(call_id, None)

    def decide(self, call_id: str, decision: ApprovalDecision) -> None:
        decided = self._waiting.get(call_id)
        if decided is not None and not decided.done():
            decided.set_result(decision)
