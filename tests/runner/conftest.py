from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.runner.chat_server import ScriptedModel, run_scripted_model
from tests.runner.scene import Scene, run_scene


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with run_scripted_model() as scripted:
        yield scripted


@pytest.fixture
async def scene(model: ScriptedModel) -> AsyncIterator[Scene]:
    async with run_scene(model.url) as running:
        yield running
