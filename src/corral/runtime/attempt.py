"""The only place that may catch every exception.

A loop, a command handler or a background task must survive the failure of one pass. They call `attempt` and get an
outcome back instead of each writing its own blind `except`. Cancellation and broken asserts pass through: the first is
the caller's decision, the second means that the process cannot trust its own state any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AttemptSuccess(Generic[T]):
    """Result of `attempt`, which runs a piece of work and catches its errors: what the work returned."""

    value: T


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """Result of `attempt`, which runs a piece of work and catches its errors: the exception of the work."""

    error: Exception

    @property
    def sentence(self) -> str:
        return str(self.error) or type(self.error).__name__


async def attempt(work: Callable[[], Awaitable[T]]) -> AttemptSuccess[T] | AttemptFailure:
    """Run one piece of work; an ordinary exception comes back as a value."""
    try:
        return AttemptSuccess(await work())
    except AssertionError:
        raise
    except Exception as error:
        return AttemptFailure(error)


def attempt_sync(work: Callable[[], T]) -> AttemptSuccess[T] | AttemptFailure:
    """Run one piece of synchronous work; an ordinary exception comes back as a value."""
    try:
        return AttemptSuccess(work())
    except AssertionError:
        raise
    except Exception as error:
        return AttemptFailure(error)
