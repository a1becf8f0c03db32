"""The report of a simulation that cannot go on: which tasks there are, and the line at which each waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

# Deeper chains are cut: the outer lines say who, the inner ones say where.
MAX_FRAMES = 12


class SimulationStuck(Exception):
    """The run can make no progress; the message lists the tasks."""


def where(task: asyncio.Task[Any]) -> list[str]:
    """Return the chain of awaits of one task, outermost first, as `file:line in function`."""
    lines: list[str] = []
    waiting_on: Any = task.get_coro()
    while waiting_on is not None and len(lines) < MAX_FRAMES:
        frame = _frame(waiting_on)
        if frame is None:
            lines.append(f"a {type(waiting_on).__name__}")
            break
        code = frame.f_code
        lines.append(f"{code.co_filename}:{frame.f_lineno} in {code.co_name}")
        waiting_on = _inner(waiting_on)
    return lines


def describe(tasks: Iterable[asyncio.Task[Any]]) -> str:
    blocks = []
    for task in tasks:
        blocks.append(f"  {task.get_name()}")
        blocks.extend(f"      {line}" for line in where(task))
    return "\n".join(blocks) or "  (no tasks)"


def _frame(awaited: Any) -> Any:
    for name in ("cr_frame", "gi_frame", "ag_frame"):
        frame = getattr(awaited, name, None)
        if frame is not None:
            return frame
    return None


def _inner(awaited: Any) -> Any:
    for name in ("cr_await", "gi_yieldfrom", "ag_await"):
        inner = getattr(awaited, name, None)
        if inner is not None:
            return inner
    return None
