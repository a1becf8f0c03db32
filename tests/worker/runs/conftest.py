from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from tests.worker.runs.scene import RunScene, open_scene


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The event loop of workers, whose processes and pipes are its own."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[RunScene]:
    async with open_scene(tmp_path) as opened:
        yield opened
