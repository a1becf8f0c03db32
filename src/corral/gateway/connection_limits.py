"""How many connections a frontend keeps open, in all and for one address.

The machine itself and the proxies that an operator has named speak for many clients: only the total counts for them.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    total: int = 16_384
    per_address: int = 2_048
    trusted_proxies: tuple[Network, ...] = ()


class ConnectionCounter:
    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._by_address: Counter[str] = Counter()
        self.count = 0

    def add(self, address: str) -> str:
        """Count a connection that was opened. Return why it has to be closed; empty: it may stay."""
        self.count += 1
        self._by_address[address] += 1
        if self.count > self._limits.total:
            return f"This frontend has {self._limits.total} connections, which is all that it keeps."
        if self._by_address[address] > self._limits.per_address and not self._is_exempt(address):
            return f"This address has {self._limits.per_address} connections, which is all that it may have."
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
