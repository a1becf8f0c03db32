"""Galleries and installing over HTTP: the page, variants, estimates, plans, and operations that can be followed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.backends import held
from tests.api.models.refusals import assert_refused
from tests.support.frontends import RunningFrontend
from tests.support.nodes import join_node

GIB = 1024**3


async def ask(frontend: RunningFrontend, path: str, body: Any = None, **headers: str) -> Any:
    status, answer = await frontend.call("POST", path, body, **headers)
    assert status in (200, 202), answer
    return answer


async def get(frontend: RunningFrontend, path: str) -> Any:
    status, answer = await frontend.call("GET", path)
    assert status == 200, answer
    return answer


async def test_gallery_page_has_the_shape_of_localai(frontend: RunningFrontend):
    page = await get(frontend, "/api/models?items=100")
    names = [one["name"] for one in page["models"]]
    assert {"smollm2-135m", "gemma-3-270m", "whisper-base", "fake-chat", "fake-chat-large"} <= set(names)
    entries = {one["name"]: one for one in page["models"]}
    assert entries["fake-chat"]["has_variants"] is True
    assert "has_variants" not in entries["smollm2-135m"]
    assert entries["smollm2-135m"]["id"] == "corral@smollm2-135m"
    assert (page["availableModels"], page["installedModels"], page["currentPage"]) == (len(names), 0, 1)
    folded = await get(frontend, "/api/models?items=100&collapse_variants=true")
    assert "fake-chat-large" not in [one["name"] for one in folded["models"]]
    speech = await get(frontend, "/api/models?capability=speech")
    assert [one["name"] for one in speech["models"]] == ["piper-en-us-joe"]
    assert (await get(frontend, "/api/models?capability=voice_cloning"))["models"] == []
    assert_refused(await frontend.call("GET", "/api/models?capability=flying"), 400, "unknown_capability")
    assert (await frontend.call("GET", "/api/models?sort=colour"))[0] == 400
    assert len(await get(frontend, "/models/available")) == len(names)
    assert [one["name"] for one in await get(frontend, "/models/galleries")] == ["corral"]


@pytest.mark.behaviour("MOD-24")
async def test_installing_writes_the_model_and_its_operation_at_once(frontend: RunningFrontend):
    await held(frontend)
    admitted = await ask(frontend, "/api/models/install/fake-slow", {"name": "slow", "overrides": {"pinned": True}})
    assert admitted["jobID"] == admitted["uuid"] == admitted["id"]
    assert admitted["statusUrl"] == f"/api/models/job/{admitted['id']}"
    model = await get(frontend, "/api/models/config/slow")
    assert (model["gallery"], model["pinned"], model["revision"]) == ("corral@fake-slow", True, 1)
    page = await get(frontend, "/api/models?term=fake-slow")
    (entry,) = page["models"]
    assert (entry["installed"], entry["models"], entry["processing"], entry["jobID"]) == (
        True, ["slow"], True, admitted["id"],
    )  # fmt: skip
    again = await ask(frontend, "/api/models/install/corral@fake-slow", {"name": "slow"})
    assert (again["id"], again["deduplicated"]) == (admitted["id"], True)
    # What was changed by hand has stayed.
    assert (await get(frontend, "/api/models/config/slow"))["pinned"] is True
    job = await get(frontend, admitted["statusUrl"])
    assert (job["galleryElementName"], job["queued"], job["processed"]) == ("slow", True, False)
    assert list(await get(frontend, "/models/jobs")) == [admitted["id"]]
    assert_refused(await frontend.call("GET", f"/models/jobs/{'0' * 8}"), 404, "operation_not_found")


@pytest.mark.behaviour("MOD-24")
async def test_installing_a_model_that_is_being_loaded_joins_the_load(frontend: RunningFrontend):
    await held(frontend)
    installing = await ask(frontend, "/api/models/install/fake-slow", {"name": "slow"})
    await ask(frontend, f"/api/operations/{installing['id']}/cancel")
    loading = await ask(frontend, "/api/models/slow/load", {})
    joined_load = await ask(frontend, "/api/models/install/fake-slow", {"name": "slow"})
    assert (joined_load["id"], joined_load["deduplicated"]) == (loading["id"], True)
    assert joined_load["message"] == "The model load of slow is already running."


@pytest.mark.behaviour("MOD-24")
async def test_refused_installation_leaves_no_model(frontend: RunningFrontend):
    await frontend.call("PUT", "/api/models/config/mine", {"backend": "fake"})
    for path, body, status, code in (
        ("/api/models/install/nothing-like-it", None, 404, "model_not_in_gallery"),
        ("/api/models/install/fake-chat?variant=huge", None, 422, "unknown_variant"),
        ("/api/models/install/fake-slow", {"name": "mine"}, 409, "model_name_taken"),
        ("/api/models/install/fake-slow", {"overrides": {"bakend": 1}}, 400, "bad_model"),
        ("/models/apply", {"url": "https://files.example/x.yaml"}, 400, "bad_model"),
        ("/models/apply", {"name": "x"}, 400, "bad_model"),
        ("/models/import-uri", {"uri": "https://files.example/x.zip"}, 400, "backend_required"),
        ("/models/import-uri", {"uri": "http://127.0.0.1/x.gguf"}, 422, "private_address"),
        ("/models/import-uri", {"uri": "s3://bucket/x.gguf"}, 400, "unknown_source"),
    ):
        assert_refused(await frontend.call("POST", path, body), status, code)
    assert [one["name"] for one in await get(frontend, "/api/models/configs")] == ["mine"]
    assert (await get(frontend, "/api/operations"))["operations"] == []


@pytest.mark.behaviour("OPS-100")
async def test_plan_and_the_variants_tell_what_the_nodes_would_get(frontend: RunningFrontend):
    await join_node(frontend, "small", total_ram=GIB, capability="default")
    found = await get(frontend, "/api/models/variants/fake-chat")
    assert found["auto_selected"] == "fake-chat-large"
    assert [(one["model"], one["fits"], one["is_base"]) for one in found["variants"]] == [
        ("fake-chat", True, True),
        ("fake-chat-large", True, False),
    ]
    status, plan = await frontend.call("POST", "/api/models/install/fake-chat?plan=true&variant=fake-chat")
    assert (status, plan["plan"], plan["variant"], plan["exists"]) == (200, True, "fake-chat", False)
    assert await get(frontend, "/api/models/configs") == []
    await held(frontend)
    await ask(frontend, "/api/models/install/fake-chat?variant=fake-chat")
    pinned = await get(frontend, "/api/models/config/fake-chat")
    assert (pinned["variant"], pinned["config"]["variant_pinned"]) == ("fake-chat", True)
    # The variant that somebody has asked for stays when the entry is installed again.
    await ask(frontend, "/api/models/install/fake-chat")
    assert (await get(frontend, "/api/models/config/fake-chat"))["variant"] == "fake-chat"


async def test_estimate_is_a_number_of_bytes_or_nothing(frontend: RunningFrontend):
    await join_node(frontend, "a", total_ram=8 * GIB, capability="default")
    found = await get(frontend, "/api/models/estimate/smollm2-135m?contexts=512,8192")
    assert found["size_bytes"] == 98_362_432
    assert set(found["context"]) == {"512", "8192"}
    assert await get(frontend, "/api/models/estimate/nothing-like-it") == {"context": {}, "is_observed": False}


async def test_localai_compatible_routes_apply_import_and_delete_models(frontend: RunningFrontend):
    await held(frontend)
    admitted = await ask(frontend, "/models/apply", {"id": "corral@fake-slow", "name": "slow"})
    assert admitted["status"] == admitted["statusUrl"]
    await ask(
        frontend,
        "/models/apply",
        {"name": "own", "files": [{"filename": "m.gguf", "uri": "/m.gguf"}], "overrides": {"backend": "fake"}},
    )
    assert (await get(frontend, "/api/models/config/own"))["config"]["files"] == [{"path": "m.gguf", "uri": "/m.gguf"}]
    uri = "hf://owner/repository/tiny.gguf"
    admitted = await ask(frontend, "/models/import-uri", {"uri": uri})
    assert admitted["name"] == "tiny"
    tiny = await get(frontend, "/api/models/config/tiny")
    assert (tiny["backend"], tiny["files"]) == ("llama-cpp", None)
    deleting = await ask(frontend, "/models/delete/slow")
    assert (await get(frontend, f"/api/operations/{deleting['id']}"))["kind"] == "model_delete"


async def test_check_of_an_address_asks_its_source_and_a_plan_alone_does_not(frontend: RunningFrontend):
    body = {"uri": "hf://nobody-here/nothing/tiny.gguf"}
    status, plan = await frontend.call("POST", "/models/import-uri?plan=true", body)
    assert (status, plan["checked"]) == (200, False)
    status, answer = await frontend.call("POST", "/models/import-uri?plan=true&check=true", body)
    assert (status, answer["error"]["code"]) == (503, "source_unavailable")
    body = {"uri": "http://127.0.0.1/x.gguf"}
    status, answer = await frontend.call("POST", "/models/import-uri?plan=true&check=true", body)
    assert (status, answer["error"]["code"]) == (422, "private_address")


async def test_installation_that_is_sent_twice_happens_once(frontend: RunningFrontend):
    await held(frontend)
    first = await ask(frontend, "/api/models/install/fake-slow", Idempotency_Key="once")
    second = await ask(frontend, "/api/models/install/fake-slow", Idempotency_Key="once")
    assert first == second


@pytest.mark.parametrize(
    ("uri", "sentence", "hint"),
    [
        (
            "s3://x/y",
            "s3:// is not a supported source.",
            "Sources are https://, http://, file://, hf://, oci://, ollama://, wheel://.",
        ),
        ("hf://Qwen/Qwen3-0.6B", "backend cannot be inferred", "--backend"),
        ("hf://Qwen/Qwen3-0.6B-GGUF", "backend cannot be inferred", "hf://Qwen/Qwen3-0.6B-GGUF/FILE.gguf"),
    ],
)
async def test_refused_address_says_what_to_write_instead(
    frontend: RunningFrontend, uri: str, sentence: str, hint: str
) -> None:
    _, answer = await frontend.call("POST", "/models/import-uri", {"uri": uri})
    assert sentence in answer["error"]["message"]
    assert hint in answer["error"]["hint"]
