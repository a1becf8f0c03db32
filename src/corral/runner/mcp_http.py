"""The HTTP client for MCP servers: without limits on time, because each call has its own, but with one on size.

A response that is not a stream of events is held as a whole by the MCP library, so it may not be larger than a message
of a program may be. Compressed responses are refused: their size is not known before they are unpacked.

A server that a user has named must not lead into the network of the worker. Its name is resolved here, and the
connection is made to the very address that was judged, so a name that leads elsewhere a moment later is no way around.
Limit: where the environment names a proxy for an address, the connection is the proxy's; there the name is judged
before each request.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from urllib.request import getproxies, proxy_bypass

import httpx2

from corral.policy.addresses import is_private_address
from corral.runner.stdio_server import MESSAGE_BYTES_MAX


class _BoundedStream(httpx2.AsyncByteStream):
    """Passes the bytes of a response on, up to a limit."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size_bytes = 0
        async for chunk in self._stream:
            size_bytes += len(chunk)
            if size_bytes > MESSAGE_BYTES_MAX:
                raise httpx2.DecodingError(f"The server sent more than {MESSAGE_BYTES_MAX >> 20} MiB.")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound_response(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise httpx2.DecodingError("The server sent a compressed response.")
    is_event_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    # The library bounds each event of a stream itself.
    if not is_event_stream and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _BoundedStream(response.stream)


class AddressRefusedError(httpx2.ConnectError):
    """Raised when a run may not connect to the address of an MCP server; the reason may be shown to people."""


class _PublicTransport(httpx2.AsyncBaseTransport):
    """Sends requests to public addresses only."""

    def __init__(self) -> None:
        # By proxy; an empty text for connections to the servers themselves.
        self._transports: dict[str, httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        address, proxy = await _find_public_address(request.url), _find_proxy(request.url)
        if not proxy:
            host = request.url.host
            request.url = request.url.copy_with(host=address)
            # The certificate is that of the name, whichever address it has led to.
            request.extensions = {**request.extensions, "sni_hostname": host}
        if proxy not in self._transports:
            self._transports[proxy] = httpx2.AsyncHTTPTransport(proxy=proxy or None)
        return await self._transports[proxy].handle_async_request(request)

    async def aclose(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()


def _find_proxy(url: httpx2.URL) -> str:
    """Return the proxy that the environment names for an address; an empty text if it names none."""
    proxies = getproxies()
    proxy = "" if proxy_bypass(url.host) else proxies.get(url.scheme) or proxies.get("all", "")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


async def _find_public_address(url: httpx2.URL) -> str:
    """Return an address of a host; raise if the host or any address of it is private."""
    # Judge the text first: resolving an internal name would disclose it.
    found = [] if is_private_address(url.host) else await _look_up(url)
    if not found or any(is_private_address(address) for address in found):
        raise AddressRefusedError("its address leads into a private network or to the worker itself")
    return found[0]


async def _look_up(url: httpx2.URL) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port or 443, type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressRefusedError(f"the name service does not know its host ({error.strerror})") from error
    return [str(address[0]) for *_, address in found]


def make_http_client(
    headers: Mapping[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
    *,
    is_public_only: bool = False,
) -> httpx2.AsyncClient:
    """Return a client with the headers of a server. The first three parameters are those that the MCP library
    passes."""
    return httpx2.AsyncClient(
        headers={**(headers or {}), "Accept-Encoding": "identity"},
        timeout=timeout,
        auth=auth,
        # A transport of our own: those of the library for proxies are made for the whole client, and not judged.
        transport=_PublicTransport() if is_public_only else None,
        event_hooks={"response": [_bound_response]},
    )
