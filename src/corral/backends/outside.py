"""Addresses that users give, as against those that the operator has set up: they must not lead inside.

A worker fetches them, from within the operator's network. What is refused: this machine, private and link-local
networks, metadata services, and names that lead to any of these. Limit: a name may lead elsewhere a moment later;
whoever must not be tricked at all fetches by digest.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from corral.backends.sources import image_of
from corral.domain.errors import InvalidRequest, Unprocessable
from corral.policy.addresses import is_private_address
from corral.ports.fetch import Fetcher


async def refuse_private(uri: str, fetcher: Fetcher) -> None:
    """`Unprocessable` with the code `private_address` if the uri leads to a private address. A folder has no host."""
    host = _host_of(uri)
    if host is None:
        return
    # The name itself first: asking the name service for an inner name tells somebody about it.
    if is_private_address(host) or any(is_private_address(one) for one in await fetcher.addresses(host)):
        raise Unprocessable(
            "The address leads into a private network or to this machine itself.",
            code="private_address",
            hint="Put the file behind a public address, or let the operator add a gallery: those may be private.",
        )


def _host_of(uri: str) -> str | None:
    text = uri.strip()
    if text.lower().startswith(("http://", "https://")):
        try:
            return urlsplit(text).hostname or ""
        except ValueError as error:
            raise InvalidRequest("The address is not valid.", code="bad_uri") from error
    image = image_of(text)
    if image is None:
        return None
    return urlsplit(f"//{image['registry']}").hostname or ""
