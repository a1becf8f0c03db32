"""The supervisor with llama.cpp: ready on a tiny model, and its own words about a file that is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from corral.bus.messages import StartBackend
from corral.engines import read_launcher
from corral.worker.processes.launch import LAUNCHER_NAME
from corral.worker.processes.process_control import EngineStartFailed
from tests.engines.engine_processes import LLAMA, interpreter, version_of
from tests.support.tiny_gguf import write_tiny_gguf
from tests.worker.processes.scene import NoReport, Scene


@pytest.fixture
def llama(scene: Scene) -> Scene:
    version = version_of(LLAMA)
    made = scene.install(LLAMA, version.version)
    scene.installed[LLAMA] = replace(made, manifest=version.manifest, python=str(interpreter(LLAMA, version)))
    launcher = read_launcher(version.manifest.launcher)
    assert launcher is not None
    (made.directory / LAUNCHER_NAME).write_text(launcher)
    return scene


def load_of(path: Path, revision: str = "r1") -> StartBackend:
    return StartBackend(
        job_id="j1",
        backend=LLAMA,
        model="tiny",
        model_path=str(path),
        threads=1,
        options={"context_size": "512"},
        revision=revision,
        ready_s=90.0,
    )


async def test_llama_cpp_is_ready_and_measured(llama: Scene, tmp_path: Path):
    model = write_tiny_gguf(tmp_path / "tiny.gguf")
    supervisor = await llama.start()
    process = await supervisor.start_backend(load_of(model), NoReport())
    assert (process.state, process.revision, process.threads) == ("ready", "r1", 1)
    assert process.ram_bytes is not None
    assert process.ram_bytes > 10 * 1024 * 1024
    assert process.engine_key


async def test_message_of_llama_cpp_about_a_file_that_is_no_model_is_reported(llama: Scene, tmp_path: Path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(4096))
    supervisor = await llama.start()
    with pytest.raises(EngineStartFailed, match=r"tiny#0 ended with exit code \d+ before it was ready") as caught:
        await supervisor.start_backend(load_of(broken), NoReport())
    assert caught.value.slug == "engine_failed"
    assert "broken.gguf" in caught.value.message
    assert supervisor.list_running() == ()
