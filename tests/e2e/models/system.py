"""Engines as backends that came with the machine: real ones, without anything being fetched by the cluster."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from corral.engines import read_launcher
from corral.worker.processes.launch import LAUNCHER_NAME
from tests.engines.engine_processes import LLAMA, interpreter, version_of

# Waits while a file exists, then runs the launcher beside it.
_HOLDING_LAUNCHER = """
import pathlib, runpy, time
while pathlib.Path({hold!r}).exists():
    time.sleep(0.05)
runpy.run_path({launcher!r}, run_name="__main__")
"""


def llama_folder(root: Path, *, hold: Path | None = None) -> Path:
    """Make a folder for `system_backends_dir`. The engine does not start while the file `hold` exists."""
    add_engine(root, LLAMA, meta="llama-cpp", hold=hold)
    return root


def add_engine(root: Path, name: str, meta: str = "", *, hold: Path | None = None) -> None:
    """Add one more engine to such a folder."""
    version = version_of(name)
    folder = root / name
    folder.mkdir(parents=True)
    launcher = read_launcher(version.manifest.launcher)
    assert launcher is not None
    if hold is not None:
        held = folder / f"held_{LAUNCHER_NAME}"
        held.write_text(launcher)
        launcher = _HOLDING_LAUNCHER.format(hold=str(hold), launcher=str(held))
    (folder / LAUNCHER_NAME).write_text(launcher)
    (folder / "venv").symlink_to(interpreter(name, version).parent.parent)
    described = {"version": version.version} | ({"meta": meta} if meta else {}) | asdict(version.manifest)
    (folder / "backend.yaml").write_text(json.dumps(described, default=dict))
