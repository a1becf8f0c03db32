"""Functions that tests run in another process."""

from __future__ import annotations

import os
import signal

from corral.domain.errors import InvalidRequest


def reverse(payload: bytes) -> tuple[int, bytes]:
    """Return the pid of this process and the payload in reverse."""
    return os.getpid(), payload[::-1]


def refuse(payload: bytes) -> tuple[None, bytes]:
    raise InvalidRequest(f"{len(payload)} bytes are refused.", hint="Send others.", code="refused_in_test")


def die(payload: bytes) -> tuple[None, bytes]:
    os._exit(len(payload))


def wait_for_signal(_: bytes) -> tuple[None, bytes]:
    """Block until the process gets a signal."""
    signal.pause()
    return None, b""


def read_fifo(path: bytes) -> tuple[None, bytes]:
    """Block until another process writes to the FIFO, and return its bytes."""
    with open(path, "rb") as fifo:  # noqa: PTH123 - a path in bytes
        return None, fifo.read()
