"""The program of a `ComputeProcess`: reads calls from its standard input, one at a time, and writes their results.

A message is two lengths of eight bytes, a pickled part and a part of plain bytes. A call is a function and the bytes it
is given; its result is what the function returned, or raised. The program ends with its standard input, so it does not
outlive the process that started it. Limit: pickles are read from that process alone, never from what strangers sent.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from corral.runtime.attempt import AttemptFailure, attempt_sync

LENGTHS = struct.Struct(">QQ")


def encode_head(pickled: bytes, payload: bytes) -> bytes:
    """Return the head of a message: the lengths and the pickled part, which precede its plain bytes."""
    return LENGTHS.pack(len(pickled), len(payload)) + pickled


def main() -> None:
    """Serve calls until the standard input ends."""
    if sys.platform != "win32":
        # Calls here are large and may wait, so the event loop has priority.
        os.nice(5)
    source, target = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Stray prints must not end up between two messages.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while head := source.read(LENGTHS.size):
        pickled_bytes, payload_bytes = LENGTHS.unpack(head)
        work: Callable[[bytes], tuple[Any, bytes]] = pickle.loads(  # noqa: S301 - from our parent alone
            source.read(pickled_bytes)
        )
        _serve(work, source.read(payload_bytes), target)


def _serve(work: Callable[[bytes], tuple[Any, bytes]], payload: bytes, target: BinaryIO) -> None:
    outcome = attempt_sync(lambda: work(payload))
    if isinstance(outcome, AttemptFailure):
        error = attempt_sync(lambda: pickle.dumps(outcome.error))
        pickled = pickle.dumps(RuntimeError(outcome.sentence)) if isinstance(error, AttemptFailure) else error.value
        written = b""
    else:
        value, written = outcome.value
        pickled = pickle.dumps(value)
    target.write(encode_head(pickled, written))
    target.write(written)
    target.flush()


if __name__ == "__main__":
    main()
