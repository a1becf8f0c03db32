"""Room for model files.

Measured where the files would be written: on the filesystem of the models directory or, before it exists, of its
nearest existing parent. `None` means that nobody knows, for example because a network mount hangs; 0 means full.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from corral.worker.hardware.machine import ReadingFailed
from corral.worker.hardware.patience import Patience
from corral.worker.hardware.reading import DiskReading

# Shared by all calls, so that a mount that hangs costs one thread and not one for each heartbeat.
_PATIENCE = Patience(3.0)


def read_disk(models_directory: Path, *, patience: Patience = _PATIENCE) -> DiskReading | None:
    """Total and available bytes for an ordinary user; `None` when they cannot be read."""
    path = models_directory.absolute()
    try:
        return patience.call(f"the disk of {path}", lambda: _read(path))
    except (ReadingFailed, OSError, ValueError):
        return None


def _read(path: Path) -> DiskReading | None:
    for candidate in (path, *path.parents):
        try:
            usage = shutil.disk_usage(candidate)
        except (FileNotFoundError, NotADirectoryError):
            if candidate.is_symlink():
                # It points to a disk that is not mounted; the disk of the link itself is not the answer.
                return None
            continue
        total, available = max(usage.total, 0), max(usage.free, 0)
        # Filesystems without blocks, such as /proc, say 0 bytes in all.
        return DiskReading(total_bytes=total, available_bytes=min(available, total)) if total else None
    return None
