"""The port, taken before anything else starts, so that a taken one is told at once."""

from __future__ import annotations

import socket

from corral.runtime.bind_errors import explain_bind_error

# Names the parent of several frontends to each of them, which shares its port with the others and does not outlive it.
PARENT_VARIABLE = "CORRAL_PARENT_PID"


def listen(host: str, port: int, *, shares_port: bool = False) -> socket.socket:
    """A listening socket. `shares_port`: others of the same user may listen there, too, and the kernel deals out."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=1024, reuse_port=shares_port)
    except OSError as error:
        raise explain_bind_error(error, host, port) from error
    # Inherited by every connection. asyncio sets it only on sockets that it made itself, and without it the second
    # of two small writes, such as headers and body, waits 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
