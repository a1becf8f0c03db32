"""The only place that may catch everything.

A loop, a command handler or a background task must outlive the failure of one pass. They call `attempt` and get an
outcome back instead of each writing its own blind `except`. Cancellation and broken asserts pass through: the first
belongs to whoever cancelled, the second means the process cannot trust itself any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class Failed:
    error: Exception

    @property
    def sentence(self) -> str:
        return str(self.error) or type(self.error).__name__


async def attempt(work: Callable[[], Awaitable[T]]) -> Done[T] | Failed:
    """Run one piece of work; an ordinary exception comes back as a value."""
    try:
        return Done(await work())
    except AssertionError:
        raise
    except Exception as error:
        return Failed(error)


def attempt_now(work: Callable[[], T]) -> Done[T] | Failed:
    """The same for work that does not wait."""
    try:
        return Done(work())
    except AssertionError:
        raise
    except Exception as error:
        return Failed(error)
