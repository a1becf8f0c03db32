"""Fixtures of the installer's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.worker.backends.scene import Scene
from tests.worker.backends.server import FileServer


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(root=tmp_path / "backends")


@pytest.fixture
async def files() -> AsyncIterator[FileServer]:
    async with FileServer().running() as server:
        yield server
