"""Ports for servers that a test starts, and kills and starts again on the same port."""

from __future__ import annotations

import random
import socket

# Below the ports that the system gives to outgoing connections (on Linux from 32768 on): one of those may be the
# source of another connection while the server that had it is started again. And below those of engines in
# `tests/e2e/cluster.py`.
PORT_MIN, PORT_MAX = 10_000, 19_999
TRIES_MAX = 100
# Not seeded: test processes that run side by side would draw the same ports.
_RANDOM = random.SystemRandom()


def find_free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens."""
    for _ in range(TRIES_MAX):
        port = _RANDOM.randint(PORT_MIN, PORT_MAX)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError(f"{TRIES_MAX} ports were tried, and none is free")
