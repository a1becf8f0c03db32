"""Room for model files."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from corral.worker.hardware import DiskReading, detect_hardware, make_hardware_report, read_disk
from corral.worker.hardware.local_hardware import CallTimeLimiter
from tests.unit.worker.hardware.helpers import GIB, recorded


def test_directory_that_does_not_exist_yet_is_measured_at_its_nearest_parent(tmp_path: Path):
    disk = read_disk(tmp_path / "not" / "yet" / "models")

    assert disk is not None
    assert disk.total_bytes == shutil.disk_usage(tmp_path).total
    assert 0 <= disk.available_bytes <= disk.total_bytes


def test_link_to_a_disk_that_is_not_mounted_is_unknown(tmp_path: Path):
    (tmp_path / "models").symlink_to(tmp_path / "unmounted")

    assert read_disk(tmp_path / "models") is None
    assert read_disk(tmp_path / "models" / "qwen") is None


def test_path_that_no_system_can_hold_is_unknown():
    assert read_disk(Path("a\0b")) is None
    assert read_disk(Path("/" + "x" * 100_000)) is None


def test_mount_that_hangs_is_unknown(tmp_path: Path):
    """The first call under this name never ends; the second is refused at once instead of waiting behind it."""
    release = threading.Event()
    patience = CallTimeLimiter(10)
    started = threading.Event()

    def hang() -> None:
        started.set()
        release.wait()

    blocked = threading.Thread(target=lambda: patience.call(f"the disk of {tmp_path}", hang))
    blocked.start()
    started.wait(10)

    assert read_disk(tmp_path, limiter=patience) is None

    release.set()
    blocked.join(10)


def test_full_disk_reports_zero_and_an_unreadable_one_nothing():
    reading = detect_hardware(recorded("no-gpu-server"), None)

    full = make_hardware_report(reading, DiskReading(total_bytes=10 * GIB, available_bytes=0))
    unknown = make_hardware_report(reading, None)

    assert (full["total_disk"], full["available_disk"]) == (10 * GIB, 0)
    assert (unknown["total_disk"], unknown["available_disk"]) == (None, None)
