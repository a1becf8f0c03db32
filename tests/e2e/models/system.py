"""Engines as backends that came with the machine: real ones, without anything being fetched by the cluster."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from corral.engines import launcher_file
from corral.worker.processes.launch import LAUNCHER_NAME
from tests.engines.running import LLAMA, interpreter, version_of


def llama_folder(root: Path) -> Path:
    """A folder for `system_backends_dir`."""
    add_engine(root, LLAMA, meta="llama-cpp")
    return root


def add_engine(root: Path, name: str, meta: str = "") -> None:
    """One more into such a folder."""
    version = version_of(name)
    folder = root / name
    folder.mkdir(parents=True)
    launcher = launcher_file(version.manifest.launcher)
    assert launcher is not None
    shutil.copyfile(launcher, folder / LAUNCHER_NAME)
    (folder / "venv").symlink_to(interpreter(name, version).parent.parent)
    described = {"version": version.version} | ({"meta": meta} if meta else {}) | asdict(version.manifest)
    (folder / "backend.yaml").write_text(json.dumps(described, default=dict))
