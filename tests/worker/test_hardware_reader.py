"""What is read when, on recorded machines."""

from __future__ import annotations

from pathlib import Path

from structlog.testing import capture_logs

from corral.worker.hardware.hardware_source import HardwareRecording, RecordedHardware
from corral.worker.hardware_reader import REDETECT_S, LocalHardwareReader
from tests.simulation.clock import SimClock
from tests.simulation.run import simulate
from tests.simulation.virtual_loop import VirtualLoop

GIB = 1 << 30


def _machine() -> RecordedHardware:
    return RecordedHardware(
        HardwareRecording(
            platform={"system": "linux", "architecture": "x86_64"},
            cpu={"physical": 4, "logical": 8},
            memory={"total_bytes": 16 * GIB, "available_bytes": 8 * GIB},
            nvml={"failure": "The NVIDIA driver does not respond.", "hint": "Restart it."},
        )
    )


DRIVER = {
    "driver_version": "580.1",
    "cuda_version": "13.0",
    "devices": [{"index": 0, "name": "RTX 3090", "memory_bytes_total": 24 * GIB, "memory_bytes_free": 20 * GIB}],
}


def test_hardware_that_could_not_be_read_is_logged_once_and_read_again_later(tmp_path: Path):
    async def scenario(loop: VirtualLoop) -> None:
        machine, clock = _machine(), SimClock(loop)
        readings = LocalHardwareReader(machine, models_dir=tmp_path, capability=None, clock=clock)
        with capture_logs() as lines:
            for _ in range(3):
                assert (await readings.read())["gpu_vendor"] is None
        assert len([line for line in lines if "driver does not respond" in str(line.get("problem"))]) == 1
        machine.recording.nvml = DRIVER
        assert (await readings.read())["gpu_vendor"] is None
        await clock.sleep(REDETECT_S)
        assert (await readings.read())["total_vram"] == 24 * GIB

    simulate(0, scenario)


def test_free_memory_and_disk_are_read_each_time(tmp_path: Path):
    async def scenario(loop: VirtualLoop) -> None:
        machine = _machine()
        readings = LocalHardwareReader(machine, models_dir=tmp_path, capability="cpu", clock=SimClock(loop))
        first = await readings.read()
        assert first["capability"] == "cpu"
        assert isinstance(first["available_disk"], int)
        machine.recording.memory["available_bytes"] = 3 * GIB
        assert (await readings.read())["available_ram"] == 3 * GIB

    simulate(0, scenario)
