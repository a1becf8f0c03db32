"""Fixtures of the tests of origins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.transfer.scene import Scene, scene_of
from tests.worker.backends.server import FileServer


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene_of(tmp_path) as made:
        yield made


@pytest.fixture
async def files() -> AsyncIterator[FileServer]:
    async with FileServer().running() as server:
        yield server
