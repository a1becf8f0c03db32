"""The machine that this process runs on.

Everything that may hang (a driver, the files of a graphics card, a vendor's tool) is bounded in time.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pynvml

from corral.worker.hardware.machine import CpuFacts, MemoryFacts, NvmlReading, PlatformFacts, ReadingFailed
from corral.worker.hardware.nvml import read_nvml
from corral.worker.hardware.patience import Patience

# A healthy driver answers in milliseconds, a sleeping one wakes within two seconds.
_DRIVER_LIMIT_S = 5.0
_TOOL_LIMIT_S = 5.0
# The largest file read here is the PCI database, 1.5 MB.
_FILE_LIMIT_BYTES = 4 << 20
# Files behind which a driver works, and may hang.
_DRIVER_FILES = "/sys/class/drm"
_ARCHITECTURES = {"aarch64": "arm64", "amd64": "x86_64", "x64": "x86_64", "i386": "x86", "i686": "x86"}


class RealMachine:
    """Implements `Machine` on this operating system. Files are looked up below `root`."""

    def __init__(
        self, *, root: Path = Path("/"), nvml_library: Any = pynvml, driver_limit_s: float = _DRIVER_LIMIT_S
    ) -> None:
        self._root = root
        self._nvml_library = nvml_library
        self._patience = Patience(driver_limit_s)

    def platform(self) -> PlatformFacts:
        architecture = platform.machine().lower()
        return PlatformFacts(
            system=platform.system().lower(), architecture=_ARCHITECTURES.get(architecture, architecture)
        )

    def cpu(self) -> CpuFacts:
        try:
            return CpuFacts(physical=psutil.cpu_count(logical=False), logical=psutil.cpu_count())
        except (OSError, psutil.Error, ValueError):
            return CpuFacts(physical=None, logical=None)

    def memory(self) -> MemoryFacts:
        try:
            memory = psutil.virtual_memory()
        except (OSError, psutil.Error, ValueError, KeyError) as error:
            raise ReadingFailed(f"The machine's memory could not be read: {error}.") from error
        return MemoryFacts(total_bytes=memory.total, available_bytes=memory.available)

    def nvml(self) -> NvmlReading:
        return self._patience.call("the NVIDIA driver", lambda: read_nvml(self._nvml_library))

    def read(self, path: str) -> bytes | None:
        try:
            if path.startswith(_DRIVER_FILES):
                return self._patience.call("the files of the graphics cards", lambda: self._read(path))
            return self._read(path)
        except (OSError, ValueError):
            # Absent, forbidden, or a sysfs file whose driver refuses: all of them mean "not told".
            return None

    def _read(self, path: str) -> bytes:
        with self._inside(path).open("rb") as file:
            return file.read(_FILE_LIMIT_BYTES)

    def list_directory(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(entry.name for entry in self._inside(path).iterdir()))
        except (OSError, ValueError):
            return ()

    def run(self, command: tuple[str, ...]) -> str:
        program = shutil.which(command[0])
        if program is None:
            raise ReadingFailed(f"{command[0]} is not installed.")
        return self._patience.call(command[0], lambda: _output((program, *command[1:])))

    def _inside(self, path: str) -> Path:
        return self._root / path.lstrip("/")


def _output(command: tuple[str, ...]) -> str:
    name = Path(command[0]).name
    try:
        finished = subprocess.run(  # noqa: S603 the command lines are constants of the detectors
            command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=_TOOL_LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise ReadingFailed(f"{name} did not answer within {_TOOL_LIMIT_S:g} s.") from error
    except subprocess.CalledProcessError as error:
        raise ReadingFailed(f"{name} failed with exit status {error.returncode}.") from error
    return finished.stdout.decode("utf-8", "replace")
