"""Repositories of the hub, read with the hub's own library."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from huggingface_hub import constants

from tests.transfer.hub_server import COMMIT, LATER, TOKEN, Hub, Repository
from tests.transfer.scene import Scene, scene_of
from tests.worker.backends import server as faulty
from tests.worker.backends.scene import sha256
from tests.worker.backends.server import FileServer

KIB = 1024
WEIGHTS = bytes(range(256)) * 2048
FILES = {
    ".gitattributes": b"*.gguf lfs",
    "README.md": b"# Tiny",
    "tiny-Q4_K_M.gguf": WEIGHTS,
    "onnx/model.onnx": b"onnx",
    "onnx/config.json": b"{}",
}
LARGE = frozenset({"tiny-Q4_K_M.gguf"})


@pytest.fixture
async def hub(files: FileServer) -> AsyncIterator[Hub]:
    async with Hub(files).running() as running:
        running.put("maker/tiny", Repository(files=dict(FILES), large=LARGE))
        yield running


@pytest.fixture
async def scene(tmp_path: Path, hub: Hub) -> AsyncIterator[Scene]:
    async with scene_of(tmp_path, hub_endpoint=hub.url, allows_private=False) as made:
        yield made


@pytest.mark.behaviour("ORG-10")
async def test_repository_is_all_its_files_at_one_commit(scene: Scene, hub: Hub) -> None:
    found = await scene.resolve("hf://maker/tiny")
    assert [(one.path, one.size_bytes, one.sha256) for one in found] == [
        ("README.md", 6, ""),
        ("onnx/config.json", 2, ""),
        ("onnx/model.onnx", 4, ""),
        ("tiny-Q4_K_M.gguf", len(WEIGHTS), sha256(WEIGHTS)),
    ]
    assert all(f"@{COMMIT}/" in one.address for one in found)
    # The branch moves on; what was found does not.
    hub.repositories["maker/tiny"].revisions = {"main": LATER}
    assert (await scene.fetch(found[3])).read_bytes() == WEIGHTS
    assert (await scene.fetch(found[2])).read_bytes() == b"onnx"
    assert f"/maker/tiny/resolve/{COMMIT}/onnx/model.onnx" in [path for path, _ in hub.requests]
    for one in found:
        await scene.origins.forget(one, scene.into)
    assert scene.left == []


@pytest.mark.behaviour("ORG-10")
async def test_file_a_folder_and_a_revision_are_named(scene: Scene, hub: Hub) -> None:
    one = await scene.one("hf://maker/tiny/tiny-Q4_K_M.gguf", sha256(WEIGHTS))
    assert (one.path, one.sha256) == ("tiny-Q4_K_M.gguf", sha256(WEIGHTS))
    assert [each.path for each in await scene.resolve("hf://maker/tiny/onnx")] == ["config.json", "model.onnx"]
    hub.repositories["maker/tiny"].revisions["refs/pr/1"] = LATER
    there = await scene.one("hf://maker/tiny@refs%2Fpr%2F1/onnx/config.json")
    assert there.address == f"hf://maker/tiny@{LATER}/onnx/config.json"
    assert (await scene.fetch(there)).read_bytes() == b"{}"


async def test_large_file_goes_on_where_it_stopped(scene: Scene, hub: Hub) -> None:
    file = hub.storage.files["/maker/tiny/tiny-Q4_K_M.gguf"]
    file.faults = [faulty.cut_after(256 * KIB)]
    assert await scene.content("hf://maker/tiny/tiny-Q4_K_M.gguf") == WEIGHTS
    assert file.ranges == [None, f"bytes={256 * KIB}-"]
    assert scene.moved[-1] == (len(WEIGHTS), len(WEIGHTS))


async def test_file_that_is_not_what_the_hub_says_is_refused(scene: Scene, hub: Hub) -> None:
    hub.storage.files["/maker/tiny/tiny-Q4_K_M.gguf"].body = bytes(len(WEIGHTS))
    await scene.refuses("hf://maker/tiny/tiny-Q4_K_M.gguf", "digest_mismatch")
    await scene.refuses("hf://maker/tiny/tiny-Q4_K_M.gguf", "digest_mismatch", sha256(b"x"))
    assert scene.left == []


@pytest.mark.behaviour("ORG-11")
async def test_hub_token_is_sent_to_the_hub_only(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.put("maker/closed", Repository(files={"a.gguf": WEIGHTS}, large=frozenset({"a.gguf"}), is_private=True))
    seen: list[str | None] = []

    async def answer(request: web.Request, file: faulty.File) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization"))
        return web.Response(body=file.body)

    hub.storage.files["/maker/closed/a.gguf"].faults = [answer]
    async with scene_of(tmp_path, hub_endpoint=hub.url, hub_token=TOKEN) as scene:
        found = await scene.one("hf://maker/closed/a.gguf")
        assert (await scene.fetch(found)).read_bytes() == WEIGHTS
        assert TOKEN not in repr(found)
    assert {token for _, token in hub.requests} == {f"Bearer {TOKEN}"}
    assert seen == [None]


@pytest.mark.behaviour("ORG-11")
async def test_token_that_lies_about_on_the_machine_is_not_used(
    scene: Scene, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_somebody")
    await scene.resolve("hf://maker/tiny")
    assert {token for _, token in hub.requests} == {None}
    assert all("corral" in agent and "torch" not in agent for agent in hub.agents)


@pytest.mark.behaviour("ORG-11")
async def test_library_does_not_look_around_on_the_machine(
    scene: Scene, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would fetch a list of programs to look for from its default hub, whatever hub is set up."""
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", False)
    monkeypatch.setattr(constants, "AGENT_HARNESSES_PATH", str(tmp_path / "list.json"))
    monkeypatch.setattr("huggingface_hub.utils._detect_agent._registry", None)
    await scene.resolve("hf://maker/tiny")
    assert [path for path, _ in hub.requests] == ["/api/models/maker/tiny"]


@pytest.mark.behaviour("ORG-11")
async def test_private_or_gated_hub_repository_is_refused_with_a_hint(scene: Scene, hub: Hub, tmp_path: Path) -> None:
    hub.put("maker/closed", Repository(files={"a.gguf": b"x"}, is_private=True))
    hub.put("maker/gated", Repository(files={"a.gguf": b"x"}, is_gated=True))
    error = await scene.refuses("hf://maker/closed/a.gguf", "not_found")
    assert "hub_token" in (error.hint or "")
    error = await scene.refuses("hf://maker/gated/a.gguf", "not_allowed")
    assert "hub_token" in (error.hint or "")
    async with scene_of(tmp_path, hub_endpoint=hub.url, hub_token="hf_other") as other:
        await other.refuses("hf://maker/gated/a.gguf", "not_allowed")
        await other.refuses("hf://maker/missing", "not_found")


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("hf://maker/missing", "not_found"),
        ("hf://maker/tiny@nowhere", "not_found"),
        ("hf://maker/tiny/none.gguf", "not_found"),
        ("hf://tiny", "invalid_request"),
        ("hf://maker/ti--ny..", "invalid_request"),
        ("hf://maker/tiny/../../x", "invalid_request"),
    ],
)
async def test_missing_hub_content_is_refused_as_not_retryable(scene: Scene, uri: str, code: str) -> None:
    assert not (await scene.refuses(uri, code)).retryable


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (web.Response(status=503), "source_unavailable"),
        (web.Response(body=faulty.PAGE, content_type="text/html"), "source_unavailable"),
        (web.Response(body=b"[]", content_type="application/json"), "source_unavailable"),
    ],
)
async def test_hub_error_is_retryable(scene: Scene, hub: Hub, fault: web.Response, code: str) -> None:
    hub.fault = fault
    assert (await scene.refuses("hf://maker/tiny", code)).retryable


async def test_unreachable_hub_is_retryable(tmp_path: Path) -> None:
    async with scene_of(tmp_path, hub_endpoint="http://127.0.0.1:9") as scene:
        assert (await scene.refuses("hf://maker/tiny", "source_unavailable")).retryable


@pytest.mark.behaviour("ORG-10")
async def test_hub_origin_names_the_extra_to_install_when_its_library_is_missing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *more: object, **named: object) -> object:
        if name.startswith("huggingface_hub"):
            raise ImportError(name)
        return real(name, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    error = await scene.refuses("hf://maker/tiny", "unsupported")
    assert "corral[hub]" in (error.hint or "")
