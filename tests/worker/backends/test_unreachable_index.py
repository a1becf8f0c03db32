"""A package index that cannot be reached is reported in one sentence, and the output of uv in the lines after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from corral.transfer.faults import SourceFailed
from tests.support.ports import find_free_port
from tests.support.proxies import refusing_proxy
from tests.worker.backends.scene import Scene, plain_environment, pypi_build, sha256, wheel_of

pytestmark = pytest.mark.behaviour("INS-39")


async def failure_of(scene: Scene, **environment: str) -> tuple[str, str]:
    """Return the sentence of an installation that fails, and the lines after it."""
    quick = {"UV_HTTP_RETRIES": "0", "UV_NO_CONFIG": "1"}
    scene.options = replace(scene.options, environment=plain_environment() | quick | environment)
    scene.installer = scene.restarted()
    with pytest.raises(SourceFailed) as caught:
        await scene.install(pypi_build("engine==1.0", module="engine"))
    assert caught.value.slug == "source_unavailable"
    sentence, _, more = caught.value.message.partition("\n")
    return sentence, more


async def test_install_says_that_the_index_refuses_the_connection(scene: Scene) -> None:
    sentence, more = await failure_of(scene, UV_DEFAULT_INDEX=f"http://127.0.0.1:{find_free_port()}/simple")
    assert sentence == "This machine cannot reach 127.0.0.1: the connection was refused."
    assert "tcp connect error" in more, "what uv said stays with the operation"


async def test_install_says_that_the_name_of_the_index_cannot_be_resolved(scene: Scene) -> None:
    sentence, _ = await failure_of(scene, UV_DEFAULT_INDEX="https://index.invalid/simple")
    assert sentence == "This machine cannot reach index.invalid: its name cannot be resolved."


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ("403 Forbidden", "the proxy refuses"),
        ("407 Proxy Authentication Required", "the proxy requires a user and a password (407)"),
    ],
)
async def test_install_says_that_a_proxy_refuses(scene: Scene, status: str, cause: str) -> None:
    async with refusing_proxy(status) as proxy:
        sentence, _ = await failure_of(
            scene, UV_DEFAULT_INDEX="https://index.invalid/simple", HTTPS_PROXY=f"http://{proxy}"
        )
    assert sentence == f"This machine cannot reach index.invalid through the proxy {proxy}: {cause}."


async def test_install_says_that_no_proxy_answers_at_its_address(scene: Scene) -> None:
    proxy = f"127.0.0.1:{find_free_port()}"
    sentence, _ = await failure_of(
        scene, UV_DEFAULT_INDEX="https://index.invalid/simple", HTTPS_PROXY=f"http://{proxy}"
    )
    assert sentence == f"This machine cannot reach index.invalid through the proxy {proxy}: the connection was refused."


@pytest.mark.parametrize("is_promised", [False, True], ids=["plain", "with-hash"])
async def test_install_takes_wheels_of_a_folder_when_there_is_no_index(
    scene: Scene, tmp_path: Path, is_promised: bool
) -> None:
    wheels, wheel = tmp_path / "wheels", wheel_of("engine", "1.0", "from a folder")
    wheels.mkdir()
    (wheels / "engine-1.0-py3-none-any.whl").write_bytes(wheel)
    environment = plain_environment() | {"UV_OFFLINE": "1", "UV_FIND_LINKS": str(wheels)}
    scene.options = replace(scene.options, environment=environment)
    scene.installer = scene.restarted()
    promise = f" --hash=sha256:{sha256(wheel)}" if is_promised else ""
    await scene.install(pypi_build(f"engine==1.0{promise}", module="engine"))
    assert await scene.says() == "from a folder"
