"""An asyncio loop with virtual time, a seeded order of task steps, and real input and output inside both.

Guarantee: the same seed runs the same steps in the same order at the same virtual times, whatever the machine's
speed, as long as only one piece of real I/O is outstanding at a time (`gate.py` sees to that).
Order: callbacks run first in, first out, before any task step, because transports and protocols count on it; among
the tasks that are ready the seed picks the next step, because asyncio promises them no order.
Limit: threads are run in line, and a task must not wait for the clock inside `io()`.
It stands on private names of asyncio; `test_virtual_loop.py` says which.
"""

from __future__ import annotations

import asyncio
import bisect
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from typing_extensions import override

from tests.simulation.chance import Random, chance
from tests.simulation.stuck import SimulationStuck, describe

# A statement of a test takes milliseconds; longer than this and the wait is for something that never comes.
IO_LIMIT_S = 20.0
# Steps at one virtual instant: more than this is a task that spins instead of waiting.
STEP_LIMIT = 200_000
# A run that goes on for longer than this waits for something that never happens while timers tick on.
TIME_LIMIT_S = 7 * 24 * 3600.0
# Tasks that these packages start on their own (to cancel a query, to close a connection) are I/O.
DRIVERS = ("asyncpg", "sqlalchemy")
# Which simulated machine a task belongs to. Tasks hand it down to those that they start.
MACHINE: ContextVar[str | None] = ContextVar("machine", default=None)


class SimTask(asyncio.Task[Any]):
    """A task whose hash is its number, so that sets of tasks have the same order in every run."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **options: Any) -> None:
        self.number = number
        self.priority = 0.0
        context = options.get("context")
        self.machine = MACHINE.get() if context is None else context.get(MACHINE)
        super().__init__(coro, **options)

    @override
    def __hash__(self) -> int:
        return self.number


class SimFuture(asyncio.Future[Any]):
    """A future whose hash is its number; see `SimTask`."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        super().__init__(loop=loop)

    @override
    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs tasks in virtual time, in an order that the seed draws; see the module. Use it through `run.simulate`."""

    def __init__(self, seed: int, *, io_limit_s: float = IO_LIMIT_S, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._now = 0.0
        self._numbers = 0
        self._io = 0
        self._driver_tasks: list[asyncio.Task[Any]] = []
        self._steps_at_this_instant = 0
        self._callbacks: deque[asyncio.Handle] = deque()
        self._steps: list[asyncio.Handle] = []
        self._arrivals: deque[asyncio.Handle] = deque()
        self._frozen: dict[str, list[asyncio.Handle]] = {}
        self._order = StepOrder(chance(seed, "steps"))
        self._ties = chance(seed, "timers")
        self._io_limit_s = io_limit_s
        self._time_limit_s = time_limit_s
        self.seed = seed
        super().__init__()

    # --- what a simulation uses ---

    @contextmanager
    def io(self) -> Iterator[None]:
        """Make time stand still while the loop waits for real sockets."""
        self._io += 1
        try:
            yield
        finally:
            self._io -= 1

    @contextmanager
    def without_io(self) -> Iterator[None]:
        """Let virtual time pass inside `io()`, while no answer is outstanding, for a slow transaction."""
        assert self._io > 0, "without_io() belongs inside io()"
        self._io -= 1
        try:
            yield
        finally:
            self._io += 1

    @property
    def io_outstanding(self) -> int:
        return self._io

    def abort_connections(self) -> None:
        """Drop the connections that a failed run left open."""
        for transport in list(self._transports.values()):
            transport.abort()

    def driver_tasks(self) -> list[asyncio.Task[Any]]:
        """Return the tasks that the database driver runs on its own: cancel a query, close a connection."""
        return list(self._driver_tasks)

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Return every unfinished task, oldest first."""
        return sorted(asyncio.all_tasks(self), key=_number)

    def tasks_of(self, machine: str) -> list[asyncio.Task[Any]]:
        return [task for task in self.tasks() if isinstance(task, SimTask) and task.machine == machine]

    def freeze(self, machine: str) -> None:
        """Stop all tasks of a machine until `thaw`; what would wake them is kept."""
        self._frozen.setdefault(machine, [])

    def thaw(self, machine: str) -> None:
        self._ready.extend(self._frozen.pop(machine, []))

    def is_frozen(self, machine: str | None) -> bool:
        return machine in self._frozen

    # --- asyncio's own surface ---

    @override
    def time(self) -> float:
        return self._now

    @override
    def create_task(  # type: ignore[override]  # later Pythons hand more options down; they go through unread
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, **options: Any
    ) -> SimTask:
        # asyncio's default names count over the whole process, and a trace must not depend on what ran before.
        number = self._next_number()
        task = SimTask(number, coro, loop=self, name=name or f"task-{number}", **options)
        task.priority = self._order.priority()
        if _is_drivers(coro):
            self._io += 1
            self._driver_tasks.append(task)
            task.add_done_callback(self._driver_task_ended)
        return task

    @override
    def create_future(self) -> SimFuture:
        return SimFuture(self._next_number(), self)

    @override
    def call_soon_threadsafe(  # type: ignore[override]  # the same, with its argument types left open
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        # What another thread hands over waits until nothing else is ready; otherwise its place in the order
        # would depend on the speed of that thread.
        handle = asyncio.Handle(callback, args, self, context)
        self._arrivals.append(handle)
        self._write_to_self()  # type: ignore[attr-defined]  # private: wakes the selector
        return handle

    @override
    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        async def in_line() -> Any:
            return func(*args)

        return self.create_task(in_line(), name=f"thread-{getattr(func, '__name__', 'call')}")

    @override
    def close(self) -> None:
        self._callbacks.clear()
        self._steps.clear()
        self._arrivals.clear()
        super().close()

    # --- one step ---

    def _run_once(self) -> None:
        """Run one callback or one task step; when there is none, let I/O or time go on."""
        self._drop_cancelled_timers()
        self._sort_ready()
        if not self._callbacks and not self._steps and not self._stopping:
            self._advance()
            self._sort_ready()
        handle = self._next_handle()
        if handle is None or handle.cancelled():
            return
        self._steps_at_this_instant += 1
        if self._steps_at_this_instant > STEP_LIMIT:
            self._steps_at_this_instant = 0
            raise self._stuck(f"{STEP_LIMIT} steps at one instant: a task spins instead of waiting")
        handle._run()

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool
    _selector: Any
    _transports: Any
    _process_events: Callable[[Any], None]
    _timer_cancelled_count: int

    def _sort_ready(self) -> None:
        """Part asyncio's queue into callbacks, in their order, and task steps."""
        while self._ready:
            handle = self._ready.popleft()
            task = _task_of(handle)
            if task is None:
                self._callbacks.append(handle)
            elif task.machine in self._frozen:
                self._frozen[task.machine].append(handle)
            else:
                # Kept by task number: whoever woke them, in whatever order, the seed chooses from one list.
                bisect.insort(self._steps, handle, key=lambda step: _number(_task_of(step)))

    def _next_handle(self) -> asyncio.Handle | None:
        if self._callbacks:
            return self._callbacks.popleft()
        if self._steps:
            return self._steps.pop(self._order.pick(self._steps))
        return None

    def _advance(self) -> None:
        """Go on when nothing is ready: 1. what threads handed over, 2. sockets, 3. the next timer, 4. stuck."""
        if self._arrivals:
            self._ready.append(self._arrivals.popleft())
        elif self._io:
            self._wait_for_sockets()
        elif self._scheduled:
            self._jump()
        else:
            raise self._stuck("nothing is ready, no timer runs and no I/O is outstanding: a deadlock")

    def _wait_for_sockets(self) -> None:
        events = self._selector.select(self._io_limit_s)
        if not events:
            raise self._stuck(
                f"no socket moved for {self._io_limit_s:g} real seconds inside io(): a transaction waits for"
                " a lock, for the clock, or for another task"
            )
        self._steps_at_this_instant = 0
        self._process_events(events)

    def _jump(self) -> None:
        """Move the clock to the next timer and make all timers of that instant ready, in a seeded order."""
        self._now = max(self._now, self._scheduled[0].when())
        if self._now > self._time_limit_s:
            raise self._stuck(f"the run went past {self._time_limit_s:g} virtual seconds without an end")
        self._steps_at_this_instant = 0
        due: list[asyncio.Handle] = []
        while self._scheduled and self._scheduled[0].when() <= self._now:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]  # private: out of the heap
            due.append(timer)
        # asyncio leaves the order of timers of one instant open.
        self._ties.shuffle(due)
        self._ready.extend(due)

    def _drop_cancelled_timers(self) -> None:
        while self._scheduled and self._scheduled[0].cancelled():
            self._timer_cancelled_count -= 1
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]  # private: out of the heap

    # --- small things ---

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _driver_task_ended(self, task: asyncio.Task[Any]) -> None:
        self._io -= 1
        self._driver_tasks.remove(task)

    def _stuck(self, why: str) -> SimulationStuck:
        sockets = len(self._selector.get_map()) - 1  # the loop's own wake-up pipe is always there
        hint = f"\nhint: {sockets} sockets are open; I/O belongs inside loop.io()" if sockets and not self._io else ""
        return SimulationStuck(
            f"seed {self.seed}, at {self._now:.6f} s of virtual time: {why}.{hint}\n{describe(self.tasks())}"
        )


class StepOrder:
    """Chooses which ready task goes next. Half of the seeds pick evenly; the other half lets some tasks lag.

    Lagging stands for a slow machine: a task with a low priority runs only when no other can, until the priorities are
    dealt again. Even picking almost never delays one task for long enough to show such races."""

    # Steps between two deals, on average.
    DEAL_EVERY = 100

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._lagging = rng.random() < 0.5

    def priority(self) -> float:
        return self._rng.random()

    def pick(self, steps: list[asyncio.Handle]) -> int:
        if len(steps) == 1:
            return 0
        if not self._lagging:
            return self._rng.randrange(len(steps))
        if self._rng.random() < 1 / self.DEAL_EVERY:
            for step in steps:
                _task_of(step).priority = self._rng.random()  # type: ignore[union-attr]  # steps have tasks
        return max(range(len(steps)), key=lambda index: _task_of(steps[index]).priority)  # type: ignore[union-attr]


def _task_of(handle: asyncio.Handle) -> SimTask | None:
    owner = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]  # private: the step's task
    return owner if isinstance(owner, SimTask) else None


def _number(task: asyncio.Task[Any] | None) -> int:
    assert isinstance(task, SimTask), f"{task!r} was not made by the virtual loop"
    return task.number


def _is_drivers(coro: Coroutine[Any, Any, Any]) -> bool:
    code = getattr(coro, "cr_code", None)
    return code is not None and any(part in DRIVERS for part in Path(code.co_filename).parts)
