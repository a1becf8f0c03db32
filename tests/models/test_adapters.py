"""LoRA adapters in the catalog: what fits a base, what is refused, and what a base's engines load at each moment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.quantization.scene import add_model, upload
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.tiny_gguf import ModelShape, write_tiny_gguf
from tests.support.tiny_lora import write_tiny_lora

CONFIG = "/api/models/config"


@dataclass
class AdapterScene:
    """A frontend with the model `base` in its library."""

    frontend: RunningFrontend
    folder: Path

    async def put(self, name: str, *, seed: int = 1, base: str = "base", **more: Any) -> tuple[int, Any]:
        lora = {key: more.pop(key) for key in ("shape", "architecture") if key in more}
        content = write_tiny_lora(self.folder / f"{name}.gguf", seed=seed, **lora).read_bytes()
        config = {"base": base, "adapter": f"upload:{await upload(self.frontend, content)}"} | more
        return await self.frontend.call("PUT", f"{CONFIG}/{name}", config)

    async def add(self, name: str, **more: Any) -> None:
        status, saved = await self.put(name, **more)
        assert status == 200, saved

    async def show(self, name: str) -> Any:
        status, model = await self.frontend.call("GET", f"{CONFIG}/{name}")
        assert status == 200, model
        return model

    async def refuse(self, name: str, **more: Any) -> tuple[int, str, str]:
        status, refused = await self.put(name, **more)
        return status, refused["error"]["code"], refused["error"]["message"]


@pytest.fixture
async def scene(database_url: str, tmp_path: Path) -> AsyncIterator[AdapterScene]:
    async with running_frontend(database_url, library_dir=tmp_path / "library") as frontend:
        await add_model(frontend, "base", write_tiny_gguf(tmp_path / "base.gguf").read_bytes())
        yield AdapterScene(frontend, tmp_path)


@pytest.mark.behaviour("ADAPT-5")
async def test_base_says_which_adapters_its_engines_load(scene: AdapterScene) -> None:
    before = (await scene.show("base"))["run_hash"]
    await scene.add("style")
    base, style = await scene.show("base"), await scene.show("style")
    assert (base["adapters"], style["base"], style["backend"]) == (["style"], "base", "llama-cpp")
    assert style["facts"]["kind"] == "lora"
    # An engine that runs already has not loaded it.
    assert base["run_hash"] != before
    with_one = base["run_hash"]
    await scene.add("tone", seed=2)
    assert (await scene.show("base"))["adapters"] == ["style", "tone"]
    assert (await scene.frontend.call("PUT", "/models/toggle-state/tone/disable"))[0] == 200
    assert (await scene.show("base"))["run_hash"] == with_one
    # What no engine notices of an adapter reloads nothing.
    status, _ = await scene.frontend.call("PATCH", f"{CONFIG}/style", {"defaults": {"temperature": 0.1}})
    assert (status, (await scene.show("base"))["run_hash"]) == (200, with_one)
    assert (await scene.frontend.call("DELETE", f"{CONFIG}/style"))[0] == 200
    assert (await scene.show("base"))["run_hash"] == before


@pytest.mark.behaviour("ADAPT-6")
async def test_adapter_that_does_not_fit_is_refused_and_its_base_goes_on_without_it(scene: AdapterScene) -> None:
    wide = ModelShape(width=128)
    assert (await scene.refuse("wide", shape=wide))[:2] == (422, "adapter_misfit")
    assert "made for another model" in (await scene.refuse("wide", shape=wide))[2]
    status, code, sentence = await scene.refuse("foreign", architecture="qwen2")
    assert (status, code) == (422, "adapter_misfit")
    assert "architecture qwen2" in sentence
    whole = await upload(scene.frontend, write_tiny_gguf(scene.folder / "whole.gguf", seed=3).read_bytes())
    status, refused = await scene.frontend.call(
        "PUT", f"{CONFIG}/whole", {"base": "base", "adapter": f"upload:{whole}"}
    )
    assert (status, refused["error"]["code"]) == (422, "adapter_misfit")
    for name in ("wide", "foreign", "whole"):
        assert (await scene.frontend.call("GET", f"{CONFIG}/{name}"))[0] == 404
    assert (await scene.show("base"))["adapters"] == []


@pytest.mark.behaviour("ADAPT-6")
async def test_adapter_whose_base_is_missing_or_an_adapter_is_refused(scene: AdapterScene) -> None:
    assert (await scene.refuse("style", base="absent"))[:2] == (422, "base_not_found")
    await scene.add("style")
    assert (await scene.refuse("second", base="style"))[:2] == (422, "bad_adapter")
    status, refused = await scene.frontend.call("PATCH", f"{CONFIG}/style", {"base": "style"})
    assert (status, refused["error"]["code"]) == (422, "bad_adapter")
    # The base of others becomes no adapter: no two models wait for each other.
    await add_model(scene.frontend, "other", write_tiny_gguf(scene.folder / "other.gguf", seed=4).read_bytes())
    status, code, sentence = await scene.refuse("base", base="other")
    assert (status, code) == (409, "model_has_adapters")
    assert "style" in sentence


@pytest.mark.behaviour("ADAPT-6")
async def test_engine_that_takes_no_adapters_is_named(scene: AdapterScene) -> None:
    await add_model(scene.frontend, "fake", write_tiny_gguf(scene.folder / "fake.gguf").read_bytes(), backend="fake")
    status, code, sentence = await scene.refuse("style", base="fake")
    assert (status, code) == (422, "adapters_not_supported")
    assert "fake" in sentence
    await scene.add("style")
    status, refused = await scene.frontend.call("PATCH", f"{CONFIG}/base", {"backend": "fake"})
    assert (status, refused["error"]["code"]) == (422, "adapters_not_supported")


@pytest.mark.behaviour("ADAPT-4")
async def test_base_with_adapters_is_not_deleted_and_keeps_them_when_it_is_renamed(scene: AdapterScene) -> None:
    await scene.add("style")
    status, refused = await scene.frontend.call("DELETE", f"{CONFIG}/base")
    assert (status, refused["error"]["code"]) == (409, "model_has_adapters")
    assert refused["error"]["details"]["adapters"] == ["style"]
    status, saved = await scene.frontend.call(
        "POST", "/api/models/rename", {"names": {"base": "ground", "style": "manner"}}
    )
    assert status == 200, saved
    assert ((await scene.show("ground"))["adapters"], (await scene.show("manner"))["base"]) == (["manner"], "ground")


@pytest.mark.behaviour("ADAPT-7")
async def test_what_an_adapter_shares_with_its_base_is_refused_with_its_name(scene: AdapterScene) -> None:
    await scene.add("style")
    status, refused = await scene.put("second", options={"context_size": "64"})
    assert (status, refused["error"]["code"]) == (400, "bad_model")
    assert "set it there" in refused["error"]["hint"]
    status, refused = await scene.frontend.call("PUT", "/api/rules/style", {"min_replicas": 1})
    assert (status, refused["error"]["code"]) == (409, "is_adapter")
    status, refused = await scene.frontend.call("PUT", "/models/toggle-pinned/style/pin")
    assert (status, refused["error"]["code"]) == (409, "is_adapter")
    status, refused = await scene.frontend.call("POST", "/api/models/style/unload")
    assert (status, refused["error"]["code"]) == (409, "is_adapter")
    status, refused = await scene.frontend.call("PATCH", f"{CONFIG}/base", {"options": {"adapters": "x"}})
    assert (status, refused["error"]["code"]) == (400, "bad_model")


@pytest.mark.behaviour("ADAPT-5")
async def test_load_of_an_adapter_is_the_load_of_its_base(scene: AdapterScene) -> None:
    await scene.add("style")
    status, plan = await scene.frontend.call("POST", "/api/models/style/load?plan=true")
    assert (status, plan["model"]) == (200, "base"), plan
    status, admitted = await scene.frontend.call("POST", "/api/models/style/load")
    assert (status, admitted["name"]) == (202, "base"), admitted


@pytest.mark.behaviour("ADAPT-5")
async def test_fleet_file_brings_a_base_before_its_adapters_and_removes_it_after_them(scene: AdapterScene) -> None:
    files = {
        name: await upload(scene.frontend, write(scene.folder / f"{name}.gguf", seed=7).read_bytes())
        for name, write in (("zero", write_tiny_gguf), ("alpha", write_tiny_lora))
    }
    fleet = {
        "models": [
            {"name": "alpha", "base": "zero", "adapter": f"upload:{files['alpha']}"},
            {"name": "zero", "backend": "llama-cpp", "files": [{"path": "z.gguf", "uri": f"upload:{files['zero']}"}]},
        ]
    }
    status, applied = await scene.frontend.call("POST", "/api/fleet", fleet)
    assert status == 200, applied
    assert (await scene.show("alpha"))["base"] == "zero"
    status, applied = await scene.frontend.call("POST", "/api/fleet?prune=true", {"models": []})
    assert status == 200, applied
    assert (await scene.frontend.call("GET", f"{CONFIG}/zero"))[0] == 404
