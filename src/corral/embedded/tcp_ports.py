"""Chooses TCP ports: the one of last time if it is free, otherwise any free one, never one that is in use.

Between this check and the server's own bind another program may come first. The server then fails to start, and the
next try looks again.
"""

from __future__ import annotations

import contextlib
import random
import socket

from corral.runtime.bind_errors import PortHeld, explain_bind_error

# Below the ports that systems hand out for outgoing connections: a client that keeps trying to reach a server which
# is not up yet could otherwise be given that very port as its own, and hold it.
_RANGE = (20_000, 32_000)
_TRIES = 200
_CONNECT_TIMEOUT_S = 0.5
_ANY_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound to


def choose_port(host: str, preferred: int | None) -> int:
    if preferred is not None and is_free(host, preferred):
        return preferred
    for _ in range(_TRIES):
        port = random.randrange(*_RANGE)  # noqa: S311 - spread, not secrecy
        if is_free(host, port):
            return port
    raise PortHeld(
        f"No free port was found on {host} between {_RANGE[0]} and {_RANGE[1]}.",
        hint="Is the address one of this machine's own? Look at --host.",
    )


def is_free(host: str, port: int) -> bool:
    """Return whether a server could listen there now."""
    return _try_bind(host, port) is None


def check_port(host: str, port: int) -> None:
    """Raise an error that says why a server cannot listen on `host` and `port`, and what to do; else return."""
    error = _try_bind(host, port)
    if error is None:
        return
    raise explain_bind_error(error, host, port) from error


def _try_bind(host: str, port: int) -> OSError | None:
    """Bind and listen once; return the error if that fails."""
    # Connections that are still closing down must not count as a holder, so the option that servers use is set.
    try:
        with contextlib.closing(_open_socket(host)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            probe.listen(1)
    except OSError as error:
        return error
    return None


def get_reachable_host(host: str) -> str:
    """Return the address to connect to for a server that listens on `host`."""
    return _ANY_HOSTS.get(host, host)


def is_loopback(host: str) -> bool:
    return host in {"localhost", "::1"} or host.startswith("127.")


def is_accepting(host: str, port: int) -> bool:
    try:
        with socket.create_connection((get_reachable_host(host), port), timeout=_CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False


def _open_socket(host: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM)
