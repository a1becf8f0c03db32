"""Counts what a run uses, and decides when the model has to answer without tools.

A run that reaches a limit does not fail: its next step is the last one, in which the model answers with text, and the
outcome names the limit. Time is not counted here (`run_deadline.py`): a run without time left cannot answer any more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from corral.wire.run_work import RunBudgetsSpec, RunOptionsSpec


class BudgetTracker:
    """Counts model calls, tool calls, tokens and bad answers of one run in the runner process against its budget."""

    def __init__(self, budgets: RunBudgetsSpec, options: RunOptionsSpec) -> None:
        self._budgets = budgets
        self._options = options
        self.steps = 0
        self.tool_calls = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        # Why tools are withheld; empty while they are offered.
        self.final_reason = ""
        self._last_call = ""
        self._repeats = 0
        self._unusable = 0
        self._unusable_step = 0

    def begin_step(self) -> None:
        self.steps += 1
        limit = self._budgets.steps
        if limit is not None and self.steps >= limit:
            self._finalise("steps")

    def add_tokens(self, prompt: int, completion: int) -> None:
        self.prompt_tokens += prompt
        self.completion_tokens += completion
        limit = self._budgets.tokens
        if limit is not None and self.prompt_tokens + self.completion_tokens >= limit:
            self._finalise("tokens")

    def may_call(self) -> bool:
        """Return whether a tool may be called once more."""
        limit = self._budgets.tool_calls
        return limit is None or self.tool_calls < limit

    def add_call(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Count a call that is executed. The same call too often in a row is a loop."""
        self.tool_calls += 1
        self._unusable = 0
        call = json.dumps([name, arguments], sort_keys=True)
        self._repeats = self._repeats + 1 if call == self._last_call else 1
        self._last_call = call
        if self._options.loop_detection > 0 and self._repeats >= self._options.loop_detection:
            self._finalise("loop")
        if not self.may_call():
            self._finalise("tool_calls")

    def refuse_call(self) -> None:
        """Note that a call was not executed because the budget of calls is spent."""
        self._finalise("tool_calls")

    def add_unusable(self) -> None:
        """Count a step with a call of an unknown tool or with bad arguments, since the last good call."""
        if self._unusable_step != self.steps:
            self._unusable += 1
            self._unusable_step = self.steps
        if self._unusable > self._options.max_attempts:
            self._finalise("attempts")

    def report(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "steps": self.steps,
            "tool_calls": self.tool_calls,
        }

    def _finalise(self, reason: str) -> None:
        self.final_reason = self.final_reason or reason
