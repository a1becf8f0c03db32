"""Explains in one sentence why a host cannot be reached: its name, the connection, the route, a proxy or a certificate.

The same sentence is made of errors of aiohttp and of the output of uv, so that a person reads the same when an engine
is installed and when a model is fetched. Limit: nothing is guessed from an output of uv; if it gives no cause, it is
shown.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # typeshed leaves it out

import aiohttp

from corral.transfer.faults import SourceFailed

_UNRESOLVED = "its name cannot be resolved"
_REFUSED = "the connection was refused"
_NO_ROUTE = "there is no route to it"
_TIMED_OUT = "no connection was made in time"
_UNTRUSTED = "its certificate is not trusted here (SSL_CERT_FILE names a file with certificates that are)"
_WANTS_PASSWORD = "the proxy requires a user and a password (407)"  # noqa: S105 - a sentence
_BY_NUMBER: Mapping[int, str] = {
    errno.ECONNREFUSED: _REFUSED,
    errno.ENETUNREACH: _NO_ROUTE,
    errno.EHOSTUNREACH: _NO_ROUTE,
    errno.ENETDOWN: _NO_ROUTE,
    errno.ETIMEDOUT: _TIMED_OUT,
}
_BY_KIND: Mapping[type[Exception], str] = {
    aiohttp.ClientConnectorDNSError: _UNRESOLVED,
    aiohttp.ClientConnectorCertificateError: _UNTRUSTED,
    aiohttp.ConnectionTimeoutError: _TIMED_OUT,
}
# In this order: a proxy that refuses is reported before the failed connection that it causes.
_BY_TEXT = (
    (re.compile(r"proxy authorization required|407 Proxy"), _WANTS_PASSWORD),
    (re.compile(r"tunnel error: unsuccessful"), "the proxy refuses"),
    (re.compile(r"dns error|failed to lookup address"), _UNRESOLVED),
    (re.compile(r"Connection refused"), _REFUSED),
    (re.compile(r"Network is unreachable|No route to host"), _NO_ROUTE),
    (re.compile(r"invalid peer certificate|UnknownIssuer"), _UNTRUSTED),
    (re.compile(r"timed out"), _TIMED_OUT),
)
_ADDRESS = re.compile(r"https?://[^\s`()]+")


def make_unreachable_error(url: str, cause: str, environment: Mapping[str, str]) -> SourceFailed:
    """Return the error that says that this machine cannot reach the host of `url`, and why."""
    proxy = find_proxy(url, environment)
    through = f" through the proxy {proxy}" if proxy else ""
    return SourceFailed(f"This machine cannot reach {_get_host(url)}{through}: {cause}.", code="source_unavailable")


def explain_connection_error(url: str, error: Exception, environment: Mapping[str, str]) -> SourceFailed | None:
    """Return the error for a connection that was not made; None if it was made and broke off later."""
    cause = _find_cause(error)
    return make_unreachable_error(url, cause, environment) if cause else None


def _find_cause(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return _WANTS_PASSWORD if error.status == 407 else f"the proxy refuses ({error.status} {error.message})"
    for kind, cause in _BY_KIND.items():
        if isinstance(error, kind):
            return cause
    if isinstance(error, aiohttp.ClientConnectorError):
        number, words = error.os_error.errno or 0, error.os_error.strerror or str(error.os_error)
        return _BY_NUMBER.get(number) or words.lower()
    return ""


def explain_uv_output(output: str, environment: Mapping[str, str]) -> SourceFailed | None:
    """Return the error for an output of uv, with that output in the lines after; None for any other fault."""
    address = _ADDRESS.search(output)
    cause = next((words for pattern, words in _BY_TEXT if pattern.search(output)), "")
    if address is None or not cause:
        return None
    sentence = make_unreachable_error(address[0], cause, environment).message
    return SourceFailed(f"{sentence}\n{output.strip()}", code="source_unavailable")


def find_proxy(url: str, environment: Mapping[str, str]) -> str:
    """Return host and port of the proxy that the variables name for an address, without its password; else empty."""
    values = {name.lower(): value for name, value in environment.items() if value}
    proxy = values.get(f"{urlsplit(url).scheme}_proxy") or values.get("all_proxy")
    host = urlsplit(url).netloc.rpartition("@")[2]
    if not proxy or proxy_bypass_environment(host, {"no": values.get("no_proxy", "")}):
        return ""
    return urlsplit(proxy if "://" in proxy else f"//{proxy}").netloc.rpartition("@")[2]


def _get_host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "that address"
    except ValueError:
        return "that address"
