"""Limits how many connections a frontend keeps open, and how large and how slow the body of a request may be.

Connections are counted in total and per client address; those from this machine and from the proxies that an operator
has named carry many clients, and only the total counts for them. Of a body only recent progress counts: one that stops
shortly before its end is as late as one that never began. Time during which this frontend paused reading is not charged
to the client.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass

# The largest body of an inference call: enough for chats with pictures and long documents.
INFERENCE_BODY_BYTES_MAX = 32 * 1024 * 1024
# A client that sends too much reads the response only after it has sent its body; we read this much of it.
DRAINED_BYTES_MAX = 64 * 1024 * 1024
# In each window of this many seconds, at least this many bytes a second must arrive on average, …
BODY_WINDOW_S = 30.0
BODY_BYTES_PER_S = 1024
# … and a body that is buffered in memory must be complete after this many seconds.
WHOLE_BODY_S = 600.0

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Says how many client connections a frontend keeps open, in all and for one address.

    It also says which proxies are exempt.
    """

    total: int = 16_384
    per_address: int = 2_048
    trusted_proxies: tuple[Network, ...] = ()


class ConnectionCounter:
    """Counts the open client connections by address and says which ones are over the limits."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._by_address: Counter[str] = Counter()
        self.count = 0

    def add(self, address: str) -> str:
        """Count a new connection. Return the reason why it must be closed, or an empty string if it may stay."""
        self.count += 1
        self._by_address[address] += 1
        if self.count > self._limits.total:
            return f"This frontend already has {self._limits.total} connections, which is its limit."
        if self._by_address[address] > self._limits.per_address and not self._is_exempt(address):
            return f"This address already has {self._limits.per_address} connections, which is its limit."
        return ""

    def remove(self, address: str) -> None:
        self.count -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def _is_exempt(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return True
        mapped = getattr(parsed, "ipv4_mapped", None) or parsed
        return mapped.is_loopback or any(mapped in network for network in self._limits.trusted_proxies)


class BodyProgress:
    """Measures whether a client sends a request body fast enough: enough bytes in each window of time, and in all."""

    __slots__ = ("_began", "_received_bytes", "_since")

    def __init__(self, now: float) -> None:
        self._began = self._since = now
        self._received_bytes = 0

    def add(self, count: int) -> None:
        self._received_bytes += count

    def pause(self, now: float) -> None:
        """Stop the clock: this frontend does not read from the client now."""
        self._since, self._received_bytes = now, 0

    def check_late(self, now: float, *, is_buffered: bool) -> bool:
        """Return True if the body is late. Called once a second. `is_buffered`: the body is collected in memory."""
        if is_buffered and now - self._began > WHOLE_BODY_S:
            return True
        window_s = now - self._since
        if window_s <= BODY_WINDOW_S:
            return False
        is_slow = self._received_bytes < window_s * BODY_BYTES_PER_S
        self._since, self._received_bytes = now, 0
        return is_slow
