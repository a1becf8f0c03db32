"""Reads the worker's machine: what it has, what is free, and one word for what it can run.

`detect` and `refresh` block for a few seconds at most and never raise because of the machine: call them in a thread.
"""

from corral.worker.hardware.detect import detect_hardware, refresh_hardware
from corral.worker.hardware.hardware_source import HardwareSource
from corral.worker.hardware.local_hardware import LocalHardware, read_disk
from corral.worker.hardware.reading import DiskReading, GpuReading, HardwareReading, make_hardware_report

__all__ = [
    "DiskReading",
    "GpuReading",
    "HardwareReading",
    "HardwareSource",
    "LocalHardware",
    "detect_hardware",
    "make_hardware_report",
    "read_disk",
    "refresh_hardware",
]
