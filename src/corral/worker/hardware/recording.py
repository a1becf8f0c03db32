"""Records a machine's answers in a file, and replays them elsewhere.

`RecordingHardware` notes every answer that detection requested; `RecordedHardware` gives the same answers anywhere.
That is how a detector is tested on hardware that is not at hand, and how a wrong reading can be sent in a report.
Limit: a recording knows only the questions of the version that made it; everything else is "not there".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from corral.worker.hardware.hardware_source import (
    CpuFacts,
    HardwareSource,
    HardwareUnreadable,
    MemoryFacts,
    NvmlDevice,
    NvmlNotInstalled,
    NvmlReading,
    PlatformFacts,
)


@dataclass(slots=True, kw_only=True)
class HardwareRecording:
    """Holds a machine's recorded answers as plain data for JSON; binary files are kept in hexadecimal."""

    platform: dict[str, Any] = field(default_factory=dict)
    cpu: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    nvml: dict[str, Any] | None = None
    files: dict[str, str] = field(default_factory=dict)
    binary_files: dict[str, str] = field(default_factory=dict)
    directories: dict[str, list[str]] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)


class RecordingHardware:
    """Passes every question on to a `HardwareSource` and records the answer."""

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
    """Answers out of a recording of another machine; tests change `recording` to let time pass."""

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
