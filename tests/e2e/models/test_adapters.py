"""LoRA adapters in llama.cpp's own engine, through frontend and worker: several on one engine, each with its name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.models.scene import QUESTION, Models, models_of
from tests.e2e.models.system import llama_folder
from tests.support.frontends import ADMIN_KEY
from tests.support.tiny_gguf import write_tiny_gguf
from tests.support.tiny_lora import write_tiny_lora

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def models(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Models]:
    """Run a frontend and a worker that has llama.cpp, with a model that has two adapters."""
    folder = tmp_path_factory.mktemp("adapters")
    settings = {"CORRAL_SYSTEM_BACKENDS_DIR": str(llama_folder(folder / "system"))}
    async with models_of(folder, "worker-1", frontends=1, settings=settings, lease="20s") as scene:
        await put_base(scene, "base", folder, ("style-1", "style-2"))
        yield scene
        await scene.forget("style-1", "style-2", "base")


async def put_base(models: Models, name: str, folder: Path, adapters: Sequence[str]) -> None:
    base = write_tiny_gguf(folder / f"{name}.gguf")
    await models.put(
        name,
        backend="llama-cpp",
        files=models.file(base.name, base.read_bytes()),
        options={"context_size": "512", "parallel": "2"},
    )
    # Only what is known of its files decides whether an adapter fits.
    await models.loaded(name, "worker-1")
    for seed, adapter in enumerate(adapters, start=1):
        await put_adapter(models, adapter, name, write_tiny_lora(folder / f"{adapter}.gguf", seed=seed))


async def ask(models: Models, name: str, **more: Any) -> str:
    answer = await models.chat(name, temperature=0, max_tokens=24, **more)
    assert answer.status == 200, answer.body
    assert answer.body["model"] == name
    return str(answer.body["choices"][0]["message"]["content"])


async def put_adapter(models: Models, name: str, base: str, path: Path) -> None:
    status, answer = await models.call(
        "PUT", f"/api/models/config/{name}", {"base": base, "files": models.file(path.name, path.read_bytes())}
    )
    assert status == 200, answer

    async def is_attached() -> bool:
        return name in (await models.call("GET", f"/api/models/config/{base}"))[1]["adapters"]

    # Its files are fetched without a request for them.
    await models.look(is_attached)


@pytest.mark.behaviour("ADAPT-1")
async def test_several_adapters_answer_from_one_engine_of_their_base(models: Models) -> None:
    # A request for an adapter loads its base.
    first, second, plain = await ask(models, "style-1"), await ask(models, "style-2"), await ask(models, "base")
    assert len({plain, first, second}) == 3
    # In turns, with one cache of prompts: each answer is its own.
    for name, words in (("base", plain), ("style-1", first), ("base", plain), ("style-2", second), ("base", plain)):
        assert await ask(models, name) == words
    assert [one["model"] for one in await models.all_processes() if one["model"] != "other"] == ["base"]


@pytest.mark.behaviour("ADAPT-2")
async def test_adapter_is_streamed_counted_and_listed_under_its_own_name(models: Models) -> None:
    for name in ("base", "style-2"):
        await ask(models, name)
    async with models.stream("style-1", temperature=0, max_tokens=8) as stream:
        events = [event for event in await stream.rest() if event != "[DONE]"]
    assert {event["model"] for event in events} == {"style-1"}
    status, listed = await models.call("GET", "/v1/models")
    assert status == 200
    assert {"base", "style-1", "style-2"} <= {one["id"] for one in listed["data"]}

    async def is_counted() -> bool:
        usage = await models.cluster.running()[0].get("/api/usage?by=model")
        return {"base", "style-1", "style-2"} <= {row["model"] for row in usage["rows"]}

    await models.look(is_counted)


@pytest.mark.behaviour("ADAPT-3")
@pytest.mark.parametrize("name", ["lora", "\\u006cora", "l\\u006fra"])
async def test_request_cannot_choose_an_adapter_by_its_number(models: Models, name: str) -> None:
    body = '{"model": "base", "messages": [{"role": "user", "content": "hi"}], "' + name + '": [{"id": 0, "scale": 1}]}'
    frontend = models.cluster.running()[0]
    headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
    async with frontend.http.post(f"{frontend.url}/v1/chat/completions", data=body, headers=headers) as answer:
        refused = await answer.json()
    assert (answer.status, refused["error"]["code"]) == (400, "lora_not_allowed"), refused


@pytest.mark.behaviour("ADAPT-1")
async def test_every_dialect_reaches_the_adapter(models: Models) -> None:
    words = await ask(models, "style-1")
    messages = [{"role": "user", "content": QUESTION[0]["content"]}]
    status, answer = await models.call(
        "POST", "/v1/messages", {"model": "style-1", "messages": messages, "max_tokens": 24, "temperature": 0}
    )
    assert (status, answer["model"], answer["content"][0]["text"]) == (200, "style-1", words), answer
    status, answer = await models.call(
        "POST",
        "/api/chat",
        {"model": "style-1", "messages": messages, "stream": False, "options": {"num_predict": 24, "temperature": 0}},
    )
    assert (status, answer["message"]["content"]) == (200, words), answer


@pytest.mark.behaviour("ADAPT-4")
async def test_adapter_that_is_deleted_leaves_its_base_and_the_others(models: Models, tmp_path: Path) -> None:
    await put_base(models, "other", tmp_path, ("tone-1", "tone-2"))
    plain, second = await ask(models, "other"), await ask(models, "tone-2")
    status, refused = await models.call("DELETE", "/api/models/config/other")
    assert (status, refused["error"]["code"]) == (409, "model_has_adapters")
    assert refused["error"]["details"]["adapters"] == ["tone-1", "tone-2"]
    status, _ = await models.call("DELETE", "/api/models/config/tone-1")
    assert status == 200
    assert (await models.chat("tone-1")).status == 404
    # Its number is that of another adapter now.
    assert (await ask(models, "tone-2"), await ask(models, "other")) == (second, plain)
    await models.call("DELETE", "/api/models/config/tone-2")
    assert await ask(models, "other") == plain
    await models.forget("other")
