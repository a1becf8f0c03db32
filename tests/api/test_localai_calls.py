"""The calls that LocalAI's own page and tools make: none of them is refused, and answers have the fields they read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral.models.gallery import ITEMS_MAX
from corral.wire.agents import AgentIn
from corral.wire.localai import list_programs
from tests.agents.hand_worker import chat, create, join_worker, make_key
from tests.support.frontends import RunningFrontend

CONTEXTS = "contexts=8192%2C16384%2C32768%2C65536%2C131072%2C262144"
CALLS = (
    "/api/backends/upgrades",
    "/api/backends/usecases",
    "/api/backends?items=9999&page=1",
    "/api/backends?page=1&items=9999&sort=name&order=asc",
    "/api/models/capabilities",
    "/api/models/config-json/chat",
    f"/api/models/estimate/chat?{CONTEXTS}",
    f"/api/models/estimate/all-minilm-l6-v2?{CONTEXTS}",
    f"/api/models/estimate/fake-chat?{CONTEXTS}",
    f"/api/models/estimate/fake-slow?{CONTEXTS}",
    f"/api/models/estimate/gemma-3-270m?{CONTEXTS}",
    f"/api/models/estimate/piper-en-us-joe?{CONTEXTS}",
    f"/api/models/estimate/whisper-base?{CONTEXTS}",
    "/api/models?items=9999&page=1",
    "/api/models?page=1&items=30&collapse_variants=true",
    "/api/nodes",
    "/api/nodes/models",
    "/api/nodes/scheduling",
    "/api/operations",
    "/api/operations/history",
    "/backends",
    "/backends/known",
    "/v1/models",
)


@pytest.mark.behaviour("API-28")
async def test_every_reading_call_of_localai_is_answered(frontend: RunningFrontend) -> None:
    status, answer = await frontend.call("PUT", "/api/models/config/chat", {"backend": "fake"})
    assert status == 200, answer
    refused = {}
    for path in CALLS:
        status, answer = await frontend.call("GET", path)
        if status != 200:
            refused[path] = (status, answer)
    assert refused == {}


@pytest.mark.behaviour("API-28")
@pytest.mark.parametrize(("path", "entries"), [("/api/backends", "backends"), ("/api/models", "models")])
async def test_list_gives_its_largest_page_when_more_items_are_requested(
    frontend: RunningFrontend, path: str, entries: str
) -> None:
    _, most = await frontend.call("GET", f"{path}?items={ITEMS_MAX}")
    status, page = await frontend.call("GET", f"{path}?items=9999")
    assert (status, page) == (200, most)
    assert page[entries]
    assert page["currentPage"] == 1


async def test_config_json_answers_the_configuration_alone_with_its_revision(frontend: RunningFrontend) -> None:
    await frontend.call("PUT", "/api/models/config/team%2Fchat", {"backend": "fake", "aliases": ["c"]})
    status, config = await frontend.call("GET", "/api/models/config-json/team/chat")
    assert (status, config["name"], config["backend"]) == (200, "team/chat", "fake")
    assert (await frontend.call("GET", "/api/models/config-json/c"))[1] == config
    assert (await frontend.call("GET", "/api/models/config-json/nobody"))[0] == 404


@pytest.mark.behaviour("AGENT-60")
async def test_list_of_agents_has_names_and_whether_each_is_active(frontend: RunningFrontend) -> None:
    ann = await make_key(frontend, "ann")
    for name in ("zoe", "abe"):
        await create(frontend, name)
    await create(frontend, "abe", key=ann["key"])
    await create(frontend, "public", shared=True)
    assert (await frontend.call("PUT", "/api/agents/zoe/pause"))[0] == 200
    status, found = await frontend.call("GET", "/api/agents")
    assert (status, found["agents"], found["agentCount"]) == (200, ["abe", "public", "zoe"], 3)
    assert found["statuses"] == {"abe": True, "public": True, "zoe": False}
    assert [item["name"] for item in found["items"]] == found["agents"]
    assert not found["user_groups"]
    # Somebody's own agent comes before a shared one of that name, and is the only one that the name means.
    await create(frontend, "public", key=ann["key"])
    assert (await frontend.call("PUT", "/api/agents/public/pause", key=ann["key"]))[0] == 200
    _, found = await frontend.call("GET", "/api/agents", key=ann["key"])
    assert (found["agents"], found["statuses"]) == (["abe", "public"], {"abe": True, "public": False})


@pytest.mark.behaviour("AGENT-60")
async def test_admin_lists_agents_of_others_by_user_and_names_the_user_in_other_calls(
    frontend: RunningFrontend,
) -> None:
    ann = await make_key(frontend, "ann")
    await create(frontend, "mine")
    await create(frontend, "hers", key=ann["key"])
    _, found = await frontend.call("GET", "/api/agents?all_users=true")
    assert found["agents"] == ["mine"]
    [(user_id, group)] = found["user_groups"].items()
    assert group["agents"] == [{"name": "hers", "active": True}]
    query = f"?user_id={user_id}"
    assert (await frontend.call("PUT", f"/api/agents/hers/pause{query}"))[0] == 200
    for path in ("", "/config", "/status", "/observables", "/export"):
        assert (await frontend.call("GET", f"/api/agents/hers{path}{query}"))[0] == 200, path
    assert (await frontend.call("GET", f"/api/agents/hers{query}"))[1]["active"] is False
    assert (await frontend.call("GET", f"/api/agents/mine{query}", key=ann["key"]))[0] == 403


async def test_user_id_without_a_prefix_is_that_of_a_user(frontend: RunningFrontend) -> None:
    status, user = await frontend.call("POST", "/api/users", {"name": "ben", "password": "a long password"})
    assert status == 201, user
    status, made = await frontend.call("POST", "/api/keys", {"name": "k", "user": "ben"})
    assert status == 201, made
    await create(frontend, key=made["key"])
    assert (await frontend.call("GET", f"/api/agents/helper?user_id={user['id']}"))[1]["owner_name"] == "ben"


@pytest.mark.behaviour("AGENT-60")
async def test_status_and_observables_of_an_agent_have_a_history_in_the_form_of_localai(
    frontend: RunningFrontend,
) -> None:
    worker = await join_worker(frontend)
    await create(frontend)
    run_id = (await chat(frontend, "hello"))["run_id"]
    await worker.take(run_id)
    for call_id in ("c1", "c2"):
        call = {"call_id": call_id, "name": "files__read", "arguments": {"path": call_id}}
        result = {"call_id": call_id, "name": "files__read", "content": "text", "is_error": call_id == "c2"}
        await worker.deliver(run_id, ("tool_call", call), ("tool_result", result))
    _, found = await frontend.call("GET", "/api/agents/helper/observables")
    [open_turn] = [step for step in found["History"] if not step["completion"]]
    assert open_turn["creation"]["chat_completion_message"] == {"role": "user", "content": "hello"}
    await worker.end(run_id, "It says text.")
    _, found = await frontend.call("GET", "/api/agents/helper/observables")
    failed, tool, turn = found["History"]
    assert (found["Name"], turn["name"], tool["parent_id"]) == ("helper", "chat", turn["id"])
    assert turn["completion"]["conversation"] == [{"role": "assistant", "content": "It says text."}]
    assert tool["creation"]["function_definition"] == {"name": "files__read"}
    assert tool["creation"]["function_params"] == {"path": "c1"}
    assert (tool["completion"]["action_result"], failed["completion"]["error"]) == ("text", "text")
    _, status = await frontend.call("GET", "/api/agents/helper/status")
    assert status["Name"] == "helper"
    assert status["History"] == ["Reasoning: \nAction taken: chat\nParameters: hello\nResult: It says text."]


@pytest.mark.behaviour("AGENT-60")
async def test_form_of_an_agent_has_a_control_of_localai_for_each_field(frontend: RunningFrontend) -> None:
    status, form = await frontend.call("GET", "/api/agents/config/metadata")
    assert status == 200, form
    fields = {field["name"]: field for field in form["Fields"]}
    # LocalAI's page edits MCP servers with controls of its own.
    assert set(fields) == set(AgentIn.model_fields) - {"mcp_servers", "mcp_stdio_servers"}
    assert fields["name"]["required"] is True
    assert {field["type"] for field in fields.values()} == {"text", "textarea", "checkbox", "number", "select"}
    assert {field["tags"]["section"] for field in fields.values()} == {
        "BasicInfo", "ModelSettings", "PromptsGoals", "AdvancedSettings",
    }  # fmt: skip
    assert all(field["label"] and field["helpText"] for field in fields.values())
    prompt, steps, mode = fields["system_prompt"], fields["max_iterations"], fields["tool_mode"]
    assert (prompt["type"], prompt["label"], prompt["defaultValue"]) == ("textarea", "System prompt", "")
    assert (steps["type"], steps["defaultValue"], steps["min"], steps["max"]) == ("number", 10, 1, 1000)
    assert mode["options"][0] == {"value": "auto", "label": "auto"}
    # What it has no control for is shown and kept.
    assert {name for name, field in fields.items() if field["disabled"]} == {
        "tool_rules",
        "agents",
        "budgets",
        "labels",
        "selected_skills",
    }
    assert [form[name] for name in ("Actions", "Connectors", "Filters", "DynamicPrompts")] == [[], [], [], []]
    assert form["distributed"] is True


def fill_form(form: dict[str, Any], config: dict[str, Any], **written: Any) -> dict[str, Any]:
    """Return what LocalAI's page sends when somebody has written into the form of an agent, new or as it is stored."""
    body: dict[str, Any] = {}
    for field in form["Fields"]:
        stored = config.get(field["name"])
        body[field["name"]] = field["defaultValue"] if stored is None else stored
        if body[field["name"]] is None:
            body[field["name"]] = ""
    body |= {name: config.get(name) or [] for name in ("connectors", "actions", "filters", "dynamic_prompts")}
    body["mcp_servers"] = [server for server in config.get("mcp_servers") or [] if server["url"]]
    if programs := config.get("mcp_stdio_servers"):
        servers = {program["name"]: {"command": "", "args": [], "env": {}} for program in programs}
        body["mcp_stdio_servers"] = json.dumps({"mcpServers": servers})
    return body | written


@pytest.mark.behaviour("AGENT-62")
async def test_form_of_localai_creates_an_agent_and_changes_only_what_was_written(frontend: RunningFrontend) -> None:
    for name in ("files", "time"):
        assert (await frontend.call("PUT", f"/api/mcp/servers/{name}", {"command": "uvx"}))[0] == 200
    _, form = await frontend.call("GET", "/api/agents/config/metadata")
    written = {"name": "helper", "model": "m", "mcp_servers": [{"url": "https://tools.example/mcp", "token": ""}]}
    status, made = await frontend.call("POST", "/api/agents", fill_form(form, {}, **written))
    assert (status, made["config"]["periodic_runs"]) == (201, "10m"), made
    assert not any("Ignored" in warning for warning in made["warnings"])
    # What LocalAI's form has no control for, set elsewhere.
    more = {"tool_rules": {"files__*": "ask"}, "mcp_stdio_servers": ["files", "time"], "temperature": 0.5}
    more |= {"labels": {"zone": "a"}, "budgets": {"wall": "1m", "tool_calls": 3, "tokens": None}}
    _, before = await frontend.call("PUT", "/api/agents/helper", made["config"] | more)
    _, config = await frontend.call("GET", "/api/agents/helper/config")
    changed = fill_form(form, config, system_prompt="Be brief.", max_iterations=3)
    status, after = await frontend.call("PUT", "/api/agents/helper", changed)
    assert status == 200, after
    assert after["config"] == before["config"] | {"system_prompt": "Be brief.", "max_iterations": 3}


@pytest.mark.behaviour("AGENT-62")
async def test_fields_of_localai_without_effect_are_ignored_and_named(frontend: RunningFrontend) -> None:
    body = {
        "name": "helper",
        "model": "m",
        "enable_planning": True,
        "max_evaluation_loops": 5,
        "api_key": "clear",
        "actions": [{"a": 1}],
    }
    body |= {"connectors": [], "tts_model": "", "hud": False, "temperature": "", "tool_mode": "", "labels": None}
    expected = (
        "Ignored fields, which have no effect in Corral: enable_planning, max_evaluation_loops, api_key, actions."
    )
    status, made = await frontend.call("POST", "/api/agents", body)
    assert (status, made["warnings"][-1]) == (201, expected), made
    assert (made["config"]["temperature"], made["config"]["tool_mode"], made["config"]["labels"]) == (None, "auto", {})
    status, changed = await frontend.call("PUT", "/api/agents/helper", body)
    assert (status, changed["warnings"][-1]) == (200, expected)
    assert "clear" not in json.dumps([made, changed])


@pytest.mark.behaviour("AGENT-62")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"hud": True}, "invalid_request"),
        ({"tool_mod": "auto"}, "invalid_request"),
        # An agent that ignored them would call tools that it must not call.
        ({"excluded_tools": ["files__write"]}, "invalid_request"),
        ({"max_iterations": "many"}, "invalid_request"),
        ({"mcp_stdio_servers": [{"command": "sh"}]}, "invalid_request"),
        ({"mcp_stdio_servers": '{"mcpServers": {"shell": {"command": "sh"}}}'}, "mcp_server_not_found"),
        ({"mcp_stdio_servers": "[" * 100_000}, "invalid_request"),
    ],
)
async def test_field_of_an_agent_with_a_value_that_means_nothing_is_refused(
    frontend: RunningFrontend, fields: dict[str, Any], code: str
) -> None:
    await create(frontend)
    for method, path in (("POST", ""), ("PUT", "/helper")):
        status, refused = await frontend.call(method, f"/api/agents{path}", {"name": "x", "model": "m"} | fields)
        assert (status, refused["error"]["code"]) == (404 if code == "mcp_server_not_found" else 400, code)
        assert next(iter(fields)) in json.dumps(refused) or code == "mcp_server_not_found"


@pytest.mark.behaviour("AGENT-62")
async def test_import_takes_declared_programs_of_a_text_in_the_form_of_claude_desktop(
    frontend: RunningFrontend,
) -> None:
    assert (await frontend.call("PUT", "/api/mcp/servers/files", {"command": "uvx"}))[0] == 200
    servers = {"files": {"command": "npx", "args": ["files"], "env": {"TOKEN": "clear"}}, "shell": {"command": "sh"}}
    document = {"name": "one", "model": "m", "mcp_stdio_servers": json.dumps({"mcpServers": servers})}
    status, made = await frontend.call("POST", "/api/agents/import", document)
    assert (status, made["config"]["mcp_stdio_servers"]) == (201, ["files"]), made
    assert made["ignored"] == ["mcp_stdio_servers.shell"]
    assert "clear" not in json.dumps(made)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, []),
        ("", []),
        ("files", [("0", "files")]),
        ("12", [("0", "12")]),
        ('["a", {"name": "b"}]', [("0", "a"), ("1", "b")]),
        (["a", {"name": "b", "cmd": "x"}, {"cmd": "x"}, 7], [("0", "a"), ("1", "b"), ("2", ""), ("3", "")]),
        ('{"mcpServers": {"a": {}, "b": {}}}', [("a", "a"), ("b", "b")]),
        ({"mcpServers": {"a": {}}}, [("a", "a")]),
        ('{"a": {"command": "x"}}', [("a", "a")]),
        ('{"mcpServers": ["a"]}', [("0", "")]),
        ("{", [("0", "{")]),
    ],
)
def test_programs_are_read_from_lists_objects_and_texts(value: object, expected: list[tuple[str, str]]) -> None:
    assert list_programs(value) == expected


@pytest.mark.behaviour("TASK-60")
async def test_task_of_localais_form_is_stored_and_its_context_named(frontend: RunningFrontend) -> None:
    await frontend.call("PUT", "/api/models/config/chat", {"backend": "fake"})
    body = {
        "name": "news", "description": "", "model": "chat", "prompt": "Sum up {{.topic}}.", "context": "",
        "enabled": True, "cron": "", "cron_parameters": "", "webhooks": [], "multimedia_sources": [],
    }  # fmt: skip
    status, made = await frontend.call("POST", "/api/agent/tasks", body)
    assert (status, made["warnings"]) == (201, []), made
    _, shown = await frontend.call("GET", f"/api/agent/tasks/{made['id']}")
    assert (shown["prompt"], shown["cron_parameters"], shown["time_zone"]) == ("Sum up {{ topic }}.", {}, "UTC")
    path = f"/api/agent/tasks/{made['id']}"
    status, changed = await frontend.call("PUT", path, body | {"context": "More.", "time_zone": ""})
    assert (status, changed["warnings"]) == (200, ["Ignored fields, which have no effect in Corral: context."])
    status, unchanged = await frontend.call("PUT", path, shown)
    assert (status, unchanged["warnings"]) == (200, [])
    status, refused = await frontend.call("PUT", path, body | {"promt": "Hello"})
    assert (status, refused["error"]["code"]) == (400, "invalid_request")
    assert "promt" in refused["error"]["message"]


@pytest.mark.behaviour("TASK-61")
async def test_job_has_the_trace_and_the_attachments_that_localais_page_reads(frontend: RunningFrontend) -> None:
    worker = await join_worker(frontend)
    await frontend.call("PUT", "/api/models/config/chat", {"backend": "fake"})
    task = {"name": "news", "model": "chat", "prompt": "Sum up {{.topic}}."}
    status, made = await frontend.call("POST", "/api/agent/tasks", task)
    assert status == 201, made
    body = {"task_id": made["id"], "parameters": {"topic": "it"}, "images": ["data:image/png;base64,iVBORw=="]}
    status, job = await frontend.call("POST", "/api/agent/jobs/execute", body)
    assert (status, job["status"]) == (201, "pending"), job
    await worker.take(job["job_id"])
    call = {"call_id": "c1", "name": "files__read", "arguments": {"path": "x"}}
    await worker.deliver(
        job["job_id"],
        ("status", {"message": "A server is away."}),
        ("reasoning", {"text": "hm"}),
        ("tool_call", call),
        ("tool_result", {"call_id": "c1", "name": "files__read", "content": "text"}),
        ("content", {"text": "It is text."}),
    )
    await worker.end(job["job_id"], "It is text.")
    status, shown = await frontend.call("GET", f"/api/agent/jobs/{job['job_id']}")
    assert (status, shown["status"], shown["result"], shown["task_id"]) == (200, "completed", "It is text.", made["id"])
    assert all(trace["timestamp"] == trace["time"] for trace in shown["traces"])
    read = [(trace["type"], trace["tool_name"], trace["content"], trace["arguments"]) for trace in shown["traces"]]
    assert read == [
        ("status", "", "A server is away.", None),
        ("reasoning", "", "hm", None),
        ("tool_call", "files__read", "", {"path": "x"}),
        ("tool_result", "files__read", "text", None),
        ("content", "", "It is text.", None),
        ("end", "", "It is text.", None),
    ]
    # The content of an attachment is not kept, and what stands for it starts no other job.
    assert [shown[name] for name in ("images", "videos", "audios", "files")] == [["image/png"], [], [], []]
    assert (shown["webhook_sent"], shown["webhook_sent_at"]) == (False, None)
    assert (await frontend.call("POST", "/api/agent/jobs/execute", body | {"images": shown["images"]}))[0] == 400
    _, listed = await frontend.call("GET", "/api/agent/jobs")
    assert [(one["id"], one["images"], one["traces"]) for one in listed] == [(job["job_id"], ["image/png"], [])]
