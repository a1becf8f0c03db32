"""Real engines and models for the fleets of these tests, without anything being fetched by a cluster: engines as
backends that came with the machine, files as sources on it."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from corral.engines import launcher_file
from corral.worker.processes.launch import LAUNCHER_NAME
from tests.engines.running import interpreter, version_of
from tests.support.models import Model


def add_engine(root: Path, name: str) -> None:
    """Into a folder for `system_backends_dir`."""
    version = version_of(name)
    folder = root / name
    folder.mkdir(parents=True)
    launcher = launcher_file(version.manifest.launcher)
    assert launcher is not None
    shutil.copyfile(launcher, folder / LAUNCHER_NAME)
    (folder / "venv").symlink_to(interpreter(name, version).parent.parent)
    (folder / "backend.yaml").write_text(
        json.dumps({"version": version.version, **asdict(version.manifest)}, default=dict)
    )


def files_of(model: Model, folder: Path) -> list[dict[str, Any]]:
    """As the `files` of a configuration. `folder` is one that frontends may read from."""
    own = folder / model.name
    own.mkdir()
    for name in model.files:
        # A link would lead out of what frontends may read.
        shutil.copyfile(model.folder() / name, own / name)
    return [{"path": name, "uri": f"file://{own / name}", "sha256": file.sha256} for name, file in model.files.items()]
