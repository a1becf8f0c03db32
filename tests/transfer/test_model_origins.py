"""Origins as a frontend has them, made of its settings."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from corral.adapters.system import SystemClock
from corral.app.port_providers import LazyModelFileOrigins
from corral.app.settings import FrontendSettings
from corral.domain.errors import CorralError
from corral.domain.model import FilePart
from tests.transfer.hub_server import TOKEN, Hub, Repository
from tests.worker.backends.scene import plain_environment
from tests.worker.backends.server import FileServer


def settings(**more: Any) -> FrontendSettings:
    seed = f"SA{'A' * 56}"
    return FrontendSettings(
        database_url="postgresql://localhost/x", nats_url="nats://localhost", nats_account_seed=seed, **more
    )


def origins_of(given: FrontendSettings, *own: Path) -> LazyModelFileOrigins:
    return LazyModelFileOrigins(
        given, SystemClock(), random.Random(1), extra_folders=own, environment=plain_environment()
    )


async def test_folders_of_the_settings_and_the_library_s_own_are_read(tmp_path: Path) -> None:
    for name in ("one", "two", "library", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.gguf").write_bytes(b"weights")
    origins = origins_of(settings(model_paths=f"{tmp_path}/one, {tmp_path}/two"), tmp_path / "library")
    try:
        for name in ("one", "two", "library"):
            (found,) = await origins.resolve(FilePart(uri=f"{tmp_path}/{name}"))
            assert (await origins.fetch(found, tmp_path / "into", lambda *_: None)).read_bytes() == b"weights"
            await origins.forget(found, tmp_path / "into")
        with pytest.raises(CorralError) as caught:
            await origins.resolve(FilePart(uri=f"{tmp_path}/other"))
        assert caught.value.slug == "not_allowed"
    finally:
        await origins.stop()


async def test_hub_and_its_token_are_those_of_the_settings(tmp_path: Path, files: FileServer) -> None:
    async with Hub(files).running() as hub:
        hub.put("maker/closed", Repository(files={"a.gguf": b"weights"}, is_private=True))
        origins = origins_of(settings(hub_endpoint=f"{hub.url}/", hub_token=TOKEN))
        (found,) = await origins.resolve(FilePart(uri="hf://maker/closed/a.gguf"))
        assert (await origins.fetch(found, tmp_path / "into", lambda *_: None)).read_bytes() == b"weights"
        await origins.stop()


@pytest.mark.behaviour("ORG-4")
@pytest.mark.parametrize("allowed", [True, False])
async def test_private_addresses_are_a_setting(tmp_path: Path, files: FileServer, allowed: bool) -> None:
    files.put("/a.gguf", b"weights")
    origins = origins_of(settings(allow_private_sources=allowed))
    part = FilePart(uri=f"{files.url}/a.gguf")
    if allowed:
        assert (await origins.resolve(part))[0].size_bytes == 7
    else:
        with pytest.raises(CorralError) as caught:
            await origins.resolve(part)
        assert caught.value.slug == "private_address"
    await origins.stop()


@pytest.mark.parametrize(
    ("name", "value"), [("model_paths", "models"), ("hub_endpoint", "hub"), ("registry_credentials", "user:password")]
)
def test_setting_that_makes_no_sense_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(**{name: value})
    assert name in str(caught.value)


def test_making_them_imports_nothing_that_is_slow() -> None:
    program = "import sys, corral.app.port_providers; print({'aiohttp', 'huggingface_hub'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.strip() == "set()"
