"""Whether a body comes fast enough: enough bytes in each window of time, and all of it in the end.

What counts is the recent progress. A body of which almost everything has come, and then nothing, is as late as one of
which nothing came. Time in which we held its client back is not the client's.
"""

from __future__ import annotations

# In each window of so many seconds so many bytes a second have to come, on average, until the body is whole, …
BODY_S = 30.0
BODY_BYTES_PER_S = 1024
# … and a body that is kept in memory has to be whole after so long.
WHOLE_BODY_S = 600.0


class BodyProgress:
    """Of one body."""

    __slots__ = ("_began", "_came_bytes", "_since")

    def __init__(self, now: float) -> None:
        self._began = self._since = now
        self._came_bytes = 0

    def add(self, count: int) -> None:
        self._came_bytes += count

    def pause(self, now: float) -> None:
        """We do not read now."""
        self._since, self._came_bytes = now, 0

    def is_late(self, now: float, *, is_kept: bool) -> bool:
        """Asked once a second. `is_kept`: the body is gathered in memory."""
        if is_kept and now - self._began > WHOLE_BODY_S:
            return True
        window_s = now - self._since
        if window_s <= BODY_S:
            return False
        is_slow = self._came_bytes < window_s * BODY_BYTES_PER_S
        self._since, self._came_bytes = now, 0
        return is_slow
