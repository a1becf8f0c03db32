"""Files that are replaced in one step and are on the disk when that returns, closed to others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from corral.runtime import disk

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600


def free_bytes(folder: Path) -> int | None:
    """Room for an ordinary user where this folder is; None if nobody knows."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def write_json(path: Path, document: Any) -> None:
    """Replace the file in one step; on return it is on the disk."""
    disk.replace(path, json.dumps(document, indent=1, ensure_ascii=False).encode())


def is_half_written(path: Path) -> bool:
    return path.name.endswith(disk.HALF_WRITTEN)
