"""The truth about the worker's machine: what it has, what is free, and one word for what it can run.

`detect` and `refresh` block for a few seconds at most and never raise because of the machine: call them in a thread.
"""

from corral.worker.hardware.detect import detect
from corral.worker.hardware.disk import read_disk
from corral.worker.hardware.machine import Machine
from corral.worker.hardware.reading import DiskReading, GpuReading, HardwareReading
from corral.worker.hardware.real import RealMachine
from corral.worker.hardware.refresh import refresh
from corral.worker.hardware.report import as_report

__all__ = [
    "DiskReading",
    "GpuReading",
    "HardwareReading",
    "Machine",
    "RealMachine",
    "as_report",
    "detect",
    "read_disk",
    "refresh",
]
