"""The interface between the detectors and the machine, and recordings of machines behind the same interface.

Detectors read a `HardwareSource` and nothing else, so each of them runs on recorded readings of machines that are not
at hand. A method either answers, says "not there" (`None`, an empty tuple), or raises `HardwareUnreadable` with
a sentence; it never raises anything else and never waits longer than a few seconds.

`RecordingHardware` notes every answer that detection requested; `RecordedHardware` gives the same answers anywhere.
That is how a detector is tested on hardware that is not at hand, and how a wrong reading can be sent in a report.
Limit: a recording knows only the questions of the version that made it; everything else is "not there".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from corral.domain.errors import CorralError


class HardwareUnreadable(CorralError):
    """The worker could not read a part of its machine's hardware."""

    code = "hardware_unreadable"
    retryable = True

    @property
    def sentence(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class NvmlNotInstalled(HardwareUnreadable):
    """NVIDIA's management library (NVML) is not installed on the worker's machine."""

    code = "nvml_absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformFacts:
    """Holds the operating system and processor architecture of a machine."""

    system: str
    architecture: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuFacts:
    """Holds how many physical and logical processors a machine has; None is unknown."""

    physical: int | None
    logical: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """Holds the total and available RAM of a machine in bytes, without limits of containers."""

    total_bytes: int
    available_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlDevice:
    """One NVIDIA GPU as NVIDIA's management library (NVML) describes it."""

    index: int
    name: str
    uuid: str | None = None
    compute_capability: str | None = None
    memory_bytes_total: int | None = None
    memory_bytes_free: int | None = None
    # NVML's own words when it refused to give the memory.
    memory_failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlReading:
    """One reading of NVIDIA's management library (NVML): versions, GPUs and warnings."""

    driver_version: str | None
    cuda_version: str | None
    devices: tuple[NvmlDevice, ...] = ()
    warnings: tuple[str, ...] = ()


class HardwareSource(Protocol):
    """Interface through which a worker's hardware detectors reach the machine: files, NVML and vendor tools."""

    def read_platform(self) -> PlatformFacts: ...

    def read_cpu(self) -> CpuFacts: ...

    def read_memory(self) -> MemoryFacts: ...

    def read_nvml(self) -> NvmlReading:
        """Return a reading of NVML; raise `NvmlNotInstalled` without the library, `HardwareUnreadable` if it does not
        work."""
        ...

    def read_file(self, path: str) -> bytes | None:
        """Return the start of a file, or `None` when it does not exist or cannot be read."""
        ...

    def list_directory(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory, sorted; empty when it does not exist."""
        ...

    def run_tool(self, command: tuple[str, ...]) -> str:
        """Return the output of a vendor's tool. The last resort: slow, and its format may change."""
        ...


def read_text(machine: HardwareSource, path: str) -> str | None:
    """Return a small text file without the blanks and NUL bytes that sysfs and the device tree end with."""
    content = machine.read_file(path)
    return None if content is None else content.decode("utf-8", "replace").strip(" \t\r\n\0")


@dataclass(slots=True, kw_only=True)
class HardwareRecording:
    """A machine's recorded hardware answers as plain data, to replay in tests; binary files are hexadecimal."""

    platform: dict[str, Any] = field(default_factory=dict)
    cpu: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    nvml: dict[str, Any] | None = None
    files: dict[str, str] = field(default_factory=dict)
    binary_files: dict[str, str] = field(default_factory=dict)
    directories: dict[str, list[str]] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)


class RecordingHardware:
    """Passes each hardware question on to a `HardwareSource` and records the answer, to be replayed in tests."""

    def __init__(self, inner: HardwareSource) -> None:
        self._inner = inner
        self.recording = HardwareRecording()

    def read_platform(self) -> PlatformFacts:
        answer = self._inner.read_platform()
        self.recording.platform = asdict(answer)
        return answer

    def read_cpu(self) -> CpuFacts:
        answer = self._inner.read_cpu()
        self.recording.cpu = asdict(answer)
        return answer

    def read_memory(self) -> MemoryFacts:
        answer = self._inner.read_memory()
        self.recording.memory = asdict(answer)
        return answer

    def read_nvml(self) -> NvmlReading:
        try:
            answer = self._inner.read_nvml()
        except NvmlNotInstalled:
            self.recording.nvml = None
            raise
        except HardwareUnreadable as failure:
            self.recording.nvml = {"failure": failure.message, "hint": failure.hint}
            raise
        self.recording.nvml = asdict(answer)
        return answer

    def read_file(self, path: str) -> bytes | None:
        answer = self._inner.read_file(path)
        if answer is not None:
            try:
                self.recording.files[path] = answer.decode("utf-8")
            except UnicodeDecodeError:
                self.recording.binary_files[path] = answer.hex()
        return answer

    def list_directory(self, path: str) -> tuple[str, ...]:
        answer = self._inner.list_directory(path)
        self.recording.directories[path] = list(answer)
        return answer

    def run_tool(self, command: tuple[str, ...]) -> str:
        answer = self._inner.run_tool(command)
        self.recording.tools[" ".join(command)] = answer
        return answer


class RecordedHardware:
    """Answers hardware questions out of a recording of another machine; tests change `recording` to let time pass."""

    def __init__(self, recording: HardwareRecording) -> None:
        self.recording = recording

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> RecordedHardware:
        """Make one from a decoded JSON document."""
        return cls(HardwareRecording(**document))

    def read_platform(self) -> PlatformFacts:
        return PlatformFacts(**self.recording.platform)

    def read_cpu(self) -> CpuFacts:
        return CpuFacts(**self.recording.cpu)

    def read_memory(self) -> MemoryFacts:
        if not self.recording.memory:
            raise HardwareUnreadable("The machine's memory could not be read.")
        return MemoryFacts(**self.recording.memory)

    def read_nvml(self) -> NvmlReading:
        answer = self.recording.nvml
        if answer is None:
            raise NvmlNotInstalled
        if "failure" in answer:
            raise HardwareUnreadable(answer["failure"], hint=answer.get("hint"))
        devices = tuple(NvmlDevice(**device) for device in answer.get("devices", ()))
        return NvmlReading(
            driver_version=answer.get("driver_version"),
            cuda_version=answer.get("cuda_version"),
            devices=devices,
            warnings=tuple(answer.get("warnings", ())),
        )

    def read_file(self, path: str) -> bytes | None:
        if path in self.recording.binary_files:
            return bytes.fromhex(self.recording.binary_files[path])
        text = self.recording.files.get(path)
        return None if text is None else text.encode()

    def list_directory(self, path: str) -> tuple[str, ...]:
        """Return the recorded list and the names that follow from the recorded files."""
        start = path.rstrip("/") + "/"
        paths = (*self.recording.files, *self.recording.binary_files)
        below = {known[len(start) :].partition("/")[0] for known in paths if known.startswith(start)}
        return tuple(sorted(below.union(self.recording.directories.get(path, ()))))

    def run_tool(self, command: tuple[str, ...]) -> str:
        line = " ".join(command)
        if line not in self.recording.tools:
            raise HardwareUnreadable(f"{command[0]} is not installed.")
        return self.recording.tools[line]
