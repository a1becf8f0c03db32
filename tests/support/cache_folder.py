"""A folder that is made once and kept under .cache for the next run. Parallel runs wait for the one that makes it."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from uv import find_uv_bin

CACHE = Path(__file__).parents[2] / ".cache"


def ensure_cached_folder(kind: str, name: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of `key`, filled by `make` if it is new. It exists whole or not at all."""
    shelf = CACHE / kind
    shelf.mkdir(parents=True, exist_ok=True)
    folder = shelf / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    with (shelf / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            # What was made with another key is of no use any more.
            for old in shelf.glob(f"{name}-" + "[0-9a-f]" * 16):
                shutil.rmtree(old)
            staged = shelf / f".{folder.name}.new"
            shutil.rmtree(staged, ignore_errors=True)
            staged.mkdir()
            make(staged)
            staged.rename(folder)
    return folder


def run_uv(*arguments: str | Path) -> None:
    """Run uv without its own cache: the resulting folder is the cache."""
    done = subprocess.run(
        [find_uv_bin(), *arguments, "--no-cache", "--quiet"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def write_requirements_file(folder: Path, requirements: Sequence[str]) -> Path:
    path = folder / "requirements.txt"
    path.write_text("\n".join(requirements) + "\n", encoding="utf-8")
    return path
