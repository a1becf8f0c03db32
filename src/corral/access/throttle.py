"""How often something may be tried in a minute: wrong passwords and keys. In memory of one frontend, bounded."""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict

from corral.domain.errors import LimitReached
from corral.ports.runtime import Clock

WINDOW_S = 60.0
NAMES_MAX = 10_000


class Throttle:
    """Each try is counted before it is made, so that many at once do not slip through; a good one is taken back."""

    def __init__(self, clock: Clock, tries: int, sentence: str) -> None:
        self._clock = clock
        self._tries = tries
        self._sentence = sentence
        # The times of the last tries, the oldest first.
        self._seen: OrderedDict[str, list[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def count(self, name: str) -> None:
        now = self._clock.monotonic()
        recent = [at for at in self._seen.get(name, ()) if at > now - WINDOW_S]
        if len(recent) >= self._tries:
            wait_s = max(1, math.ceil(recent[0] + WINDOW_S - now))
            raise LimitReached(self._sentence, hint=f"Wait {wait_s} s.", details={"retry_after_s": wait_s})
        self._seen[name] = [*recent, now]
        self._seen.move_to_end(name)
        while len(self._seen) > NAMES_MAX:
            self._seen.popitem(last=False)

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)

    def take_back(self, name: str) -> None:
        """Forget the last try alone: it was a good one, and says nothing about those before it."""
        tries = self._seen.get(name)
        if tries:
            tries.pop()


def network_of(address: str) -> str:
    """Return what tries from this address are counted by: itself, or its /64, which is one customer's in IPv6."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
