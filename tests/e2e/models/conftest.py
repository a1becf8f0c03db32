"""One cluster for all tests of a module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.models.scene import Models, models_of
from tests.e2e.models.system import llama_folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def models(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Models]:
    """Run two frontends and two workers, which have llama.cpp."""
    folder = tmp_path_factory.mktemp("models")
    settings = {"CORRAL_SYSTEM_BACKENDS_DIR": str(llama_folder(folder / "system"))}
    # A worker that is killed and started again on a busy machine needs longer than the lease of the other tests: its
    # node would be lost by then, and its replicas with it.
    async with models_of(folder, "worker-1", "worker-2", settings=settings, lease="20s") as scene:
        yield scene
