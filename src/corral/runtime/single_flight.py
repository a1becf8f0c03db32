"""Runs one call for each key at a time: a caller that needs a running one joins it, and gets the same result.

A call ends when it is done, or when the last of its callers has left; one that outlives its callers ends when it is
done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from corral.runtime.attempt import AttemptFailure, AttemptSuccess, attempt
from corral.runtime.tasks import TaskSet

S = TypeVar("S")
T = TypeVar("T")
# Bytes so far, and the expected total, if that is known.
ProgressCallback = Callable[[int, int | None], None]


@dataclass(slots=True)
class _SharedCall(Generic[S, T]):
    """Holds the running task of one key, its state, and how many callers wait for it."""

    state: S
    task: asyncio.Task[AttemptSuccess[T] | AttemptFailure]
    waiters: int = 0
    is_ending: bool = False


class SingleFlight(Generic[S, T]):
    """Runs one asynchronous call for each key at a time; callers with the same key share the running call's result.

    Each running call has a state `S` that its callers share with its work: the listeners to its progress, for example.
    """

    def __init__(self, name: str, make_stopped_error: Callable[[], Exception]) -> None:
        self._tasks = TaskSet(name)
        self._make_stopped_error = make_stopped_error
        self._calls: dict[str, _SharedCall[S, T]] = {}

    def list_states(self) -> list[S]:
        """Return the states of all running calls."""
        return [call.state for call in self._calls.values()]

    def has_call(self, key: str) -> bool:
        return key in self._calls

    async def join(
        self,
        key: str,
        work: Callable[[S], Awaitable[T]],
        *,
        make_state: Callable[[], S],
        enter: Callable[[S], AbstractContextManager[None]],
        outlives_callers: bool = False,
    ) -> T:
        """Return the result of the call with this key, started with `work` if there is none.

        `enter` is held while this caller waits. With `outlives_callers` this caller does not end the call by leaving.
        Raises what the work raises, or the error of a flight that is closed.
        """
        while (call := self._calls.get(key)) is not None and call.is_ending:
            await asyncio.wait({call.task})
        call = call or self._begin(key, work, make_state())
        call.waiters += 1
        try:
            with enter(call.state):
                # The task itself is not awaited: a caller that is cancelled here leaves, and the call goes on for the
                # others.
                await asyncio.wait({call.task})
        finally:
            call.waiters -= 1
            if not call.waiters and not call.task.done() and not outlives_callers:
                # No caller is left. The end is awaited, so that the next call with this key finds nothing in use.
                call.is_ending = True
                call.task.cancel()
                await asyncio.wait({call.task})
        if call.task.cancelled():
            # Raised as an error: a cancelled child task would look like one that is done.
            raise self._make_stopped_error()
        outcome = call.task.result()
        if isinstance(outcome, AttemptFailure):
            raise outcome.error
        return outcome.value

    async def close(self) -> None:
        await self._tasks.close()

    def _begin(self, key: str, work: Callable[[S], Awaitable[T]], state: S) -> _SharedCall[S, T]:
        async def run() -> AttemptSuccess[T] | AttemptFailure:
            try:
                return await attempt(lambda: work(state))
            finally:
                self._calls.pop(key, None)

        call = _SharedCall[S, T](state, self._tasks.start(run(), name=key[:16]))
        self._calls[key] = call
        return call


class ProgressListeners:
    """Passes the progress of one call in a `SingleFlight` on to all callers that listen.

    Is itself a `ProgressCallback`.
    """

    def __init__(self) -> None:
        self._listeners: list[ProgressCallback] = []

    def __call__(self, current: int, total: int | None) -> None:
        for listener in tuple(self._listeners):
            listener(current, total)

    @contextmanager
    def listen(self, on_progress: ProgressCallback) -> Iterator[None]:
        self._listeners.append(on_progress)
        try:
            yield
        finally:
            self._listeners.remove(on_progress)
