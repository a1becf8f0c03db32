"""A real S3 server on the loopback, in a process of its own: buckets in memory, gone with it."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.polling import POLL_S
from tests.support.ports import find_free_port

BUCKET = "models"


@contextmanager
def s3_server() -> Iterator[str]:
    """Its address, with an empty bucket."""
    port = find_free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _make_bucket(process, f"{url}/{BUCKET}")
        yield url
    finally:
        process.kill()
        process.wait()


def _make_bucket(process: subprocess.Popen[bytes], url: str) -> None:
    """As soon as it answers."""
    for _ in range(3000):
        with suppress(OSError), urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=5):
            return
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
            break
    raise AssertionError("the S3 server does not start")
