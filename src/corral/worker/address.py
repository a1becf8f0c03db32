"""Choose the address under which the frontends reach this machine.

Without a setting it is the address that engines listen on, or, if they listen on all addresses, the one of the
interface that leads to a frontend: frontends take no engine that is elsewhere than at the address of its node. Nothing
is sent to find the address: a UDP socket that is "connected" only looks into the routing table. Limit: behind a
translating router the found address is not the one by which others come in; then a person must configure one.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvertisedAddresses:
    """Holds the addresses that a worker reports to frontends: one for its engines, one for its own HTTP port."""

    address: str
    http_address: str


def choose_advertised_addresses(
    *, configured: str | None, engine_host: str, http_host: str, http_port: int, frontends: Iterable[str]
) -> AdvertisedAddresses:
    """Choose what this worker advertises. May block for a name lookup: call it in a thread."""
    host, port = _split_host_port(configured) if configured else (find_outward_host(frontends), None)
    is_everywhere = _is_unspecified(http_host)
    engines_at = host if configured or _is_unspecified(engine_host) else engine_host
    return AdvertisedAddresses(
        address=format_host_port(engines_at, port or http_port),
        http_address=format_host_port(host if is_everywhere else http_host, http_port),
    )


def find_outward_host(frontends: Iterable[str]) -> str:
    """Return this machine's address on the way to the first frontend that can be looked up, else its host name."""
    for url in frontends:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        found = _find_local_address(parts.hostname or "", port)
        if found is not None:
            return found
    return socket.gethostname()


def format_host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _find_local_address(host: str, port: int) -> str | None:
    try:
        for family, kind, protocol, _, target in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(target)
                local: str = probe.getsockname()[0]
                return local
    except OSError:
        return None
    return None


def _split_host_port(address: str) -> tuple[str, int | None]:
    parts = urlsplit(f"//{address}")
    return parts.hostname or address, parts.port


def _is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
