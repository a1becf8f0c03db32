"""Under which address this machine tells the frontends to reach it.

Without a setting it is the address that engines listen on, or the one of the interface that leads to a frontend if they
listen on all of them: frontends take no engine that is elsewhere than at the address of its node. Nothing is sent to
find it out: a UDP socket that is "connected" only asks the routing table. Limit: behind a translating router that is
not the address by which others come in; then a person must give one.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertised:
    """`address` is for engines, `http_address` is the worker's own port."""

    address: str
    http_address: str


def advertise(
    *, wanted: str | None, engine_host: str, http_host: str, http_port: int, frontends: Iterable[str]
) -> Advertised:
    """May block for a name lookup: call it in a thread."""
    host, port = _split(wanted) if wanted else (outward_host(frontends), None)
    is_everywhere = _is_unspecified(http_host)
    engines_at = host if wanted or _is_unspecified(engine_host) else engine_host
    return Advertised(
        address=join_host(engines_at, port or http_port),
        http_address=join_host(host if is_everywhere else http_host, http_port),
    )


def outward_host(frontends: Iterable[str]) -> str:
    """This machine's address on the way to the first frontend that can be looked up, else its name."""
    for url in frontends:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        found = _local_address(parts.hostname or "", port)
        if found is not None:
            return found
    return socket.gethostname()


def join_host(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _local_address(host: str, port: int) -> str | None:
    try:
        for family, kind, protocol, _, target in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(target)
                local: str = probe.getsockname()[0]
                return local
    except OSError:
        return None
    return None


def _split(address: str) -> tuple[str, int | None]:
    parts = urlsplit(f"//{address}")
    return parts.hostname or address, parts.port


def _is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
