"""One scene a test; at its end no process of it is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corral.adapters.system import SystemClock
from corral.worker.processes.system_process_control import SystemProcessControl
from tests.worker.processes.scene import Scene


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    made = Scene(root=tmp_path)
    yield made
    for supervisor in made.supervisors:
        await supervisor.stop()
    left = await made.leftovers()
    machine = SystemProcessControl(SystemClock())
    for marker in left:
        await machine.kill(None, marker)
    assert left == frozenset()
