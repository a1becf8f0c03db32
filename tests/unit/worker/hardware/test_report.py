"""The fields on the wire."""

from __future__ import annotations

import json

import pytest

from corral.worker.hardware import DiskReading, detect_hardware, make_hardware_report
from tests.unit.worker.hardware.helpers import GIB, recorded, recorded_names


def test_every_field_of_a_machine_is_reported():
    disk = DiskReading(total_bytes=900 * GIB, available_bytes=300 * GIB)

    assert make_hardware_report(detect_hardware(recorded("nvidia-rtx-4090"), None), disk) | {"gpus": []} == {
        "total_vram": 25757220864,
        "available_vram": 24931598336,
        "total_ram": 64 * GIB - 1234567168,
        "available_ram": 50 * GIB,
        "total_disk": 900 * GIB,
        "available_disk": 300 * GIB,
        "gpu_vendor": "nvidia",
        "gpu_compute_capability": "8.9",
        "capability": "nvidia-cuda-12",
        "cpu_cores": 16,
        "cpu_threads": 32,
        "architecture": "x86_64",
        "system": "linux",
        "gpus": [],
        "unified_memory": False,
    }


def test_each_gpu_is_reported_with_what_is_known_of_it():
    gpus = make_hardware_report(detect_hardware(recorded("nvidia-rtx-4090"), None), None)["gpus"]

    assert isinstance(gpus, list)
    assert gpus[0] == {
        "vendor": "nvidia",
        "name": "NVIDIA GeForce RTX 4090",
        "index": 0,
        "total_vram": 25757220864,
        "available_vram": 24931598336,
        "compute_capability": "8.9",
        "driver": "550.144.03",
        "uuid": "GPU-6b7a1c00-3f52-4d9e-8a11-0c5d2e9f7b40",
    }


@pytest.mark.behaviour("HW-2")
def test_unknown_hardware_values_are_absent_and_never_zero():
    machine = recorded("no-gpu-server")
    machine.recording.memory = {}

    report = make_hardware_report(detect_hardware(machine, None), None)

    absent = (
        "total_vram",
        "available_vram",
        "total_ram",
        "available_ram",
        "total_disk",
        "available_disk",
        "gpu_vendor",
    )
    assert all(report[name] is None for name in absent)


@pytest.mark.parametrize("name", recorded_names())
def test_every_report_is_plain_data(name):
    report = make_hardware_report(detect_hardware(recorded(name), None), None)

    assert json.loads(json.dumps(report)) == report
