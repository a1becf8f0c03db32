"""The machine that the tests run on, and what hangs on it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import psutil
import pynvml
import pytest

from corral.worker.hardware import LocalHardware, detect_hardware, refresh_hardware
from corral.worker.hardware.hardware_source import HardwareUnreadable, RecordedHardware, RecordingHardware
from corral.worker.hardware.local_hardware import CallTimeLimiter

# Far below the time that a test may take, far above what a thread needs to start.
SHORT_S = 0.05


@pytest.fixture
def wedge() -> Iterator[threading.Event]:
    """Holds calls until the test is over, so that no thread outlives it."""
    event = threading.Event()
    before = set(threading.enumerate())
    yield event
    event.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)


@pytest.mark.behaviour("HW-1")
def test_hardware_of_this_machine_is_read_without_a_failure():
    reading = detect_hardware(LocalHardware(), None)

    assert reading.system == sys.platform
    assert reading.cpu_threads >= 1
    assert reading.cpu_cores >= 1
    assert 0 < reading.ram_bytes_available <= reading.ram_bytes_total <= psutil.virtual_memory().total
    assert refresh_hardware(LocalHardware(), reading).ram_bytes_total == reading.ram_bytes_total


def test_recording_of_this_machine_replays_to_the_same_reading():
    machine = RecordingHardware(LocalHardware())
    reading = detect_hardware(machine, None)
    document = json.loads(json.dumps(asdict(machine.recording)))

    assert detect_hardware(RecordedHardware.from_document(document), None) == reading


def test_hanging_driver_is_abandoned_and_not_called_twice(wedge):
    calls = []

    def hang() -> None:
        calls.append(1)
        wedge.wait()
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    machine = LocalHardware(nvml_library=SimpleNamespace(nvmlInit=hang), driver_limit_s=SHORT_S)

    first, second = detect_hardware(machine, "default"), detect_hardware(machine, "default")

    assert any("took longer than 0.05 s" in warning for warning in first.warnings)
    assert any("still hangs" in warning for warning in second.warnings)
    assert len(calls) == 1
    assert first.ram_bytes_total > 0


def test_card_whose_files_hang_costs_a_warning_and_not_the_rest(tmp_path: Path):
    """A named pipe without a writer holds its reader, as a wedged driver does."""
    device = tmp_path / "sys/class/drm/card0/device"
    device.mkdir(parents=True)
    os.mkfifo(device / "vendor")

    reading = detect_hardware(LocalHardware(root=tmp_path, driver_limit_s=SHORT_S), None)

    with (device / "vendor").open("wb"):
        pass
    assert any("graphics cards took longer" in warning for warning in reading.warnings)
    assert reading.gpus == ()
    assert reading.ram_bytes_total > 0


def test_call_time_limiter_works_again_after_the_hung_call_returned(wedge):
    patience = CallTimeLimiter(SHORT_S)
    with pytest.raises(HardwareUnreadable, match="took longer"):
        patience.call("it", wedge.wait)
    wedge.set()
    for thread in threading.enumerate():
        if thread.name == "reading it":
            thread.join(10)

    assert patience.call("it", lambda: 7) == 7


def test_patience_passes_failures_on():
    def refuse() -> None:
        raise HardwareUnreadable("No.")

    def break_off() -> None:
        raise FileNotFoundError

    patience = CallTimeLimiter(10)
    with pytest.raises(HardwareUnreadable, match=r"No\."):
        patience.call("it", refuse)
    with pytest.raises(FileNotFoundError):
        patience.call("it", break_off)


def test_files_are_read_below_the_root_and_absent_ones_are_none(tmp_path: Path):
    machine = LocalHardware(root=tmp_path)
    card = tmp_path / "sys/class/drm/card0/device"
    card.mkdir(parents=True)
    (card / "vendor").write_text("0x1002\n")

    assert machine.read_file("/sys/class/drm/card0/device/vendor") == b"0x1002\n"
    assert machine.read_file("/sys/class/drm/card0/device/absent") is None
    assert machine.read_file("/sys/class/drm/card0/device") is None
    assert machine.read_file("/proc/absent") is None
    assert machine.list_directory("/sys/class/drm") == ("card0",)
    assert machine.list_directory("/absent") == ()
    assert machine.list_directory("/sys/class/drm/card0/device/vendor") == ()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_tool_answers_or_its_failure_is_a_sentence():
    machine = LocalHardware()

    assert machine.run_tool(("sh", "-c", "echo 42")) == "42\n"
    with pytest.raises(HardwareUnreadable, match="exit status 3"):
        machine.run_tool(("sh", "-c", "exit 3"))
    with pytest.raises(HardwareUnreadable, match="is not installed"):
        machine.run_tool(("corral-has-no-such-tool",))
