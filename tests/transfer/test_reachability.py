"""A host that cannot be reached is reported in one sentence with the cause: of downloads, over real connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.transfer.http_client import find_proxy
from tests.support.ports import find_free_port
from tests.support.proxies import refusing_proxy
from tests.transfer.scene import scene_of
from tests.worker.backends.scene import plain_environment

pytestmark = pytest.mark.behaviour("INS-39")


async def sentence_for(tmp_path: Path, uri: str, **environment: str) -> str:
    """Return the error when a file at this address is fetched."""
    async with scene_of(tmp_path, environment=plain_environment() | environment) as scene:
        return (await scene.refuses(uri, "source_unavailable")).message


async def test_fetch_says_that_the_connection_was_refused(tmp_path: Path) -> None:
    problem = await sentence_for(tmp_path, f"http://127.0.0.1:{find_free_port()}/model.gguf")
    assert problem == "This machine cannot reach 127.0.0.1: the connection was refused."


async def test_fetch_says_that_a_name_cannot_be_resolved(tmp_path: Path) -> None:
    problem = await sentence_for(tmp_path, "https://files.invalid/model.gguf")
    assert problem == "This machine cannot reach files.invalid: its name cannot be resolved."


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ("403 Forbidden", "the proxy refuses (403 Forbidden)"),
        ("407 Proxy Authentication Required", "the proxy requires a user and a password (407)"),
    ],
)
async def test_fetch_says_that_a_proxy_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, cause: str
) -> None:
    async with refusing_proxy(status) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:secret@{proxy}")
        problem = await sentence_for(
            tmp_path, "https://files.invalid/model.gguf", HTTPS_PROXY=f"http://user:secret@{proxy}"
        )
    assert problem == f"This machine cannot reach files.invalid through the proxy {proxy}: {cause}."


async def test_fetch_says_that_no_proxy_answers_at_its_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = f"127.0.0.1:{find_free_port()}"
    monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy}")
    problem = await sentence_for(tmp_path, "https://files.invalid/model.gguf", HTTPS_PROXY=f"http://{proxy}")
    assert problem == f"This machine cannot reach files.invalid through the proxy {proxy}: the connection was refused."


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, ""),
        ({"https_proxy": "http://u:p@proxy.example:3128"}, "proxy.example:3128"),
        ({"HTTPS_PROXY": "proxy.example:3128"}, "proxy.example:3128"),
        ({"HTTP_PROXY": "http://proxy.example:3128"}, ""),
        ({"ALL_PROXY": "http://proxy.example:3128"}, "proxy.example:3128"),
        ({"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": ".example.org"}, ""),
    ],
)
def test_find_proxy_follows_the_variables(environment: dict[str, str], proxy: str) -> None:
    assert find_proxy("https://files.example.org/x", environment) == proxy
