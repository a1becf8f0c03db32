"""Child processes of plain tests: one that a failed test leaves running is killed instead of being waited for."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def start_child(command: list[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a program with the options of `subprocess.Popen`. It has ended after the block, whatever happened inside.

    `with subprocess.Popen(…)` alone waits for the program without a limit when its block raises.
    """
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise
