"""One cluster for all tests of a module: two frontends, and one worker whose engines pretend."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.models.scene import Models, models_of


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def models(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Models]:
    async with models_of(tmp_path_factory.mktemp("gateway"), "worker-1") as scene:
        yield scene
