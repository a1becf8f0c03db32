"""The time that a run has: counted while it works, and not while it waits for a person's decision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class RunDeadline:
    """Calls `on_expiry` once when a run (such as an LLM agent's turn) has used up its seconds.

    The time stands still while the run waits for a person's decision.
    """

    def __init__(self, limit_s: float, on_expiry: Callable[[], None]) -> None:
        self._left_s = limit_s
        self._on_expiry = on_expiry
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._resumed_at = 0.0
        self._pauses = 0
        self._is_stopped = False

    def start(self) -> None:
        self._resumed_at = self._loop.time()
        self._timer = self._loop.call_later(max(0.0, self._left_s), self._on_expiry)

    def stop(self) -> None:
        """Stop for good: the run has ended."""
        self._is_stopped = True
        self._cancel_timer()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the time during the block; several blocks may overlap."""
        self._pauses += 1
        if self._pauses == 1 and self._timer is not None:
            self._left_s -= self._loop.time() - self._resumed_at
            self._cancel_timer()
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses and not self._is_stopped:
                self.start()

    def find_time_left(self) -> float:
        """Return the seconds that are left."""
        if self._timer is None:
            return self._left_s
        return self._left_s - (self._loop.time() - self._resumed_at)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
