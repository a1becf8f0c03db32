"""A frontend that counts its statements, in a cluster of its own: `python -m bench.counting up`.

It is the product's frontend in its own process; the only addition is a number in a shared file. With SIGUSR1 it starts
a profile, with SIGUSR2 it writes that to the file that `BENCH_PROFILE` names.
"""

from __future__ import annotations

import cProfile
import mmap
import os
import signal
import struct
import sys
from pathlib import Path

from corral.__main__ import main as corral_main
from corral.app import frontend
from corral.app.up import UpOptions, run_up
from corral.store.database import Database
from tests.support.statements import count_statements

COUNTS = "BENCH_COUNTS"
PROFILE = "BENCH_PROFILE"
_NUMBER = struct.Struct("<q")


def read_statement_count(path: Path) -> int:
    """Return how many statements the frontend has sent so far."""
    return int(_NUMBER.unpack(path.read_bytes())[0])


def make_environment(counts: Path) -> dict[str, str]:
    """Return the extra environment variables for the processes of a counted cluster."""
    counts.write_bytes(_NUMBER.pack(0))
    return {COUNTS: str(counts), "PYTHONPATH": str(Path(__file__).resolve().parents[1])}


class _CountedDatabase(Database):
    """A `Database` that counts its statements in a shared file."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        with Path(os.environ[COUNTS]).open("r+b") as file:
            shared = mmap.mmap(file.fileno(), _NUMBER.size)
        count = 0

        def seen(_: str) -> None:
            nonlocal count
            count += 1
            _NUMBER.pack_into(shared, 0, count)

        count_statements(self, seen)


def _serve() -> int:
    if PROFILE in os.environ:
        profile = cProfile.Profile()
        signal.signal(signal.SIGUSR1, lambda *_: profile.enable())
        signal.signal(signal.SIGUSR2, lambda *_: profile.dump_stats(os.environ[PROFILE]))
    vars(frontend)["Database"] = _CountedDatabase
    sys.argv = ["corral", "serve"]
    return corral_main()


def _up() -> int:
    command = (sys.executable, "-m", "bench.counting", "serve")
    home, port = Path(os.environ["CORRAL_HOME"]), int(os.environ["CORRAL_PORT"])
    return run_up(UpOptions(home=home, port=port, detach=True, serve_command=command, agent_worker=False))


if __name__ == "__main__":
    sys.exit(_up() if sys.argv[1:] == ["up"] else _serve())
