"""Loaded by Python itself at the start of every program whose PYTHONPATH names this folder.

SIGUSR1 starts to record in which files functions run, SIGUSR2 stops and writes their names to CORRAL_BENCH_FILES.PID.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

_MARK = f"{os.sep}src{os.sep}corral{os.sep}"
_seen: set[CodeType] = set()


def _record(frame: FrameType, event: str, argument: object) -> None:
    del argument
    if event == "call":
        _seen.add(frame.f_code)


def _start(number: int, frame: FrameType | None) -> None:
    del number, frame
    _seen.clear()
    threading.setprofile(_record)
    sys.setprofile(_record)


def _stop(number: int, frame: FrameType | None) -> None:
    del number, frame
    sys.setprofile(None)
    threading.setprofile(None)
    # Code at the level of a module runs when it is imported, not for a request.
    names = {code.co_filename for code in _seen if _MARK in code.co_filename and code.co_name != "<module>"}
    target = Path(f"{os.environ['CORRAL_BENCH_FILES']}.{os.getpid()}")
    written = target.with_suffix(f".{os.getpid()}.new")
    written.write_text("\n".join(sorted(name.partition(_MARK)[2] for name in names)))
    written.replace(target)


if "CORRAL_BENCH_FILES" in os.environ:
    signal.signal(signal.SIGUSR1, _start)
    signal.signal(signal.SIGUSR2, _stop)
