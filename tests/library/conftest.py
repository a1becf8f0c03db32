"""A library for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corral.store.database import Database
from tests.library.scene import Scene


@pytest.fixture
async def scene(database: Database, tmp_path: Path) -> AsyncIterator[Scene]:
    made = Scene(database, tmp_path / "library")
    await made.library.start()
    yield made
    await made.library.stop()
