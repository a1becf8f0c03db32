"""Engines as backends that came with the machine: real ones, without anything being fetched by the cluster."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from corral.engines import read_launcher
from corral.worker.processes.launch import LAUNCHER_NAME
from tests.engines.engine_processes import LLAMA, interpreter, version_of


def llama_folder(root: Path) -> Path:
    """A folder for `system_backends_dir`."""
    add_engine(root, LLAMA, meta="llama-cpp")
    return root


def add_engine(root: Path, name: str, meta: str = "") -> None:
    """One more into such a folder."""
    version = version_of(name)
    folder = root / name
    folder.mkdir(parents=True)
    launcher = read_launcher(version.manifest.launcher)
    assert launcher is not None
    (folder / LAUNCHER_NAME).write_text(launcher)
    (folder / "venv").symlink_to(interpreter(name, version).parent.parent)
    described = {"version": version.version} | ({"meta": meta} if meta else {}) | asdict(version.manifest)
    (folder / "backend.yaml").write_text(json.dumps(described, default=dict))
