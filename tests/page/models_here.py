"""Real models for the fleets of these tests, without anything being fetched by a cluster: files as sources on it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.support.models import FetchedModel


def files_of(model: FetchedModel, folder: Path) -> list[dict[str, Any]]:
    """As the `files` of a configuration. `folder` is one that frontends may read from."""
    own = folder / model.name
    own.mkdir()
    for name in model.files:
        # A link would lead out of what frontends may read.
        shutil.copyfile(model.ensure_folder() / name, own / name)
    return [{"path": name, "uri": f"file://{own / name}", "sha256": file.sha256} for name, file in model.files.items()]
