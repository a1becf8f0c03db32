"""Remembers which MCP servers could not be used, so that no run waits for a dead one again and again.

A server is known by how it is reached: one whose configuration has changed is another one, and is tried at once.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from corral.domain.errors import CorralError
from corral.ports.runtime import Clock
from corral.runner.mcp_session import McpUnavailable
from corral.runtime.processes import RestartBackoff, RestartCount

# The first pause is about as long as a server needs for a restart. At five minutes an attempt costs next to nothing,
# and a person who has repaired a server still sees it come back. A server that was not needed for an hour is tried as
# if it had never failed.
FAILURE_BACKOFF = RestartBackoff(first_s=30.0, ceiling_s=300.0, reset_after_s=3600.0)
# Far more servers than one worker's runs have; the one that failed first is forgotten first.
SERVERS_MAX = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServerFailure:
    """Says why a server could not be used, since when, and until when it is not tried again."""

    error: CorralError
    failed_at: float
    until: float
    count: RestartCount


class McpFailureRegistry:
    """Keeps the last failure of each MCP server in the runner process, with a pause that grows while it fails."""

    def __init__(self, clock: Clock, backoff: RestartBackoff = FAILURE_BACKOFF) -> None:
        self._clock = clock
        self._backoff = backoff
        self._failures: OrderedDict[str, _ServerFailure] = OrderedDict()

    def note(self, digest: str, error: CorralError) -> None:
        """Remember that a server could not be used. Attempts that were made at the same time count once."""
        now, previous = self._clock.monotonic(), self._failures.get(digest)
        if previous is not None and now < previous.until:
            return
        since_s = 0.0 if previous is None else now - previous.failed_at
        count = (RestartCount() if previous is None else previous.count).with_crash(since_s, self._backoff)
        until = now + count.compute_pause_s(self._backoff)
        self._failures[digest] = _ServerFailure(error=error, failed_at=now, until=until, count=count)
        self._failures.move_to_end(digest)
        while len(self._failures) > SERVERS_MAX:
            self._failures.popitem(last=False)

    def forget(self, digest: str) -> None:
        """Forget the failures of a server that has answered."""
        self._failures.pop(digest, None)

    def check(self, digest: str) -> None:
        """Raise `McpUnavailable` with the reason of the last failure if a server is not to be tried yet."""
        failure = self._failures.get(digest)
        left_s = 0.0 if failure is None else failure.until - self._clock.monotonic()
        if failure is not None and left_s > 0:
            sentence = f"{failure.error.message.rstrip('.')} (it is tried again in {left_s:.0f} s)."
            raise McpUnavailable(sentence, code=failure.error.slug)
