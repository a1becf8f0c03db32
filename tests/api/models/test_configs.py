"""Configurations over HTTP: YAML and JSON, conditional revisions, LocalAI-compatible routes, refused callers."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
import yarl

from tests.api.models.refusals import assert_refused
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.nodes import join_node
from tests.support.polling import eventually

CHAT = {"backend": "fake", "options": {"slots": 2}, "aliases": ["c"]}


def at(frontend: RunningFrontend, path: str, name: str) -> str:
    return f"{path}/{quote(name, safe='')}"


async def put(frontend: RunningFrontend, name: str = "chat", body: Any = None, **headers: str) -> tuple[int, Any]:
    return await frontend.call("PUT", at(frontend, "/api/models/config", name), body or CHAT, **headers)


async def get(frontend: RunningFrontend, name: str = "chat") -> Any:
    status, answer = await frontend.call("GET", at(frontend, "/api/models/config", name))
    assert status == 200, answer
    return answer


async def test_model_is_written_and_read_by_name_and_alias(frontend: RunningFrontend):
    status, made = await put(frontend)
    assert (status, made["created"], made["revision"], made["pending_cleanup"]) == (200, True, 1, False)
    found = await get(frontend, "c")
    assert (found["name"], found["revision"], found["run_hash"]) == ("chat", 1, made["config_revision"])
    assert found["config"] == {"name": "chat"} | CHAT | {"options": {"slots": "2"}}
    assert (found["files"], found["replicas"], found["has_rule"]) == ([], [], False)
    status, listed = await frontend.call("GET", "/api/models/configs")
    assert [one["name"] for one in listed] == ["chat"]
    status, same = await put(frontend, "c")
    assert (status, same["changes"], same["revision"]) == (200, [], 1)


@pytest.mark.parametrize("name", ["a/b", "a#b#1", "meta/llama:8b", "revisions", "x/revisions", "é ü"])
async def test_names_with_every_character_survive_the_address(frontend: RunningFrontend, name: str):
    async def call(method: str, path: str, **more: Any) -> tuple[int, Any]:
        url = yarl.URL(f"{frontend.url}{path}/{quote(name, safe='')}", encoded=True)
        async with frontend.http.request(
            method, url, headers={"Authorization": f"Bearer {ADMIN_KEY}"}, **more
        ) as answer:
            return answer.status, await answer.json()

    assert (await call("PUT", "/api/models/config", json={"backend": "fake"}))[0] == 200
    assert (await call("GET", "/api/models/config"))[1]["name"] == name
    assert len((await call("GET", "/api/models/revisions"))[1]) == 1
    assert (await call("PATCH", "/api/models/config", json={"threads": 2}))[1]["revision"] == 2
    assert (await call("GET", "/api/models/diff"))[1]["changes"] == ["+ threads: 2"]
    assert (await call("DELETE", "/api/models/config"))[0] == 200
    assert (await call("GET", "/api/models/config"))[0] == 404


async def test_body_may_be_yaml(frontend: RunningFrontend):
    text = "backend: fake\noptions:\n  slots: 3\n"
    status, answer = await put(frontend, body=text, Content_Type="application/yaml")
    assert status == 200, answer
    assert (await get(frontend))["config"]["options"] == {"slots": "3"}
    status, answer = await put(frontend, body="backend: [", Content_Type="application/yaml")
    assert_refused((status, answer), 400, "bad_document")
    assert "line" in answer["error"]["message"]
    for body in ("- a", "7"):
        status, answer = await put(frontend, body=body, Content_Type="text/yaml")
        assert_refused((status, answer), 400, "bad_model")


@pytest.mark.behaviour("MOD-9")
async def test_revision_that_was_seen_is_held_against_the_present_one(frontend: RunningFrontend):
    await put(frontend)
    async with frontend.http.get(
        f"{frontend.url}/api/models/config/chat", headers={"Authorization": f"Bearer {ADMIN_KEY}"}
    ) as answer:
        etag = answer.headers["ETag"]
    assert etag == '"1"'
    status, answer_ = await put(frontend, body=CHAT | {"threads": 1}, If_Match=etag)
    assert (status, answer_["revision"]) == (200, 2)
    status, answer_ = await put(frontend, body=CHAT | {"threads": 2}, If_Match=etag)
    assert_refused((status, answer_), 409, "revision_conflict")
    assert answer_["error"]["details"] == {"revision": 2}
    status, answer_ = await put(frontend, If_None_Match="*")
    assert_refused((status, answer_), 409, "model_name_taken")
    status, answer_ = await put(frontend, If_Match="x")
    assert_refused((status, answer_), 400, "bad_revision")
    status, answer_ = await put(frontend, "new", {"backend": "fake"}, If_Match="3")
    assert_refused((status, answer_), 404, "model_not_found")


async def test_model_rolls_back_to_a_revision_and_compares_two(frontend: RunningFrontend):
    await put(frontend)
    await frontend.call("PATCH", "/api/models/config-json/chat", {"options": {"slots": 9}})
    status, answer = await frontend.call("GET", "/api/models/diff/chat?old=1&new=2")
    assert (status, answer["changes"]) == (200, ["~ options.slots: 2 -> 9"])
    status, answer = await frontend.call("POST", "/api/models/rollback/chat", {"revision": 1})
    assert (status, answer["revision"]) == (200, 3)
    status, revisions = await frontend.call("GET", "/api/models/revisions/c")
    assert [(one["number"], one["note"]) for one in revisions] == [(3, "back to revision 1"), (2, ""), (1, "")]
    assert revisions[0]["changes"] == ["~ options.slots: 9 -> 2"]
    status, answer = await frontend.call("POST", "/api/models/rollback/chat", {"revision": 77})
    assert_refused((status, answer), 404, "revision_not_found")


@pytest.mark.behaviour("NODE-88")
async def test_rename_over_http_is_whole_or_nothing(frontend: RunningFrontend):
    await put(frontend)
    await put(frontend, "other", {"backend": "fake"})
    status, answer = await frontend.call("POST", "/api/models/rename", {"names": {"chat": "x", "other": "c"}})
    assert_refused((status, answer), 409, "model_name_taken")
    assert (await get(frontend))["revision"] == 1
    status, answer = await frontend.call("POST", "/api/models/rename", {"names": {"chat": "other", "other": "chat"}})
    assert (status, [one["name"] for one in answer]) == (200, ["other", "chat"])
    assert (await get(frontend, "c"))["name"] == "other"


async def test_localai_compatible_routes_import_edit_toggle_and_rename_models(frontend: RunningFrontend):
    status, answer = await frontend.call("POST", "/models/import", {"name": "chat"} | CHAT)
    assert (status, answer["created"]) == (201, True)
    status, answer = await frontend.call("PUT", "/models/toggle-state/chat/disable")
    assert (status, (await get(frontend))["enabled"]) == (200, False)
    assert {"config_revision", "pending_cleanup"} <= set(answer)
    await frontend.call("PUT", "/models/toggle-state/chat/enable")
    await frontend.call("PUT", "/models/toggle-pinned/chat/pin")
    found = await get(frontend)
    assert (found["enabled"], found["pinned"], found["revision"]) == (True, True, 4)
    status, answer = await frontend.call("PUT", "/models/toggle-pinned/chat/glue")
    assert status == 400
    text = "name: talk\nbackend: fake\n"
    status, answer = await frontend.call("POST", "/models/edit/chat", text, Content_Type="application/x-yaml")
    assert (status, answer["name"]) == (200, "talk")
    assert (await get(frontend, "talk"))["config"] == {"name": "talk", "backend": "fake"}
    status, answer = await frontend.call("GET", "/api/models/config/chat")
    assert_refused((status, answer), 404, "model_not_found")
    status, answer = await frontend.call("POST", "/models/edit/talk", {"backend": "fake", "threads": 2})
    assert (status, answer["changes"]) == (200, ["+ threads: 2"])


async def test_saving_a_model_warns_of_what_will_fail_at_its_first_load(frontend: RunningFrontend):
    _, answer = await put(frontend, body={"backend": "fake", "options": {"slot": 2}})
    assert answer["warnings"] == ["fake has no option 'slot'. Did you mean slots?"]
    _, answer = await put(frontend, body={"backend": "mine"})
    assert "No gallery has a backend 'mine'" in answer["warnings"][0]


@pytest.mark.parametrize("uri", ["http://127.0.0.1/m.gguf", "https://169.254.169.254/m.gguf", "oci://10.0.0.1/a/b:1"])
async def test_source_inside_a_network_is_refused(frontend: RunningFrontend, uri: str):
    status, answer = await put(frontend, body={"backend": "fake", "files": [{"path": "m", "uri": uri}]})
    assert_refused((status, answer), 422, "private_address")
    await put(frontend)
    status, answer = await frontend.call("PATCH", "/api/models/config/chat", {"files": [{"path": "m", "uri": uri}]})
    assert_refused((status, answer), 422, "private_address")


async def test_model_and_rule_routes_refuse_callers_without_a_key(frontend: RunningFrontend):
    routes = {
        "GET": ["/api/models", "/api/models/configs", "/api/models/config/x", "/api/models/capabilities", "/api/fleet"],
        "PUT": ["/api/models/config/x", "/models/toggle-state/x/enable", "/api/rules/x"],
        "POST": ["/api/models/rename", "/models/import", "/models/edit/x", "/api/models/install/x", "/api/fleet"],
        "DELETE": ["/api/models/config/x", "/api/rules/x"],
    }
    for method, paths in routes.items():
        for path in paths:
            status, answer = await frontend.call(method, path, {} if method != "GET" else None, key=None)
            assert (status, answer["error"]["code"]) == (401, "not_authenticated"), path


async def test_idempotent_import_happens_once(frontend: RunningFrontend):
    for _ in range(2):
        status, answer = await frontend.call(
            "POST", "/models/import", {"name": "a", "backend": "b"}, Idempotency_Key="k"
        )
        assert (status, answer["created"]) == (201, True)


async def test_capabilities_of_models_are_listed_for_every_key(frontend: RunningFrontend):
    await join_node(frontend, "a")
    await put(frontend)
    await put(frontend, "quiet", {"backend": "fake", "serves": ["embeddings"], "enabled": False})
    status, answer = await frontend.call("GET", "/api/models/capabilities")
    assert status == 200
    assert [(one["name"], one["capabilities"], one["disabled"]) for one in answer["data"]] == [
        ("chat", ["chat", "completions", "embeddings"], False),
        ("quiet", ["embeddings"], True),
    ]


async def test_model_tells_why_its_last_load_failed_until_it_is_changed(frontend: RunningFrontend):
    await join_node(frontend, "a")
    await put(frontend, "sick", {"backend": "nope"})
    status, operation = await frontend.call("POST", "/api/models/sick/load", {})
    assert status in (200, 202), operation

    async def ended() -> Any:
        _, shown = await frontend.call("GET", f"/api/operations/{operation['id']}")
        return shown if shown["state"] == "failed" else None

    failed = await eventually(ended)
    _, model = await frontend.call("GET", "/api/models/config/sick")
    assert model["load_error"] == failed["error"]
    assert model["load_failed_at"]
    _, (listed,) = await frontend.call("GET", "/api/models/configs")
    assert listed["load_error"] == failed["error"]
    _, answer = await frontend.call("GET", "/api/models/capabilities")
    assert [one["load_failed"] for one in answer["data"]] == [True]

    await put(frontend, "sick", {"backend": "nope", "options": {"context_size": "5"}})
    _, model = await frontend.call("GET", "/api/models/config/sick")
    assert model["load_error"] == ""


async def test_gallery_entry_without_files_has_no_size(frontend: RunningFrontend):
    _, answer = await frontend.call("GET", "/api/models?items=200")
    assert [one["name"] for one in answer["models"] if one["size"].startswith("0.0")] == []


@pytest.mark.behaviour("MCP-11")
async def test_only_an_admin_key_gives_a_model_a_program_as_mcp_server(frontend: RunningFrontend):
    status, made = await frontend.call("POST", "/api/keys", {"name": "op", "scope": "operate"})
    assert status == 201, made
    stdio = {"mcp": {"stdio": '{"mcpServers": {"files": {"command": "mcp-files"}}}'}}
    path = at(frontend, "/api/models/config", "chat")
    assert (await frontend.call("PUT", path, CHAT, key=made["key"]))[0] == 200
    for method, where, body in (
        ("PUT", path, CHAT | stdio),
        ("PATCH", path, stdio),
        ("POST", "/models/import", {"name": "chat"} | CHAT | stdio),
        ("POST", at(frontend, "/models/edit", "chat"), CHAT | stdio),
        ("POST", "/api/fleet", {"models": [{"name": "chat"} | CHAT | stdio]}),
    ):
        status, refused = await frontend.call(method, where, body, key=made["key"])
        assert (status, refused["error"]["code"]) == (403, "admin_required"), (method, where)
    status, saved = await frontend.call("PATCH", path, stdio)
    assert (status, saved["stopped"], saved["changes"]) == (200, 0, ["+ mcp.stdio.files.command: mcp-files"])


@pytest.mark.behaviour("MCP-11")
@pytest.mark.parametrize("is_fleet", [False, True])
async def test_mcp_servers_are_read_from_an_embedded_yaml_text(frontend: RunningFrontend, *, is_fleet: bool):
    text = "mcpServers:\n  docs:\n    url: https://tools.example/sse\n    type: sse\n    headers: {X-Team: a}\n"
    model = CHAT | {"mcp": {"remote": text}}
    if is_fleet:
        status, answer = await frontend.call("POST", "/api/fleet", {"models": {"chat": model}})
    else:
        status, answer = await put(frontend, body=model)
    assert status == 200, answer
    docs = {"url": "https://tools.example/sse", "transport": "sse", "headers": {"X-Team": "a"}}
    assert (await get(frontend))["config"]["mcp"] == {"remote": {"docs": docs}}
    status, refused = await put(frontend, body=CHAT | {"mcp": {"remote": "a: [b"}})
    assert (status, "neither JSON nor YAML" in refused["error"]["message"]) == (400, True)
