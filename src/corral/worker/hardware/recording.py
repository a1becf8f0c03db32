"""A machine's answers as a file: record them there, replay them here.

`RecordingMachine` notes every answer that detection asked for; `RecordedMachine` gives the same answers anywhere. That
is how a detector is tested on hardware that is not at hand, and how a wrong reading can be sent in a report. Limit: a
recording knows only the questions of the version that made it; everything else is "not there".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from corral.worker.hardware.machine import (
    CpuFacts,
    Machine,
    MemoryFacts,
    NvmlAbsent,
    NvmlDevice,
    NvmlReading,
    PlatformFacts,
    ReadingFailed,
)


@dataclass(slots=True, kw_only=True)
class Recording:
    """Plain data, ready for JSON. Files with bytes that are no text are kept in hexadecimal."""

    platform: dict[str, Any] = field(default_factory=dict)
    cpu: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    nvml: dict[str, Any] | None = None
    files: dict[str, str] = field(default_factory=dict)
    binary_files: dict[str, str] = field(default_factory=dict)
    directories: dict[str, list[str]] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)


class RecordingMachine:
    """Passes every question on and notes the answer."""

    def __init__(self, inner: Machine) -> None:
        self._inner = inner
        self.recording = Recording()

    def platform(self) -> PlatformFacts:
        answer = self._inner.platform()
        self.recording.platform = asdict(answer)
        return answer

    def cpu(self) -> CpuFacts:
        answer = self._inner.cpu()
        self.recording.cpu = asdict(answer)
        return answer

    def memory(self) -> MemoryFacts:
        answer = self._inner.memory()
        self.recording.memory = asdict(answer)
        return answer

    def nvml(self) -> NvmlReading:
        try:
            answer = self._inner.nvml()
        except NvmlAbsent:
            self.recording.nvml = None
            raise
        except ReadingFailed as failure:
            self.recording.nvml = {"failure": failure.message, "hint": failure.hint}
            raise
        self.recording.nvml = asdict(answer)
        return answer

    def read(self, path: str) -> bytes | None:
        answer = self._inner.read(path)
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

    def run(self, command: tuple[str, ...]) -> str:
        answer = self._inner.run(command)
        self.recording.tools[" ".join(command)] = answer
        return answer


class RecordedMachine:
    """Answers out of a recording; tests change `recording` to let time pass."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> RecordedMachine:
        """From a decoded JSON document."""
        return cls(Recording(**document))

    def platform(self) -> PlatformFacts:
        return PlatformFacts(**self.recording.platform)

    def cpu(self) -> CpuFacts:
        return CpuFacts(**self.recording.cpu)

    def memory(self) -> MemoryFacts:
        if not self.recording.memory:
            raise ReadingFailed("The machine's memory could not be read.")
        return MemoryFacts(**self.recording.memory)

    def nvml(self) -> NvmlReading:
        answer = self.recording.nvml
        if answer is None:
            raise NvmlAbsent
        if "failure" in answer:
            raise ReadingFailed(answer["failure"], hint=answer.get("hint"))
        devices = tuple(NvmlDevice(**device) for device in answer.get("devices", ()))
        return NvmlReading(
            driver_version=answer.get("driver_version"),
            cuda_version=answer.get("cuda_version"),
            devices=devices,
            warnings=tuple(answer.get("warnings", ())),
        )

    def read(self, path: str) -> bytes | None:
        if path in self.recording.binary_files:
            return bytes.fromhex(self.recording.binary_files[path])
        text = self.recording.files.get(path)
        return None if text is None else text.encode()

    def list_directory(self, path: str) -> tuple[str, ...]:
        """The recorded list and the names that follow from the recorded files."""
        start = path.rstrip("/") + "/"
        paths = (*self.recording.files, *self.recording.binary_files)
        below = {known[len(start) :].partition("/")[0] for known in paths if known.startswith(start)}
        return tuple(sorted(below.union(self.recording.directories.get(path, ()))))

    def run(self, command: tuple[str, ...]) -> str:
        line = " ".join(command)
        if line not in self.recording.tools:
            raise ReadingFailed(f"{command[0]} is not installed.")
        return self.recording.tools[line]
