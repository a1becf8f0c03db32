"""A frontend that follows the registry and leaves it alone otherwise, the fake engine, and the official client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from openai import AsyncOpenAI

from tests.engines.engine_processes import LLAMA, Engine, running
from tests.serving.scene import an_engine, keep_only_the_feed
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.tiny_gguf import write_tiny_gguf


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    async with running_frontend(database_url) as running:
        await keep_only_the_feed(running)
        yield running


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with an_engine(tmp_path) as running:
        yield running


@pytest.fixture
def llama(tmp_path: Path) -> Iterator[Engine]:
    """The real llama.cpp with a tiny model, for four sequences at a time."""
    model = write_tiny_gguf(tmp_path / "tiny.gguf")
    with running(LLAMA, tmp_path / "llama", model=model, called="chat", parallel=4, context_size=256) as engine:
        yield engine


@pytest.fixture
async def client(frontend: RunningFrontend) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{frontend.url}/v1", api_key=ADMIN_KEY, max_retries=0) as opened:
        yield opened
