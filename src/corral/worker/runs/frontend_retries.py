"""Decides which failed calls of frontends about a run are made again, when, and for how long.

Frontends that are away only delay a run: its calls are repeated until one is answered, with pauses that grow. Limit:
after `GIVE_UP_S` without any answer a call is given up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random  # noqa: TID251 - only the type; the generator is passed in
from typing import TypeVar

from corral.domain.errors import (
    Conflict,
    CorralError,
    InvalidRequest,
    NotAuthenticated,
    NotFound,
    Unavailable,
    Unprocessable,
)
from corral.ports.runtime import Clock

T = TypeVar("T")

FIRST_RETRY_S = 0.2
# Below the interval of signs of life: frontends that are back must hear of the run before they give it up.
LONGEST_RETRY_S = 3.0
GIVE_UP_S = 15 * 60.0
# After so long no other frontend is expected to have the key of a secret that those that answered cannot open.
SECRETS_WAIT_S = 20.0
# Codes that say nothing about the run: a response that no frontend wrote (`corral.client`), and a change that met
# another one in the registry.
_PASSING_CODES = frozenset({"unexpected_answer", "try_again"})
# Codes of frontends that lack the key of a secret: another one may have the key.
_SECRET_CODES = frozenset({"secret_unreadable", "no_secrets_key"})


def is_not_ours(error: Exception) -> bool:
    """Return whether a frontend says that a run is not this worker's any more."""
    return isinstance(error, NotFound | Conflict) and error.slug not in _PASSING_CODES


def is_passing(error: Exception) -> bool:
    """Return whether a call that failed with this error may succeed a moment later."""
    is_away = isinstance(error, Unavailable | NotAuthenticated)
    return is_away or (isinstance(error, CorralError) and error.slug in _PASSING_CODES)


def is_secret_problem(error: Exception) -> bool:
    """Return whether a frontend cannot open a secret that the call needs."""
    return isinstance(error, CorralError) and error.slug in _SECRET_CODES


def is_refusal(error: Exception) -> bool:
    """Return whether a call that failed with this error would be refused again, by any frontend."""
    return isinstance(error, InvalidRequest | Unprocessable) and error.slug not in _PASSING_CODES


class FrontendRetryBackoff:
    """Computes a worker's pauses between attempts to reach a frontend, and since when none has answered."""

    def __init__(self, clock: Clock, rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self._failures = 0
        self._failing_since_s: float | None = None

    def record_failure(self) -> float:
        """Record a failed call and return how long to wait before the next one."""
        if self._failing_since_s is None:
            self._failing_since_s = self._clock.monotonic()
        doubled_s = FIRST_RETRY_S * 2 ** min(self._failures, 10)
        self._failures += 1
        return float(min(LONGEST_RETRY_S, doubled_s) * self._rng.uniform(0.7, 1.3))

    def record_success(self) -> None:
        self._failures, self._failing_since_s = 0, None

    @property
    def is_hopeless(self) -> bool:
        """Return whether no call has succeeded for so long that no frontend waits for an answer any more."""
        return self.has_failed_for(GIVE_UP_S)

    def has_failed_for(self, seconds: float) -> bool:
        """Return whether no call has succeeded for this long."""
        since_s = self._failing_since_s
        return since_s is not None and self._clock.monotonic() - since_s >= seconds

    async def call(
        self,
        work: Callable[[], Awaitable[T]],
        *,
        wait: Callable[[float], Awaitable[None]] | None = None,
        get_limit_s: Callable[[CorralError], float] = lambda _: GIVE_UP_S,
    ) -> T:
        """Repeat a call until it succeeds. Raises its error if that does not pass, or has lasted for longer than
        `get_limit_s` says. `wait` waits for so many seconds before the next attempt, or less."""
        while True:
            try:
                answer = await work()
            except CorralError as error:
                pause_s = self.record_failure()
                if not is_passing(error) or self.has_failed_for(get_limit_s(error)):
                    raise
            else:
                self.record_success()
                return answer
            await (wait or self._clock.sleep)(pause_s)
