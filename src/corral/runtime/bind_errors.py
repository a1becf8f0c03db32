"""Explains why a server cannot listen on an address: the cause, and the flag to change.

Used by `corral up`, `corral serve` and `corral worker`: the same cause gets the same sentence everywhere.
"""

from __future__ import annotations

import contextlib
import errno
import socket

from corral.domain.errors import Conflict, InvalidRequest

# `socket.create_server` raises a plain OSError with the number of the gaierror.
_UNRESOLVED = frozenset({socket.EAI_NONAME, socket.EAI_AGAIN, socket.EAI_FAIL, getattr(socket, "EAI_NODATA", -5)})


class PortHeld(Conflict):
    """Another program holds the port to listen on."""

    code = "port_held"


class AddressUnusable(InvalidRequest):
    """The address or port to listen on cannot be used by this user on this machine."""

    code = "address_unusable"


def explain_bind_error(
    error: OSError, host: str, port: int, *, host_flag: str = "--host", port_flag: str = "--port"
) -> PortHeld | AddressUnusable:
    """Return the error for a server that could not listen on `host` and `port`. The flags are those that set them."""
    if isinstance(error, socket.gaierror) or error.errno in _UNRESOLVED:
        return AddressUnusable(
            f"{host} cannot be resolved to an address.",
            hint=f"Give {host_flag} an address of this machine, such as 127.0.0.1; 0.0.0.0 listens on all of them.",
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return AddressUnusable(
            f"{host} is not an address of this machine.",
            hint=f"Give {host_flag} one of its own addresses (`ip address` lists them); 0.0.0.0 listens on all.",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return AddressUnusable(
            f"This user may not listen on port {port} of {host}.",
            hint=f"Ports below 1024 usually need root. Choose a higher one with {port_flag} and put a proxy before it.",
        )
    if error.errno == errno.EADDRINUSE:
        return PortHeld(
            f"Port {port} on {host} is held by {describe_holder(port)}.",
            hint=f"Choose another one with {port_flag}, or stop that program.",
        )
    reason = error.strerror or error
    return AddressUnusable(
        f"{host} port {port} cannot be used: {reason}.", hint=f"Look at {host_flag} and {port_flag}."
    )


def describe_holder(port: int) -> str:
    """Return a sentence about the process that listens on `port`, as far as this user may know."""
    import psutil  # noqa: PLC0415 - only for the error: it would be a part of every start

    with contextlib.suppress(psutil.Error, OSError):
        for one in psutil.net_connections(kind="tcp"):
            if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid:
                return f"{psutil.Process(one.pid).name()} (process {one.pid})"
    return "another program"
