"""`/api/agents`: names, owners, renaming, pausing, sharing, deletion, documents and the form."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from corral.wire.agents import AgentIn
from tests.access.test_secret_sealer import FIRST
from tests.agents.hand_worker import HandWorker, chat, create, join_worker, make_key
from tests.api.operations import assert_envelope
from tests.serving.scene import put_model
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend

CANARY = "ghp_canary0123456789ABCDEF"


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    """A frontend with a key file for secrets."""
    async with running_frontend(database_url, sealing_keys=(FIRST,)) as running:
        yield running


async def names_of(frontend: RunningFrontend, query: str = "", **more: Any) -> list[str]:
    status, found = await frontend.call("GET", f"/api/agents{query}", **more)
    assert status == 200, found
    return [agent["name"] for agent in found["items"]]


@pytest.mark.behaviour("AGENT-1")
@pytest.mark.parametrize("name", ["", "  ", "a:b", "a/b", "a\\b", "a\x00b", "..", "a..b", "import", "x" * 101])
async def test_agent_with_an_invalid_name_is_refused_and_not_stored(frontend: RunningFrontend, name: str) -> None:
    status, refused = await frontend.call("POST", "/api/agents", {"name": name, "model": "m"})
    assert status == 400, refused
    assert await names_of(frontend) == []


@pytest.mark.behaviour("AGENT-2")
async def test_two_owners_have_an_agent_of_one_name_and_never_see_the_other(frontend: RunningFrontend) -> None:
    ann, ben = [(await make_key(frontend, name))["key"] for name in ("ann", "ben")]
    made = [await create(frontend, key=key, description=key[-4:]) for key in (ann, ben)]
    status, refused = await frontend.call("POST", "/api/agents", {"name": "helper", "model": "m"}, key=ann)
    assert (status, refused["error"]["code"]) == (409, "agent_exists")
    for key, agent in zip((ann, ben), made, strict=True):
        _, shown = await frontend.call("GET", "/api/agents/helper", key=key)
        assert shown["id"] == agent["id"]
        assert await names_of(frontend, key=key) == ["helper"]
    await create(frontend, "only-ann", key=ann)
    for path in ("", "/config", "/export", "/status", "/observables", "/sse", "/threads", "/files?path=x"):
        assert (await frontend.call("GET", f"/api/agents/only-ann{path}", key=ben))[0] == 404, path
    for method, path, body in (
        ("PUT", "", {"name": "mine", "model": "m"}),
        ("DELETE", "", None),
        ("PUT", "/pause", None),
        ("POST", "/chat", {"message": "hi"}),
        ("POST", "/clone", {}),
    ):
        assert (await frontend.call(method, f"/api/agents/only-ann{path}", body, key=ben))[0] == 404, path


async def test_admin_sees_agents_of_everybody_on_request_and_says_whose(frontend: RunningFrontend) -> None:
    ann, ben = [await make_key(frontend, name) for name in ("ann", "ben")]
    for key in (ann, ben):
        await create(frontend, key=key["key"])
    assert await names_of(frontend) == []
    assert await names_of(frontend, "?all_users=true") == ["helper", "helper"]
    status, refused = await frontend.call("GET", "/api/agents?all_users=true", key=ann["key"])
    assert status == 403, refused
    status, refused = await frontend.call("GET", "/api/agents/helper?all_users=true")
    assert (status, refused["error"]["code"]) == (409, "agent_ambiguous")
    status, shown = await frontend.call("GET", f"/api/agents/helper?owner=key:{ben['id']}")
    assert (status, shown["owner_name"]) == (200, "ben")
    assert (await frontend.call("PUT", f"/api/agents/helper/pause?owner=key:{ben['id']}"))[0] == 200
    assert (await frontend.call("GET", "/api/agents/helper", key=ben["key"]))[1]["status"] == "paused"


@pytest.mark.behaviour("AGENT-3")
async def test_update_with_another_name_renames_the_agent(frontend: RunningFrontend) -> None:
    made = await create(frontend, description="one")
    await create(frontend, "taken")
    status, renamed = await frontend.call("PUT", "/api/agents/helper", {"name": "better", "model": "m2"})
    assert (status, renamed["id"], renamed["revision"]) == (200, made["id"], 2)
    assert (renamed["name"], renamed["model"], renamed["config"]["description"]) == ("better", "m2", "")
    status, missing = await frontend.call("GET", "/api/agents/helper")
    assert (status, assert_envelope(missing)["code"]) == (404, "agent_not_found")
    status, refused = await frontend.call("PUT", "/api/agents/better", {"name": "taken", "model": "m"})
    assert (status, refused["error"]["code"]) == (409, "agent_exists")
    assert await names_of(frontend) == ["better", "taken"]


@pytest.mark.behaviour("AGENT-4")
async def test_deleted_agent_is_not_found_anywhere_and_its_turn_is_cancelled(frontend: RunningFrontend) -> None:
    await join_worker(frontend)
    await create(frontend)
    sent = await chat(frontend, "hello")
    assert (await frontend.call("DELETE", "/api/agents/helper"))[0] == 204
    assert await names_of(frontend) == []
    for path in ("", "/config", "/export", "/status", "/observables", "/sse", "/threads"):
        assert (await frontend.call("GET", f"/api/agents/helper{path}"))[0] == 404, path
    assert (await frontend.call("POST", "/api/agents/helper/chat", {"message": "hi"}))[0] == 404
    _, run = await frontend.call("GET", f"/api/runs/{sent['run_id']}")
    assert (run["state"], run["agent_id"]) == ("cancelled", None)


@pytest.mark.behaviour("AGENT-5")
async def test_paused_agent_refuses_messages_and_stays_paused_when_it_is_edited(frontend: RunningFrontend) -> None:
    await join_worker(frontend)
    await create(frontend, standalone_job=True, permanent_goal="tidy up")
    assert (await frontend.call("GET", "/api/agents/helper"))[1]["next_run_at"] is not None
    status, paused = await frontend.call("PUT", "/api/agents/helper/pause")
    assert (status, paused["status"], paused["next_run_at"]) == (200, "paused", None)
    status, refused = await frontend.call("POST", "/api/agents/helper/chat", {"message": "hi"})
    assert (status, refused["error"]["code"]) == (409, "agent_paused")
    body = {"name": "helper", "model": "m", "standalone_job": True, "permanent_goal": "g", "periodic_runs": "1h"}
    _, edited = await frontend.call("PUT", "/api/agents/helper", body)
    assert (edited["status"], edited["next_run_at"]) == ("paused", None)
    _, resumed = await frontend.call("PUT", "/api/agents/helper/resume")
    assert resumed["status"] == "active"
    assert resumed["next_run_at"] is not None
    await chat(frontend, "hi")


async def test_agent_with_the_name_of_a_model_or_an_alias_is_refused(frontend: RunningFrontend) -> None:
    body = {
        "name": "chat",
        "backend": "fake",
        "aliases": ["talk"],
        "files": [{"path": "m.gguf", "uri": "https://tools.example/m.gguf"}],
    }
    status, made = await frontend.call("PUT", "/api/models/config/chat", body)
    assert status in (200, 201), made
    for name in ("chat", "talk"):
        status, refused = await frontend.call("POST", "/api/agents", {"name": name, "model": "m"})
        assert (status, refused["error"]["code"]) == (409, "name_of_model")
    await create(frontend)
    status, refused = await frontend.call("PUT", "/api/agents/helper", {"name": "chat", "model": "m"})
    assert (status, refused["error"]["code"]) == (409, "name_of_model")


@pytest.mark.behaviour("AGENT-30")
async def test_shared_agent_is_seen_and_used_by_everybody_and_changed_by_admins_only(
    frontend: RunningFrontend,
) -> None:
    worker: HandWorker = await join_worker(frontend)
    ann = (await make_key(frontend, "ann"))["key"]
    status, refused = await frontend.call("POST", "/api/agents", {"name": "x", "model": "m", "shared": True}, key=ann)
    assert (status, refused["error"]["code"]) == (403, "not_allowed")
    await create(frontend, shared=True)
    assert await names_of(frontend, key=ann) == ["helper"]
    mine = await chat(frontend, "hello", key=ann)
    await worker.answer(mine["run_id"], "hi")
    _, run = await frontend.call("GET", f"/api/runs/{mine['run_id']}", key=ann)
    assert (run["owner_name"], run["content"]) == ("ann", "hi")
    assert (await frontend.call("GET", f"/api/runs/{mine['run_id']}"))[0] == 404
    for method, path, body in (
        ("PUT", "", {"name": "helper", "model": "other"}),
        ("DELETE", "", None),
        ("PUT", "/pause", None),
    ):
        status, refused = await frontend.call(method, f"/api/agents/helper{path}", body, key=ann)
        assert (status, refused["error"]["code"]) == (403, "not_allowed"), path
    # Their own agent of that name comes first.
    status, copied = await frontend.call("POST", "/api/agents/helper/clone", {"name": "helper"}, key=ann)
    assert (status, copied["shared"], copied["is_own"]) == (201, False, True)
    assert (await frontend.call("GET", "/api/agents/helper", key=ann))[1]["id"] == copied["id"]


@pytest.mark.behaviour("AGENT-48")
@pytest.mark.parametrize(
    "tools",
    [
        {"mcp_servers": [{"name": "mine", "url": "https://tools.example/mcp", "token": "secret:github"}]},
        {"agents": ["expert"]},
        {"tool_rules": {"files__*": "auto"}},
        # The same rules; the first one that matches counts.
        {"tool_rules": {"*": "auto", "files__*": "ask"}},
    ],
)
async def test_owner_of_a_shared_agent_changes_its_words_and_admins_its_tools(
    frontend: RunningFrontend, tools: dict[str, Any]
) -> None:
    ann = (await make_key(frontend, "ann"))["key"]
    body: dict[str, Any] = {"name": "helper", "model": "m", "tool_rules": {"files__*": "ask", "*": "auto"}}
    assert (await frontend.call("POST", "/api/agents", body, key=ann))[0] == 201
    assert (await frontend.call("PUT", "/api/agents/helper?all_users=true", body | {"shared": True}))[0] == 200
    body |= {"shared": True, "system_prompt": "Be brief."}
    assert (await frontend.call("PUT", "/api/agents/helper", body, key=ann))[0] == 200
    status, refused = await frontend.call("PUT", "/api/agents/helper", body | tools, key=ann)
    assert (status, refused["error"]["code"]) == (403, "shared_agent_tools")
    assert (await frontend.call("PUT", "/api/agents/helper?all_users=true", body | tools))[0] == 200


@pytest.mark.behaviour("AGENT-48")
async def test_agent_that_is_not_shared_runs_in_the_name_of_its_owner_only(frontend: RunningFrontend) -> None:
    worker: HandWorker = await join_worker(frontend, max_runs=1)
    ann, ben = [(await make_key(frontend, name))["key"] for name in ("ann", "ben")]
    await create(frontend, key=ann)
    status, refused = await frontend.call("POST", "/api/agents/helper/chat?all_users=true", {"message": "hi"})
    assert (status, refused["error"]["code"]) == (403, "not_allowed")
    # A turn that waited while the agent was taken back does not begin.
    body = {"name": "helper", "model": "m"}
    assert (await frontend.call("PUT", "/api/agents/helper?all_users=true", body | {"shared": True}))[0] == 200
    holding = await chat(frontend, "hello", key=ann)
    await worker.take(holding["run_id"])
    waiting = await chat(frontend, "hello", key=ben)
    assert (await frontend.call("PUT", "/api/agents/helper?all_users=true", body))[0] == 200
    await worker.end(holding["run_id"])
    await worker.wait_for(waiting["run_id"])
    assert (await worker.fetch(waiting["run_id"]))[0] in (404, 409)
    ended = await worker.wait_until_ended(waiting["run_id"])
    assert "not shared any more" in ended["error_text"]


@pytest.mark.behaviour("AGENT-49")
async def test_model_that_does_not_exist_is_a_warning_with_the_names_that_the_caller_may_use(
    frontend: RunningFrontend,
) -> None:
    await put_model(frontend.database, "smol")
    await put_model(frontend.database, "smollm3-of-others")
    ann = (await make_key(frontend, "ann", models=["smol"]))["key"]
    made = await create(frontend, key=ann, model="smollm")
    assert made["warnings"] == ["There is no model 'smollm'. Did you mean smol?"]
    put = {"name": "helper", "model": "smollm3-of-others"}
    _, changed = await frontend.call("PUT", "/api/agents/helper", put, key=ann)
    assert changed["warnings"] == ["There is no model 'smollm3-of-others'. `corral models list` shows them."]
    _, imported = await frontend.call("POST", "/api/agents/import", {"name": "two", "model": "smollm"}, key=ann)
    assert imported["warnings"] == made["warnings"]
    _, changed = await frontend.call("PUT", "/api/agents/helper", {"name": "helper", "model": "smol"}, key=ann)
    assert changed["warnings"] == []
    # Nor does a task or a call of MCP servers name models that the key may not use.
    task = {"name": "t", "model": "smollm3", "prompt": "p"}
    status, refused = await frontend.call("POST", "/api/agent/tasks", task, key=ann)
    assert (status, refused["error"]["details"]["suggestions"]) == (404, ["smol"])
    status, refused = await frontend.call("GET", "/v1/mcp/servers/smollm3", key=ann)
    assert status == 404
    assert "others" not in json.dumps(refused)


@pytest.mark.behaviour("AGENT-50")
async def test_change_of_a_revision_that_is_not_the_present_one_is_refused(frontend: RunningFrontend) -> None:
    made = await create(frontend)
    body = {"name": "helper", "model": "m", "system_prompt": "Be brief."}
    status, changed = await frontend.call("PUT", "/api/agents/helper", body, if_match=f'"{made["revision"]}"')
    assert (status, changed["revision"]) == (200, made["revision"] + 1)
    late = body | {"system_prompt": "Be long."}
    status, refused = await frontend.call("PUT", "/api/agents/helper", late, if_match=f'"{made["revision"]}"')
    assert (status, refused["error"]["code"]) == (409, "revision_conflict")
    assert refused["error"]["details"] == {"revision": changed["revision"]}
    _, shown = await frontend.call("GET", "/api/agents/helper")
    assert (shown["config"]["system_prompt"], shown["revision"]) == ("Be brief.", changed["revision"])
    status, refused = await frontend.call("PUT", "/api/agents/helper", late, if_match="abc")
    assert (status, refused["error"]["code"]) == (400, "bad_revision")


async def test_clone_without_a_name_takes_the_next_free_one(frontend: RunningFrontend) -> None:
    await create(frontend, system_prompt="Be brief.")
    made = [(await frontend.call("POST", "/api/agents/helper/clone", {}))[1] for _ in range(2)]
    assert [agent["name"] for agent in made] == ["helper-copy", "helper-copy-2"]
    assert made[0]["config"]["system_prompt"] == "Be brief."


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"model": ""}, "bad_agent"),
        ({"model": "agent/other"}, "bad_agent"),
        ({"hud": True}, "invalid_request"),
        ({"periodic_runs": "soon"}, "bad_agent"),
        ({"periodic_runs": "1s"}, "bad_agent"),
        ({"budgets": {"wall": "1y"}}, "bad_agent"),
        ({"standalone_job": True}, "bad_agent"),
        ({"inner_monologue_template": "{% set x = 9 %}"}, "bad_template"),
        ({"labels": {"": "x"}}, "bad_label"),
        ({"tool_rules": {"x": "maybe"}}, "invalid_request"),
        ({"mcp_stdio_servers": ["nowhere"]}, "mcp_server_not_found"),
        ({"mcp_servers": [{"url": "ftp://tools.example/"}]}, "bad_uri"),
        ({"mcp_servers": [{"url": "http://192.168.1.1/mcp"}]}, "private_address"),
        ({"mcp_servers": [{"url": "http://169.254.169.254/latest"}]}, "private_address"),
        ({"mcp_servers": [{"url": f"https://x:{CANARY}@tools.example/"}]}, "secret_in_address"),
        ({"mcp_servers": [{"url": f"https://tools.example/?api_key={CANARY}"}]}, "secret_in_address"),
        ({"mcp_servers": [{"url": "https://tools.example/", "token": CANARY}]}, "bad_secret_reference"),
        ({"mcp_servers": [{"url": "https://t.example/", "headers": {"X-Api-Key": CANARY}}]}, "secret_in_clear"),
        ({"mcp_servers": [{"url": "https://t.example/", "token": "cluster-secret:x"}]}, "cluster_secret_refused"),
    ],
)
async def test_invalid_configuration_is_refused_without_repeating_a_secret(
    frontend: RunningFrontend, config: dict[str, Any], code: str
) -> None:
    status, refused = await frontend.call("POST", "/api/agents", {"name": "helper", "model": "m"} | config)
    assert 400 <= status < 500
    assert refused["error"]["code"] == code, refused
    assert CANARY not in json.dumps(refused)
    assert await names_of(frontend) == []


@pytest.mark.behaviour("AGENT-22")
async def test_exported_agent_holds_references_and_imports_again_naming_missing_secrets(
    frontend: RunningFrontend,
) -> None:
    assert (await frontend.call("PUT", "/api/secrets/tools", {"value": CANARY}))[0] == 200
    server = {"name": "tools", "url": "https://tools.example/mcp", "token": "secret:tools"}
    more = {"headers": {"X-Org": "7", "X-Api-Key": "secret:other"}, "transport": "sse"}
    rules = {"tools__*": "ask", "a": "deny", "zz": "auto"}
    made = await create(frontend, mcp_servers=[server | more], tool_rules=rules, budgets={"wall": "10m", "tokens": 9})
    status, document = await frontend.call("GET", "/api/agents/helper/export")
    assert (status, document["name"]) == (200, "helper")
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    async with frontend.http.get(f"{frontend.url}/api/agents/helper/export", headers=headers) as answer:
        assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''helper.json"
    assert CANARY not in json.dumps(document)
    assert {key: document[key] for key in made["config"] if key != "shared"} == {
        key: value for key, value in made["config"].items() if key != "shared"
    }
    # The order of rules counts.
    assert list(document["tool_rules"].items()) == list(rules.items())
    ann = (await make_key(frontend, "ann"))["key"]
    status, imported = await frontend.call("POST", "/api/agents/import", document, key=ann)
    assert (status, imported["ignored"]) == (201, [])
    assert imported["missing_secrets"] == ["secret:tools", "secret:other"]
    assert imported["config"] == made["config"]
    status, imported = await frontend.call("POST", "/api/agents/import?name=second", document)
    assert (status, imported["name"], imported["missing_secrets"]) == (201, "second", ["secret:other"])


@pytest.mark.behaviour("AGENT-22")
async def test_document_of_localagi_is_imported_and_fields_without_effect_are_named(frontend: RunningFrontend) -> None:
    document = {
        "name": "scout",
        "model": "m",
        "system_prompt": "Look around.",
        "permanent_goal": "find news",
        "standalone_job": True,
        "periodic_runs": "1h30m",
        "max_iterations": 0,
        "max_attempts": 3,
        "hud": True,
        "actions": [{"name": "search", "config": "{}"}],
        "connectors": [],
        "api_key": "",
        "enable_kb": False,
        "mcp_servers": [{"url": "https://tools.example/mcp", "token": "secret:a", "odd": 1}],
        "mcp_stdio_servers": [{"name": "shell", "cmd": "sh"}],
        "shared": True,
    }
    ann = (await make_key(frontend, "ann"))["key"]
    status, made = await frontend.call("POST", "/api/agents/import", document, key=ann)
    assert status == 201, made
    assert made["ignored"] == ["hud", "actions", "shared", "mcp_servers.0.odd", "mcp_stdio_servers.0"]
    assert (made["config"]["max_iterations"], made["config"]["max_attempts"]) == (10, 3)
    assert made["config"]["mcp_servers"][0]["name"] == "tools-example"
    assert made["next_run_at"] is not None
    status, refused = await frontend.call("POST", "/api/agents/import", document | {"name": "x", "mcp_servers": [
        {"url": "https://tools.example/mcp", "token": CANARY}
    ]})  # fmt: skip
    assert (status, refused["error"]["code"]) == (400, "bad_secret_reference")
    assert CANARY not in json.dumps(refused)
    assert "corral secrets set" in refused["error"]["hint"]
    status, refused = await frontend.call("POST", "/api/agents/import", {"model": "m", "temperature": "hot"})
    assert status == 400, refused


@pytest.mark.behaviour("AGENT-61")
async def test_document_is_imported_from_the_file_of_a_form_once_for_each_idempotency_key(
    frontend: RunningFrontend,
) -> None:
    document = {"name": "scout", "model": "m", "system_prompt": "Look around.", "hud": True}
    for is_first in (True, False):
        answer, made = await import_form(frontend, "file", json.dumps(document).encode(), key="one")
        assert (answer.status, "Idempotency-Replayed" in answer.headers) == (201, not is_first), made
        assert (made["name"], made["config"]["system_prompt"], made["ignored"]) == ("scout", "Look around.", ["hud"])
    assert await names_of(frontend) == ["scout"]


async def import_form(
    frontend: RunningFrontend, part: str, content: bytes, key: str = "x"
) -> tuple[aiohttp.ClientResponse, Any]:
    """Import an agent by a form with one file, as browsers send it."""
    head = f'--b1\r\nContent-Disposition: form-data; name="{part}"; filename="agent.json"\r\n'
    body = head.encode() + b"Content-Type: application/json\r\n\r\n" + content + b"\r\n--b1--\r\n"
    headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Idempotency-Key": key}
    headers["Content-Type"] = "multipart/form-data; boundary=b1"
    async with frontend.http.post(f"{frontend.url}/api/agents/import", data=body, headers=headers) as answer:
        return answer, await answer.json()


@pytest.mark.parametrize(
    ("part", "content", "code"),
    [
        ("file", b"{", "malformed_json"),
        ("file", b"\xff", "bad_document"),
        ("file", b"[" * 100_000, "too_deep"),
        ("file", b"[]", "bad_agent"),
        ("file", b'{"model": "m"}', "bad_agent"),
        ("document", b'{"name": "x", "model": "m"}', "file_missing"),
    ],
)
async def test_form_without_a_document_of_an_agent_is_refused(
    frontend: RunningFrontend, part: str, content: bytes, code: str
) -> None:
    answer, refused = await import_form(frontend, part, content)
    assert (answer.status, refused["error"]["code"]) == (400, code)
    assert await names_of(frontend) == []


@pytest.mark.behaviour("AGENT-23")
async def test_form_has_exactly_the_fields_that_are_taken(frontend: RunningFrontend) -> None:
    status, form = await frontend.call("GET", "/api/agents/config/metadata")
    assert status == 200, form
    fields = {field["name"]: field for field in form["fields"]}
    assert set(fields) == set(AgentIn.model_fields)
    assert fields["name"]["required"] is True
    assert (fields["max_iterations"]["default"], fields["max_iterations"]["minimum"]) == (10, 1)
    assert fields["tool_mode"]["options"] == ["auto", "native", "guided"]
    assert all(field["section"] and field["description"] for field in form["fields"])
    assert "enable_planning" not in fields


async def test_declared_mcp_server_is_set_by_admins_and_chosen_by_name(frontend: RunningFrontend) -> None:
    ann = (await make_key(frontend, "ann"))["key"]
    body = {"description": "Files", "command": "uvx", "args": ["files"], "env": {"API_TOKEN": "cluster-secret:files"}}
    status, refused = await frontend.call("PUT", "/api/mcp/servers/files", body, key=ann)
    assert (status, refused["error"]["code"]) == (403, "not_allowed")
    for bad, code in (
        ({"command": ""}, "bad_mcp_server"),
        ({"transport": "http", "command": "x", "url": "http://10.0.0.1/"}, "bad_mcp_server"),
        ({"command": "x", "env": {"API_TOKEN": CANARY}}, "secret_in_clear"),
        ({"command": "x", "env": {"API_TOKEN": "secret:mine"}}, "bad_secret_reference"),
    ):
        status, refused = await frontend.call("PUT", "/api/mcp/servers/files", bad)
        assert (status, refused["error"]["code"]) == (400, code), refused
        assert CANARY not in json.dumps(refused)
    assert (await frontend.call("PUT", "/api/mcp/servers/a__b", body))[0] == 400
    status, made = await frontend.call("PUT", "/api/mcp/servers/files", body)
    assert (status, made["config"]["args"]) == (200, ["files"])
    status, inside = await frontend.call(
        "PUT", "/api/mcp/servers/wiki", {"transport": "http", "url": "http://10.0.0.1/mcp"}
    )
    assert status == 200, inside
    _, seen = await frontend.call("GET", "/api/mcp/servers", key=ann)
    assert [(one["name"], one["description"], one["config"]) for one in seen["servers"]] == [
        ("files", "Files", None),
        ("wiki", "", None),
    ]
    await create(frontend, key=ann, mcp_stdio_servers=["files"])
    worker = await join_worker(frontend)
    sent = await chat(frontend, "hi", key=ann)
    assert (await frontend.call("DELETE", "/api/mcp/servers/files", key=ann))[0] == 403
    assert (await frontend.call("DELETE", "/api/mcp/servers/files"))[0] == 204
    assert (await frontend.call("DELETE", "/api/mcp/servers/files"))[0] == 404
    # The turn cannot begin without it, and its owner reads why.
    await worker.wait_for(sent["run_id"])
    status, refused = await worker.fetch(sent["run_id"])
    assert (status, refused["error"]["code"]) == (409, "run_failed")
    run = await worker.wait_until_ended(sent["run_id"])
    assert (run["state"], run["error_code"]) == ("failed", "mcp_server_not_found")


async def test_turn_gets_its_servers_with_secrets_of_owner_and_cluster(frontend: RunningFrontend) -> None:
    ann = (await make_key(frontend, "ann"))["key"]
    assert (await frontend.call("PUT", "/api/secrets/tools", {"value": "anns-token"}, key=ann))[0] == 200
    assert (await frontend.call("PUT", "/api/secrets/files?scope=cluster", {"value": "our-token"}))[0] == 200
    body = {"command": "uvx", "env": {"API_TOKEN": "cluster-secret:files"}}
    assert (await frontend.call("PUT", "/api/mcp/servers/files", body))[0] == 200
    server = {"name": "tools", "url": "https://tools.example/mcp", "token": "secret:tools"}
    await create(frontend, key=ann, mcp_servers=[server], mcp_stdio_servers=["files"], tool_rules={"files__*": "ask"})
    worker = await join_worker(frontend)
    sent = await chat(frontend, "hi", key=ann)
    spec = await worker.answer(sent["run_id"])
    remote, declared = spec["mcp_servers"]
    assert remote["headers"] == {"Authorization": "Bearer anns-token"}
    assert (declared["transport"], declared["command"]) == ("stdio", "uvx")
    assert declared["env"] == {"API_TOKEN": "our-token"}
    assert spec["tool_rules"] == {"files__*": "ask"}
    assert len(spec["session_key"]) == 64
    assert "is_declared" not in declared


async def test_status_and_observables_show_turns_and_their_tool_calls(frontend: RunningFrontend) -> None:
    worker = await join_worker(frontend)
    await create(frontend)
    sent = await chat(frontend, "hello")
    await worker.take(sent["run_id"])
    call = {"call_id": "c1", "name": "files__read", "arguments": {"path": "x"}}
    await worker.deliver(sent["run_id"], ("step", {}), ("tool_call", call))
    _, status = await frontend.call("GET", "/api/agents/helper/status")
    assert (status["is_running"], status["open_runs"], status["threads"]) == (True, 1, 1)
    await worker.deliver(sent["run_id"], ("tool_result", {"call_id": "c1", "name": "files__read", "content": "text"}))
    await worker.end(sent["run_id"], "It says text.")
    _, found = await frontend.call("GET", "/api/agents/helper/observables")
    tool, turn = found["history"]
    assert (tool["parent_id"], tool["name"], tool["state"]) == (sent["run_id"], "files__read", "completed")
    assert (tool["creation"]["tool_args"], tool["completion"]["result"]) == ({"path": "x"}, "text")
    assert (turn["id"], turn["creation"]["message"]) == (sent["run_id"], "hello")
    assert turn["completion"]["content"] == "It says text."
    _, status = await frontend.call("GET", "/api/agents/helper/status")
    assert (status["is_running"], [run["state"] for run in status["history"]]) == (False, ["completed"])
    assert (await frontend.call("DELETE", "/api/agents/helper/observables"))[0] == 204
    assert (await frontend.call("GET", "/api/agents/helper/observables"))[1]["history"] == []
    _, messages = await frontend.call("GET", f"/api/agents/helper/threads/{sent['thread_id']}/messages")
    assert len(messages["messages"]) == 2


@pytest.mark.behaviour("AGENT-25")
@pytest.mark.parametrize(
    ("path", "status"), [("/etc/passwd", 403), ("../x", 403), ("a/../../x", 403), ("a\\b", 403), ("plot.png", 404)]
)
async def test_path_outside_of_the_files_of_an_agent_is_refused(
    frontend: RunningFrontend, path: str, status: int
) -> None:
    await create(frontend)
    assert (await frontend.call("GET", f"/api/agents/helper/files?path={path}"))[0] == status


@pytest.mark.behaviour("AGENT-25")
async def test_file_of_a_tool_is_listed_and_read_at_any_frontend_by_its_owner_only(
    frontend: RunningFrontend, database_url: str
) -> None:
    worker = await join_worker(frontend)
    key, other = [(await make_key(frontend, name))["key"] for name in ("files-owner", "files-other")]
    await create(frontend, key=key)
    run_id = (await chat(frontend, "draw", key=key))["run_id"]
    await worker.take(run_id)
    body = {"job_id": worker.jobs[run_id], "name": "c1/plot.png", "media_type": "image/png", "content": "iVBORw=="}
    for _ in range(2):
        status, stored = await worker.node.call("POST", f"/runs/{run_id}/files", body)
        assert (status, stored["path"]) == (200, f"{run_id}/c1/plot.png")
    for change, expected in (({"name": "../x"}, 400), ({"name": "/x"}, 400), ({"content": "%"}, 400)):
        assert (await worker.node.call("POST", f"/runs/{run_id}/files", body | change))[0] == expected
    assert (await worker.node.call("POST", f"/runs/{run_id}/files", body | {"job_id": "x"}))[0] == 409
    await worker.end(run_id)
    async with running_frontend(database_url) as second:
        _, listed = await second.call("GET", f"/api/runs/{run_id}/artifacts", key=key)
        (artifact,) = listed["artifacts"]
        assert (artifact["name"], artifact["path"], artifact["size_bytes"]) == ("c1/plot.png", stored["path"], 4)
        paths = (
            f"/api/agents/helper/files?path={stored['path']}",
            f"/api/runs/{run_id}/artifacts/{artifact['id']}",
            f"/v1/files/file-{artifact['id'].replace('-', '')}/content",
        )
        for path in paths:
            headers = {"Authorization": f"Bearer {key}"}
            async with second.http.get(f"{second.url}{path}", headers=headers) as answer:
                assert (answer.status, await answer.read()) == (200, b"\x89PNG")
                assert answer.headers["content-disposition"].startswith("attachment")
            assert (await second.call("GET", path, key=other))[0] == 404
        assert (await second.call("GET", f"/api/runs/{run_id}/artifacts", key=other))[0] == 404


@pytest.mark.behaviour("AGENT-25")
async def test_file_of_a_shared_agent_is_for_the_owner_of_its_run_only(frontend: RunningFrontend) -> None:
    worker = await join_worker(frontend)
    key, other = [(await make_key(frontend, name))["key"] for name in ("files-owner", "files-other")]
    await create(frontend, shared=True)
    run_id = (await chat(frontend, "draw", key=key))["run_id"]
    await worker.take(run_id)
    body = {"job_id": worker.jobs[run_id], "name": "c1/a.txt", "content": "aGk="}
    _, stored = await worker.node.call("POST", f"/runs/{run_id}/files", body)
    path = f"/api/agents/helper/files?path={stored['path']}"
    assert await frontend.call("GET", path, key=key) == (200, "hi")
    assert (await frontend.call("GET", path, key=other))[0] == 404
