"""Addresses that users name must not lead inside: to this machine, the local network, a cloud's metadata service.

A host is judged twice: by its text before anybody is asked about it, and by the very address that a connection is
about to be made to, also after redirects. So a name that leads elsewhere a moment later gets nobody in. Limit: behind a
proxy the connection is the proxy's; there the name service is asked once, before.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from corral.domain.errors import Unprocessable
from corral.policy.addresses import is_private_address


class PrivateAddress(OSError):
    """Raised where a connection would be made. All have the same words, so aiohttp passes the first one on."""

    def __init__(self) -> None:
        super().__init__("the address is private")


def refused_as_private() -> Unprocessable:
    return Unprocessable(
        "The address leads into a private network or to this machine itself.",
        code="private_address",
        hint="Put the file behind a public address, or let the operator set allow_private_sources.",
    )


def public_socket(info: tuple[Any, ...]) -> socket.socket:
    """A socket for an address that is not private; aiohttp calls this before every connection."""
    family, kind, protocol, _, address = info
    if is_private_address(str(address[0])):
        raise PrivateAddress
    return socket.socket(family=family, type=kind, proto=protocol)


async def refuse_private(host: str) -> None:
    """`Unprocessable` with the code `private_address` if a host is private by its text or by what its name means."""
    # The name itself first: asking the name service for an inner name tells somebody about it.
    if is_private_address(host):
        raise refused_as_private()
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return
    if any(is_private_address(str(address[0])) for *_, address in found):
        raise refused_as_private()
