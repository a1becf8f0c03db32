from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.embedded.cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "home")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may pass through; those of pytest are closed."""
    folder = Path(tempfile.mkdtemp(prefix="corral-test-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
