"""A model whose file was uploaded: its size and memory are known at once, and a broken file is refused at once."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import GIB, join_node
from tests.support.tiny_gguf import write_tiny_gguf


@pytest.fixture
async def library(database_url: str, tmp_path: Path) -> AsyncIterator[RunningFrontend]:
    """A frontend with a library."""
    async with running_frontend(database_url, library_dir=tmp_path / "library") as running:
        yield running


async def upload(frontend: RunningFrontend, content: bytes) -> str:
    sha256 = hashlib.sha256(content).hexdigest()
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    async with frontend.http.put(f"{frontend.url}/api/files/{sha256}", data=content, headers=headers) as answer:
        assert answer.status == 200
    return sha256


def config(sha256: str) -> dict[str, object]:
    return {"backend": "llama-cpp", "files": [{"path": "tiny.gguf", "uri": f"upload:{sha256}"}]}


async def test_plan_of_a_fresh_upload_knows_its_memory_and_its_bytes(library: RunningFrontend, tmp_path: Path) -> None:
    node = await join_node(library, total_ram=8 * GIB, available_ram=8 * GIB, cpu_threads=4)
    await node.heartbeat(bus_ok=True)
    content = write_tiny_gguf(tmp_path / "tiny.gguf").read_bytes()
    status, saved = await library.call("PUT", "/api/models/config/tiny", config(await upload(library, content)))
    assert status == 200, saved
    status, plan = await library.call("POST", "/api/plan", {"model": "tiny"})
    assert status == 200, plan
    (choice,) = plan["choices"]
    assert (choice["fetch_bytes"], plan["fetches_files"]) == (len(content), False)
    assert choice["ram_bytes"] > len(content)


async def test_model_with_a_broken_upload_is_refused_when_it_is_made(library: RunningFrontend, tmp_path: Path) -> None:
    content = write_tiny_gguf(tmp_path / "tiny.gguf").read_bytes()[:-1000]
    status, refused = await library.call("PUT", "/api/models/config/tiny", config(await upload(library, content)))
    assert (status, refused["error"]["code"]) == (422, "truncated_model_file")
    assert "its header speaks of" in refused["error"]["message"]
    assert (await library.call("GET", "/api/models/config/tiny"))[0] == 404


async def test_model_with_an_upload_that_is_no_gguf_file_is_refused_when_it_is_made(library: RunningFrontend) -> None:
    sha256 = await upload(library, b"These bytes are no model." * 100)
    status, refused = await library.call("PUT", "/api/models/config/tiny", config(sha256))
    assert (status, refused["error"]["code"]) == (422, "bad_model_file")
