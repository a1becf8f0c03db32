"""Files that are replaced in one step and are on the disk when that returns, closed to others."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from corral.runtime.disk import sync_folder

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
_NEW = ".new"


def free_bytes(folder: Path) -> int | None:
    """Room for an ordinary user where this folder is; None if nobody knows."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def write_json(path: Path, document: Any) -> None:
    """Replace the file in one step; on return it is on the disk."""
    # One name is enough: one process writes here, and it writes each file from one place.
    temporary = path.with_name(f"{path.name}{_NEW}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def is_half_written(path: Path) -> bool:
    return path.name.endswith(_NEW)
