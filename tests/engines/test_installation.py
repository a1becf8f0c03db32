"""The gallery, the worker's installer and an engine, together."""

from __future__ import annotations

from pathlib import Path

from corral.bus.messages import StartBackend
from corral.domain.backend import Build
from tests.engines.engine_processes import started, version_of
from tests.worker.backends.scene import Scene


async def test_entry_of_the_gallery_is_installed_checked_upgraded_and_runs(tmp_path: Path):
    scene = Scene(tmp_path / "backends")
    for generation, version in enumerate(("1.0.0", "2.0.0"), start=1):
        chosen = version_of("fake", version)
        build = Build(name="fake", version=version, source=chosen.source, manifest=chosen.manifest, gallery="builtin")
        await scene.install(build, generation=generation, replaces=generation > 1)
        runnable = scene.installer.find_runnable("fake")
        assert runnable is not None
        command = StartBackend(job_id="1", backend="fake", model="our-model")
        with started(runnable, command, tmp_path / f"{version}.log") as engine:
            await engine.ready()
            assert (await engine.chat("Hello")).json()["system_fingerprint"] == f"fake-{version}"
