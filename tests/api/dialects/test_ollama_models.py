"""What Ollama's clients do about models: list and show them, load one without a prompt, unload it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import insert

from corral.store.model_schema import blobs, model_files
from tests.api.dialects.recorder import recorder
from tests.api.dialects.streams import whole
from tests.api.dialects.test_routes import AUTHORISED, cold, sentence
from tests.engines.engine_processes import Engine
from tests.serving.scene import list_rows, put_model, serve, settled
from tests.support.frontends import RunningFrontend
from tests.support.polling import eventually

__all__ = ["cold"]
FACTS = {
    "format": "gguf",
    "architecture": "llama",
    "parameters": 134_515_008,
    "quantisation": "Q4_1",
    "context_length": 8192,
    "takes_tools": True,
}
EMPTY: list[tuple[str, dict[str, Any]]] = [
    ("/api/generate", {"model": "chat"}),
    ("/api/generate", {"model": "chat:latest", "prompt": "", "stream": False, "keep_alive": "5m"}),
    ("/api/chat", {"model": "chat"}),
    ("/api/chat", {"model": "chat", "messages": [], "keep_alive": -1}),
]


async def test_model_is_listed_with_its_size_and_what_its_header_says(
    frontend: RunningFrontend, engine: Engine
) -> None:
    await serve(frontend, engine, facts=FACTS)
    async with frontend.database.transaction() as tx:
        sizes = {"a" * 64: 94_000_000, "b" * 64: 500}
        await tx.execute(insert(blobs), [{"sha256": s, "size_bytes": n, "chunks": b""} for s, n in sizes.items()])
        paths = {"model.gguf": "a" * 64, "copy.gguf": "a" * 64, "readme": "b" * 64}
        await tx.execute(insert(model_files), [{"model": "chat", "path": p, "sha256": s} for p, s in paths.items()])
    await frontend.core.gateway.router.snapshot.load()
    _, tags = await frontend.call("GET", "/api/tags")
    (listed,) = tags["models"]
    assert listed["size"] == 94_000_500
    assert listed["details"] == {
        "parent_model": "",
        "format": "gguf",
        "family": "llama",
        "families": ["llama"],
        "parameter_size": "135M",
        "quantization_level": "Q4_1",
    }


async def test_model_is_not_listed_when_no_gallery_has_its_engine_or_ollama_has_no_call_for_it(
    frontend: RunningFrontend, engine: Engine
) -> None:
    await serve(frontend, engine, backend="of-somebody-else")
    await put_model(frontend.database, "nowhere", backend="of-somebody-else")
    await put_model(frontend.database, "voice", backend="piper")
    await put_model(frontend.database, "fetched-later", backend="llama-cpp")
    await settled(frontend)
    _, tags = await frontend.call("GET", "/api/tags")
    assert [model["name"] for model in tags["models"]] == ["chat:latest", "fetched-later:latest"]


@pytest.mark.parametrize(
    ("config", "capabilities"),
    [
        ({"facts": FACTS}, ["completion", "tools"]),
        ({"facts": FACTS | {"takes_tools": False}, "options": {"projector": "x"}}, ["completion", "vision"]),
        ({}, ["completion"]),
        ({"facts": FACTS, "serves": ["embeddings"]}, ["embedding"]),
    ],
)
async def test_show_tells_the_capabilities_of_a_model(
    frontend: RunningFrontend, config: dict[str, Any], capabilities: list[str]
) -> None:
    await put_model(frontend.database, **({"backend": "llama-cpp", "serves": ["chat"]} | config))
    await settled(frontend)
    _, shown = await frontend.call("POST", "/api/show", {"model": "chat"})
    assert shown["capabilities"] == capabilities
    if config:
        assert shown["model_info"]["llama.context_length"] == 8192
        assert shown["model_info"]["general.parameter_count"] == 134_515_008


@pytest.mark.parametrize(("path", "body"), EMPTY)
async def test_request_without_a_prompt_answers_load_when_the_model_is_loaded(
    frontend: RunningFrontend, engine: Engine, path: str, body: dict[str, Any]
) -> None:
    await serve(frontend, engine)
    status, answer = await frontend.call("POST", path, body)
    assert (status, answer["done"], answer["done_reason"], answer["model"]) == (200, True, "load", body["model"])
    assert answer["message"]["content"] == "" if path == "/api/chat" else answer["response"] == ""


async def test_request_without_a_prompt_begins_a_load_when_the_model_is_cold(cold: RunningFrontend) -> None:
    await put_model(cold.database)
    await settled(cold)
    status, answer = await cold.call("POST", "/api/generate", {"model": "chat"}, prefer="wait=0")
    assert (status, "chat" in sentence("/api/generate", answer)) == (503, True)

    async def is_under_way() -> bool:
        return (await cold.call("GET", "/api/models/chat/load-status"))[0] == 200

    await eventually(is_under_way)


async def test_request_without_a_prompt_counts_against_the_limit_of_its_key(
    frontend: RunningFrontend, engine: Engine
) -> None:
    await serve(frontend, engine)
    key_body = {"name": "program", "scope": "infer", "limits": [{"requests_per_minute": 1}]}
    status, made = await frontend.call("POST", "/api/keys", key_body)
    assert status == 201, made
    await settled(frontend)
    answers = [await frontend.call("POST", "/api/generate", {"model": "chat"}, key=made["key"]) for _ in range(2)]
    assert [status for status, _ in answers] == [200, 429]


@pytest.mark.parametrize("keep_alive", [0, "0", "0s", "0m"])
async def test_keep_alive_zero_unloads_the_model_when_the_key_may_operate(
    frontend: RunningFrontend, engine: Engine, keep_alive: object
) -> None:
    await serve(frontend, engine)
    status, answer = await frontend.call("POST", "/api/generate", {"model": "chat", "keep_alive": keep_alive})
    assert (status, answer["done_reason"]) == (200, "unload")
    _, operations = await frontend.call("GET", "/api/operations")
    assert [(one["kind"], one["name"]) for one in operations["operations"]] == [("model_unload", "chat")]


async def test_keep_alive_zero_is_harmless_when_the_model_is_loaded_nowhere(frontend: RunningFrontend) -> None:
    await put_model(frontend.database)
    await settled(frontend)
    status, answer = await frontend.call("POST", "/api/chat", {"model": "chat", "keep_alive": 0})
    assert (status, answer["done_reason"]) == (200, "unload")
    assert (await frontend.call("GET", "/api/operations"))[1]["operations"] == []


async def test_keep_alive_zero_is_refused_when_the_key_may_only_ask(frontend: RunningFrontend, engine: Engine) -> None:
    await serve(frontend, engine)
    _, made = await frontend.call("POST", "/api/keys", {"name": "program", "scope": "infer"})
    body, key = {"model": "chat", "keep_alive": 0}, {"Authorization": f"Bearer {made['key']}"}
    async with frontend.http.post(f"{frontend.url}/api/generate", json=body, headers=key) as answer:
        assert (answer.status, "operate" in (await answer.json())["error"]) == (403, True)
    assert len(await list_rows(frontend.database)) == 1


async def test_repeat_penalty_reaches_the_engine_by_both_of_its_names(frontend: RunningFrontend) -> None:
    async with recorder(frontend, "llama-cpp") as engine:
        engine.answers["/v1/chat/completions"] = (200, whole({"content": "hi"}))
        body = {"model": "chat", "prompt": "x", "stream": False, "options": {"repeat_penalty": 1.1, "repeat_last_n": 9}}
        assert (await frontend.call("POST", "/api/generate", body))[0] == 200
        sent = json.loads(engine.requests[0].beginning)
        assert (sent["repeat_penalty"], sent["repetition_penalty"], sent["repeat_last_n"]) == (1.1, 1.1, 9)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/embeddings", {"input": "hi"}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}),
        ("/v1/responses", {"input": "hi"}),
    ],
)
async def test_model_name_with_latest_tag_is_accepted_by_every_openai_route(
    frontend: RunningFrontend, engine: Engine, path: str, body: dict[str, Any]
) -> None:
    await serve(frontend, engine)
    status, answer = await frontend.call("POST", path, {"model": "chat:latest"} | body)
    assert status == 200, answer


@pytest.mark.parametrize("more", [{}, {"anthropic-version": "2023-06-01"}])
async def test_name_with_latest_is_shown_as_a_model(
    frontend: RunningFrontend, engine: Engine, more: dict[str, str]
) -> None:
    await serve(frontend, engine)
    headers = AUTHORISED | more
    async with frontend.http.get(f"{frontend.url}/v1/models/chat:latest", headers=headers) as answer:
        assert (answer.status, (await answer.json())["id"]) == (200, "chat")
