"""Runs a background loop: a bounded pass called `tick`, an interval with jitter, a wake, and a way to stop.

A tick that fails is logged once per distinct sentence and tried again at the next interval; the loop goes on.
`gate` closes the loop for a while (only the leader runs it, say): a tick behind a closed gate is skipped.

`ValueSignal` lets a test wait for an event, such as the end of a tick, instead of sleeping. It costs nothing in
production.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import structlog

from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet

T = TypeVar("T")


class ValueSignal(Generic[T]):
    """Wakes all asyncio tasks that wait for it and hands them a value.

    Lets tests wait for an event instead of sleeping.
    """

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[T]] = []

    def fire(self, value: T) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(value)

    async def wait(self, timeout_s: float = 30.0) -> T:
        waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        async with asyncio.timeout(timeout_s):
            return await waiter


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopOptions:
    """Options of a background loop: its name and how often it ticks."""

    name: str
    interval_s: float
    # A tenth of the interval keeps peers from ticking in step.
    jitter: float = 0.1
    # Time from the start to the first pass; a wake ends it.
    first_after_s: float = 0.0

    def __post_init__(self) -> None:
        if self.interval_s <= 0:
            raise ValueError(f"{self.name}: the interval must be positive")


@dataclass(slots=True)
class LoopCounts:
    """Counts the passes of a background loop: done, failed and skipped."""

    ticks: int = 0
    failures: int = 0
    skipped: int = 0


@dataclass(slots=True)
class Loop:
    """Runs one function of a frontend or worker periodically in the background, and whenever it is woken.

    A failed pass is logged and the loop goes on.
    """

    options: LoopOptions
    tick: Callable[[], Awaitable[Any]]
    clock: Clock
    rng: random.Random
    gate: Callable[[], bool] = lambda: True
    on_crash: Callable[[BaseException], None] | None = None
    counts: LoopCounts = field(default_factory=LoopCounts)
    tick_signal: ValueSignal[Any] = field(default_factory=ValueSignal)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: TaskSet | None = None
    _last_failure: str = ""

    @property
    def name(self) -> str:
        return self.options.name

    async def start(self) -> None:
        assert self._tasks is None, f"{self.name} was started twice"
        self._tasks = TaskSet(self.name, self.on_crash)
        self._tasks.start(self._run(), name="loop")

    async def stop(self) -> None:
        tasks, self._tasks = self._tasks, None
        if tasks is not None:
            await tasks.close()

    def wake(self) -> None:
        """Tick as soon as the current pass is over instead of waiting for the interval."""
        self._wake.set()

    async def run_once(self) -> None:
        """Run one guarded pass."""
        if not self.gate():
            self.counts.skipped += 1
            return
        outcome = await attempt(self.tick)
        self.counts.ticks += 1
        if isinstance(outcome, AttemptFailure):
            self.counts.failures += 1
            self._log_failure(outcome)
            self.tick_signal.fire(None)
            return
        if self._last_failure:
            log.info("loop recovered", loop=self.name)
            self._last_failure = ""
        self.tick_signal.fire(outcome.value)

    async def _run(self) -> None:
        if self.options.first_after_s:
            await self._wait(self.options.first_after_s)
        while True:
            self._wake.clear()
            await self.run_once()
            spread = self.options.interval_s * self.options.jitter
            await self._wait(self.options.interval_s + self.rng.uniform(-spread, spread))

    async def _wait(self, seconds: float) -> None:
        """Wait for so long, or until the loop is woken."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    def _log_failure(self, failure: AttemptFailure) -> None:
        # An outage repeats one sentence every interval; the operator needs it once.
        if failure.sentence != self._last_failure:
            log.warning("loop pass failed", loop=self.name, error=failure.sentence)
            self._last_failure = failure.sentence
