"""Every test runs on the loop of production and on the standard library's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
import uvloop

from corral.adapters.engines import HttpEngineClient
from tests.support.engines import MisbehavingEngine, run_misbehaving_engine


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def engines() -> AsyncIterator[HttpEngineClient]:
    """Fail the test on an error inside a callback, which asyncio reports to the loop only."""
    wrong: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
    service = HttpEngineClient()
    await service.start()
    yield service
    await service.stop()
    assert not wrong


@pytest.fixture
async def engine() -> AsyncIterator[MisbehavingEngine]:
    async with run_misbehaving_engine() as running:
        yield running
