"""One scene a test; at its end no process of it is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.worker.processes.scene import Scene


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    made = Scene(root=tmp_path)
    yield made
    for supervisor in made.supervisors:
        await supervisor.stop()
    assert await made.leftovers() == frozenset()
