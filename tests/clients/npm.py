"""Clients out of the npm registry, as their lock files have them. No script of a package runs."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from pathlib import Path

from tests.support.cache_folder import ensure_cached_folder

NODE, NPM = shutil.which("node"), shutil.which("npm")


def install_locked(source: Path) -> Path:
    """Return a folder whose `node_modules` has what the lock file in `source` names."""
    lock = (source / "package-lock.json").read_text(encoding="utf-8")
    return ensure_cached_folder("clients", source.name, lock, partial(_install, source))


def _install(source: Path, folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(source / name, folder)
    assert NPM is not None
    command = [NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
