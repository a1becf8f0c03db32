"""The second look, for heartbeats."""

from __future__ import annotations

import pytest

from corral.worker.hardware import detect_hardware, refresh_hardware
from tests.unit.worker.hardware.helpers import GIB, recorded, recorded_names


@pytest.mark.parametrize("name", recorded_names())
def test_refresh_of_an_unchanged_machine_changes_nothing_but_repeated_warnings(name):
    machine = recorded(name)
    reading = detect_hardware(machine, None)

    again = refresh_hardware(machine, refresh_hardware(machine, reading))

    assert again == reading


def test_free_memory_follows_the_machine():
    machine = recorded("nvidia-8x-h100")
    reading = detect_hardware(machine, None)
    assert machine.recording.nvml is not None
    machine.recording.nvml["devices"][1]["memory_bytes_free"] = 7 * GIB
    machine.recording.memory["available_bytes"] = 100 * GIB

    again = refresh_hardware(machine, reading)

    assert again.gpus[1].vram_bytes_available == 7 * GIB
    assert again.vram_bytes_available == 6 * 85029158912 + 7 * GIB
    assert again.ram_bytes_available == 100 * GIB
    assert (again.capability, again.vram_bytes_total) == (reading.capability, reading.vram_bytes_total)


@pytest.mark.parametrize(
    ("name", "path", "text", "available"),
    [
        ("amd-rx-7900-xtx", "/sys/class/drm/card1/device/mem_info_vram_used", "25753026560\n", 0),
        ("intel-arc-a770-i915", "/sys/class/drm/card1/lmem_avail_bytes", "1000\n", 1000),
    ],
)
def test_free_memory_of_other_vendors_follows_their_files(name, path, text, available):
    machine = recorded(name)
    reading = detect_hardware(machine, None)
    machine.recording.files[path] = text

    again = refresh_hardware(machine, reading)

    assert again.vram_bytes_available == available
    assert [gpu.name for gpu in again.gpus] == [gpu.name for gpu in reading.gpus]


@pytest.mark.parametrize("name", ["jetson-orin-nvml", "gb10-dgx-spark", "mac-mini-m2-pro"])
def test_shared_memory_follows_free_ram_without_asking_the_driver(name):
    machine = recorded(name)
    reading = detect_hardware(machine, None)
    machine.recording.nvml = {"failure": "The NVIDIA driver does not respond."}
    machine.recording.memory["available_bytes"] = 3 * GIB

    again = refresh_hardware(machine, reading)

    assert (again.vram_bytes_available, again.ram_bytes_available) == (3 * GIB, 3 * GIB)
    assert again.warnings == ()


def test_driver_that_stops_answering_makes_free_memory_unknown_until_it_answers_again():
    machine = recorded("nvidia-rtx-4090")
    reading = detect_hardware(machine, None)
    working = machine.recording.nvml
    machine.recording.nvml = {"failure": "The NVIDIA driver does not respond."}

    silent = refresh_hardware(machine, refresh_hardware(machine, reading))
    machine.recording.nvml = working
    back = refresh_hardware(machine, silent)

    assert silent.vram_bytes_available is None
    assert silent.vram_bytes_total == reading.vram_bytes_total
    assert silent.warnings == ("The NVIDIA driver does not respond.",)
    assert back == reading


def test_gpu_that_fell_off_is_not_counted_and_is_named():
    machine = recorded("nvidia-8x-h100")
    reading = detect_hardware(machine, None)
    assert machine.recording.nvml is not None
    del machine.recording.nvml["devices"][7]

    again = refresh_hardware(machine, reading)

    assert again.vram_bytes_total == 7 * 85520809984
    assert len(again.gpus) == 8
    assert again.warnings == ("GPU 7 (NVIDIA H100 80GB HBM3) is no longer reported by its driver.",)


def test_warnings_of_detection_stay():
    machine = recorded("nvidia-driver-mismatch")
    reading = detect_hardware(machine, None)

    assert refresh_hardware(machine, reading).warnings == reading.warnings


def test_memory_that_cannot_be_read_this_time_keeps_its_value_with_a_warning():
    machine = recorded("no-gpu-server")
    reading = detect_hardware(machine, None)
    machine.recording.memory = {}

    again = refresh_hardware(machine, reading)

    assert again.ram_bytes_available == reading.ram_bytes_available
    assert again.warnings == ("The machine's memory could not be read.",)
