"""Reads the hardware of the machine that this process runs on, and the disk space for model files.

Everything that may hang (a driver, the files of a graphics card, a vendor's tool, a network mount) is bounded in time.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import psutil
import pynvml

from corral.worker.hardware.hardware_source import CpuFacts, HardwareUnreadable, MemoryFacts, NvmlReading, PlatformFacts
from corral.worker.hardware.nvidia import read_nvml
from corral.worker.hardware.reading import DiskReading

# A healthy driver answers in milliseconds, a sleeping one wakes within two seconds.
_DRIVER_LIMIT_S = 5.0
_TOOL_LIMIT_S = 5.0
# The largest file read here is the PCI database, 1.5 MB.
_FILE_LIMIT_BYTES = 4 << 20
# Files that are served by a driver, which may hang.
_DRIVER_FILES = "/sys/class/drm"
_ARCHITECTURES = {"aarch64": "arm64", "amd64": "x86_64", "x64": "x86_64", "i386": "x86", "i686": "x86"}
T = TypeVar("T")


class _TimedCall(Generic[T]):
    """One call that runs in a thread of its own, and its result."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._answer: list[T] = []
        self._failure: HardwareUnreadable | OSError | ValueError | None = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self._answer.append(self._work())
        except (HardwareUnreadable, OSError, ValueError) as error:
            self._failure = error
        finally:
            self.done.set()

    def get_answer(self, name: str) -> T:
        if self._failure is not None:
            raise self._failure
        if not self._answer:
            raise HardwareUnreadable(f"Reading {name} ended without a result.")
        return self._answer[0]


class CallTimeLimiter:
    """Gives a worker's hardware calls that may hang for ever a time limit of a few seconds.

    A wedged driver or a dead network mount can hold a system call for hours, and no timeout reaches into it. The call
    runs in a daemon thread that is left behind when its time is up. At most one abandoned thread is left for each name,
    because further calls under that name fail at once until the first comes back.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._open: dict[str, threading.Event] = {}

    def call(self, name: str, work: Callable[[], T]) -> T:
        """Run `work`, which may raise `HardwareUnreadable`, `OSError` or `ValueError`; a timeout is
        `HardwareUnreadable`."""
        call = _TimedCall(work)
        with self._lock:
            earlier = self._open.get(name)
            if earlier is not None and not earlier.is_set():
                raise HardwareUnreadable(
                    f"An earlier attempt to read {name} still hangs; it is not tried again meanwhile."
                )
            self._open[name] = call.done
        threading.Thread(target=call.run, name=f"reading {name}", daemon=True).start()
        if not call.done.wait(self._limit_s):
            raise HardwareUnreadable(f"Reading {name} took longer than {self._limit_s:g} s and was abandoned.")
        return call.get_answer(name)


class LocalHardware:
    """Reads the hardware of the worker's machine, with files below `root`. Implements `HardwareSource`."""

    def __init__(
        self, *, root: Path = Path("/"), nvml_library: Any = pynvml, driver_limit_s: float = _DRIVER_LIMIT_S
    ) -> None:
        self._root = root
        self._nvml_library = nvml_library
        self._limiter = CallTimeLimiter(driver_limit_s)

    def read_platform(self) -> PlatformFacts:
        architecture = platform.machine().lower()
        return PlatformFacts(
            system=platform.system().lower(), architecture=_ARCHITECTURES.get(architecture, architecture)
        )

    def read_cpu(self) -> CpuFacts:
        try:
            return CpuFacts(physical=psutil.cpu_count(logical=False), logical=psutil.cpu_count())
        except (OSError, psutil.Error, ValueError):
            return CpuFacts(physical=None, logical=None)

    def read_memory(self) -> MemoryFacts:
        try:
            memory = psutil.virtual_memory()
        except (OSError, psutil.Error, ValueError, KeyError) as error:
            raise HardwareUnreadable(f"The machine's memory could not be read: {error}.") from error
        return MemoryFacts(total_bytes=memory.total, available_bytes=memory.available)

    def read_nvml(self) -> NvmlReading:
        return self._limiter.call("the NVIDIA driver", lambda: read_nvml(self._nvml_library))

    def read_file(self, path: str) -> bytes | None:
        try:
            if path.startswith(_DRIVER_FILES):
                return self._limiter.call("the files of the graphics cards", lambda: self._read_bytes(path))
            return self._read_bytes(path)
        except (OSError, ValueError):
            # Absent, forbidden, or a sysfs file whose driver refuses: all of them mean "unknown".
            return None

    def _read_bytes(self, path: str) -> bytes:
        with self._resolve_path(path).open("rb") as file:
            return file.read(_FILE_LIMIT_BYTES)

    def list_directory(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(entry.name for entry in self._resolve_path(path).iterdir()))
        except (OSError, ValueError):
            return ()

    def run_tool(self, command: tuple[str, ...]) -> str:
        program = shutil.which(command[0])
        if program is None:
            raise HardwareUnreadable(f"{command[0]} is not installed.")
        return self._limiter.call(command[0], lambda: _run_command((program, *command[1:])))

    def _resolve_path(self, path: str) -> Path:
        return self._root / path.lstrip("/")


def _run_command(command: tuple[str, ...]) -> str:
    name = Path(command[0]).name
    try:
        finished = subprocess.run(  # noqa: S603 the command lines are constants of the detectors
            command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=_TOOL_LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise HardwareUnreadable(f"{name} did not respond within {_TOOL_LIMIT_S:g} s.") from error
    except subprocess.CalledProcessError as error:
        raise HardwareUnreadable(f"{name} failed with exit status {error.returncode}.") from error
    return finished.stdout.decode("utf-8", "replace")


# Shared by all calls, so that a mount that hangs costs one thread and not one for each heartbeat.
_DISK_LIMITER = CallTimeLimiter(3.0)


def read_disk(models_directory: Path, *, limiter: CallTimeLimiter = _DISK_LIMITER) -> DiskReading | None:
    """Return total and available bytes for an ordinary user; `None` when they cannot be read.

    The space is measured where the files would be written: on the filesystem of the models directory or, before it
    exists, of its nearest existing parent. 0 means full.
    """
    path = models_directory.absolute()
    try:
        return limiter.call(f"the disk of {path}", lambda: _read_usage(path))
    except (HardwareUnreadable, OSError, ValueError):
        return None


def _read_usage(path: Path) -> DiskReading | None:
    for candidate in (path, *path.parents):
        try:
            usage = shutil.disk_usage(candidate)
        except (FileNotFoundError, NotADirectoryError):
            if candidate.is_symlink():
                # The link points to a disk that is not mounted; the disk of the link itself is not the answer.
                return None
            continue
        total, available = max(usage.total, 0), max(usage.free, 0)
        # Filesystems without blocks, such as /proc, say 0 bytes in all.
        return DiskReading(total_bytes=total, available_bytes=min(available, total)) if total else None
    return None
