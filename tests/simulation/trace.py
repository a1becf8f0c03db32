"""What happened and when, in virtual time, with a fingerprint: two runs of one seed must have the same one."""

from __future__ import annotations

import asyncio
import hashlib


class Trace:
    """Collects (virtual time, event). Events are sentences without addresses or real times."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.events: list[tuple[float, str]] = []

    def add(self, event: str) -> None:
        self.events.append((self._loop.time(), event))

    def digest(self) -> str:
        sha = hashlib.sha256()
        for at_s, event in self.events:
            # repr of a float is exact, so that a difference in the last bit is seen.
            sha.update(f"{at_s!r} {event}\n".encode())
        return sha.hexdigest()

    def tail(self, count: int = 200) -> str:
        return "\n".join(f"{at_s:12.6f}  {event}" for at_s, event in self.events[-count:])
