"""Calls that may hang for ever, given a few seconds.

A wedged driver or a dead network mount can hold a system call for hours, and no timeout reaches into it. The call runs
in a daemon thread that is left behind when its time is up. Guarantee: at most one abandoned thread for each name,
because further calls under that name fail at once until the first comes back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from corral.worker.hardware.machine import ReadingFailed

T = TypeVar("T")


class _Call(Generic[T]):
    """One call in its own thread, and what became of it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._answer: list[T] = []
        self._failure: ReadingFailed | OSError | ValueError | None = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self._answer.append(self._work())
        except (ReadingFailed, OSError, ValueError) as error:
            self._failure = error
        finally:
            self.done.set()

    def answer(self, name: str) -> T:
        if self._failure is not None:
            raise self._failure
        if not self._answer:
            raise ReadingFailed(f"Reading {name} broke off without an answer.")
        return self._answer[0]


class Patience:
    """Bounds calls in time, by name."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._open: dict[str, threading.Event] = {}

    def call(self, name: str, work: Callable[[], T]) -> T:
        """Run `work`, which may raise `ReadingFailed`, `OSError` or `ValueError`; too long is `ReadingFailed`."""
        call = _Call(work)
        with self._lock:
            earlier = self._open.get(name)
            if earlier is not None and not earlier.is_set():
                raise ReadingFailed(f"An earlier attempt to read {name} still hangs; it is not tried again meanwhile.")
            self._open[name] = call.done
        threading.Thread(target=call.run, name=f"reading {name}", daemon=True).start()
        if not call.done.wait(self._limit_s):
            raise ReadingFailed(f"Reading {name} took longer than {self._limit_s:g} s and was abandoned.")
        return call.answer(name)
