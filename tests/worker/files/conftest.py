"""Fixtures of the tests of files on nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.worker.files.scene import Scene


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with Scene(tmp_path).running() as running:
        yield running
