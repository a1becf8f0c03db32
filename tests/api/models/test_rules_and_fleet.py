"""Rules and whole fleets over HTTP."""

from __future__ import annotations

import pytest

from corral.models.rules import read_seed
from tests.api.models.refusals import assert_refused
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import join_node
from tests.support.replicas import insert_rule_backoff


async def test_rule_is_put_read_and_removed(frontend: RunningFrontend):
    status, rule = await frontend.call("PUT", "/api/rules/a%2Fb", {"selector": "zone=b", "min_replicas": 1})
    assert (status, rule["model"], rule["selector"], rule["model_exists"]) == (200, "a/b", {"zone": "b"}, False)
    status, rules = await frontend.call("GET", "/api/rules")
    assert [one["model"] for one in rules] == ["a/b"]
    assert (await frontend.call("GET", "/api/rules/a%2Fb"))[1] == rule
    status, gone = await frontend.call("DELETE", "/api/rules/a%2Fb")
    assert (status, gone["model"]) == (200, "a/b")
    assert_refused(await frontend.call("GET", "/api/rules/a%2Fb"), 404, "rule_not_found")
    assert_refused(await frontend.call("DELETE", "/api/rules/a%2Fb"), 404, "rule_not_found")


@pytest.mark.behaviour("NODE-57")
async def test_wrong_rule_is_refused_and_nothing_is_stored(frontend: RunningFrontend):
    for body, code in (
        ({"route_policy": "prefixcache"}, "bad_rule"),
        ({"min_replicas": 2, "max_replicas": 1}, "bad_rule"),
        ({"selector": "zone"}, "bad_selector"),
        ({"windows": [{"cron": "x", "duration": "1h"}]}, "bad_window"),
        ({"model": "other"}, "bad_rule"),
    ):
        assert_refused(await frontend.call("PUT", "/api/rules/m", body), 400, code)
    assert (await frontend.call("GET", "/api/rules"))[1] == []


async def test_localai_compatible_scheduling_routes_read_and_write_rules(frontend: RunningFrontend):
    body = {"model_name": "m", "node_selector": {"zone": "b"}, "spread_all": True, "route_policy": "round_robin"}
    status, rule = await frontend.call("POST", "/api/nodes/scheduling", body)
    assert (status, rule["spread_all"], rule["route_policy"]) == (200, True, "round_robin")
    # Routing is kept when it is not spoken of, the rest is replaced.
    _, rule = await frontend.call("POST", "/api/nodes/scheduling", {"model_name": "m", "min_replicas": 1})
    assert (rule["spread_all"], rule["min_replicas"], rule["node_selector"]) == (False, 1, {})
    assert rule["route_policy"] == "round_robin"
    assert (await frontend.call("GET", "/api/nodes/scheduling"))[1][0]["model_name"] == "m"
    assert (await frontend.call("GET", "/api/nodes/scheduling/m"))[0] == 200
    assert (await frontend.call("DELETE", "/api/nodes/scheduling/m"))[0] == 204
    assert_refused(await frontend.call("POST", "/api/nodes/scheduling", {}), 400, "bad_rule")


async def test_saving_over_http_ends_a_cooldown(frontend: RunningFrontend):
    await frontend.call("PUT", "/api/rules/m", {"min_replicas": 1})
    async with frontend.database.transaction() as tx:
        await insert_rule_backoff(tx, "m", 600)
    assert (await frontend.call("GET", "/api/rules/m"))[1]["unsatisfiable_until"] is not None
    _, rule = await frontend.call("PUT", "/api/rules/m", {"min_replicas": 1})
    assert (rule["unsatisfiable_until"], rule["unsatisfiable_ticks"]) == (None, 0)


@pytest.mark.behaviour("NODE-56")
async def test_frontend_makes_the_rules_of_its_settings_so_when_it_starts(database_url: str):
    rules = read_seed('[{"model": "m", "replicas": "all"}]', "")
    for _ in range(2):
        async with running_frontend(database_url, rules=rules) as frontend:
            _, found = await frontend.call("GET", "/api/rules")
            assert [(one["model"], one["spread_all"]) for one in found] == [("m", True)]
            await frontend.call("PUT", "/api/rules/m", {"min_replicas": 3})


@pytest.mark.behaviour("MOD-13")
async def test_fleet_is_planned_applied_and_exported(frontend: RunningFrontend):
    await join_node(frontend, "a")
    file = (
        "models: [{name: m, backend: fake}]\nrules: [{model: m, min_replicas: 1}]\nnodes: {a: {labels: {zone: b}}}\n"
        "galleries: {models: [{name: ours, url: 'https://files.example/index.yaml'}]}\n"
    )
    status, plan = await frontend.call("POST", "/api/fleet?plan=true", file, Content_Type="application/yaml")
    assert (status, plan["plan"]) == (200, True), plan
    assert (await frontend.call("GET", "/api/fleet"))[1] == {}
    status, done = await frontend.call("POST", "/api/fleet", file, Content_Type="application/yaml")
    assert (status, done["steps"]) == (200, plan["steps"])
    _, exported = await frontend.call("GET", "/api/fleet")
    assert set(exported) == {"models", "rules", "nodes", "galleries"}
    _, again = await frontend.call("POST", "/api/fleet", exported)
    assert {step["action"] for step in again["steps"]} == {"same"}
    _, pruned = await frontend.call("POST", "/api/fleet?prune=true", {})
    assert {step["action"] for step in pruned["steps"]} == {"remove"}
    assert (await frontend.call("GET", "/api/fleet"))[1] == {}


async def test_fleet_file_with_a_source_inside_a_network_is_refused(frontend: RunningFrontend):
    body = {"models": [{"name": "m", "backend": "fake", "files": ["http://10.0.0.1/m.gguf"]}]}
    assert_refused(await frontend.call("POST", "/api/fleet", body), 422, "private_address")


async def test_fleet_file_that_changes_galleries_takes_an_admin_key(frontend: RunningFrontend):
    galleries = {"galleries": {"backends": [{"name": "ours", "url": "http://127.0.0.9:18991/index"}]}}
    _, key = await frontend.call("POST", "/api/keys", {"name": "operator", "scope": "operate"})
    operate = key["key"]
    for query in ("", "?plan=true"):
        refused = await frontend.call("POST", f"/api/fleet{query}", galleries, key=operate)
        assert_refused(refused, 403, "admin_required")
    assert (await frontend.call("POST", "/api/fleet", galleries))[0] == 200
    # The same file again changes nothing, and needs no admin.
    assert (await frontend.call("POST", "/api/fleet", galleries, key=operate))[0] == 200
    assert_refused(await frontend.call("POST", "/api/fleet?prune=true", {}, key=operate), 403, "admin_required")
    _, audit = await frontend.call("GET", "/api/audit")
    entries = audit if isinstance(audit, list) else audit["entries"]
    (applied,) = [entry for entry in entries if entry["action"] == "fleet.apply"]
    assert "http://127.0.0.9:18991/index" in applied["detail"]


@pytest.mark.behaviour("SEC-12")
@pytest.mark.parametrize(
    "uri",
    [
        "https://ann:secret@files.example/m.gguf",
        "https://token@files.example/m.gguf",
        "https://files.example/m.gguf?token=hf_x",
        "https://files.example/m.gguf?download=1&Api%5FKey=x",
        "https://files.example/m.gguf?X-Amz-Signature=ab&token=x",
        "https://files.example/m.gguf?X-Amz-Security-Token=x",
    ],
)
async def test_model_whose_address_holds_a_password_or_a_token_is_refused(frontend: RunningFrontend, uri: str):
    body = {"name": "m", "backend": "fake", "files": [uri]}
    refused = await frontend.call("PUT", "/api/models/config/m", body)
    assert_refused(refused, 400, "secret_in_address")
    assert "signed URL" in refused[1]["error"]["hint"]
    assert_refused(await frontend.call("POST", "/api/fleet", {"models": [body]}), 400, "secret_in_address")
    plain = body | {"files": ["https://files.example/m@2.gguf?at=a@b"]}
    assert (await frontend.call("PUT", "/api/models/config/m", plain))[0] == 200


@pytest.mark.behaviour("SEC-12")
@pytest.mark.parametrize(
    "query",
    [
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIA%2F1&X-Amz-Security-Token=t&X-Amz-Signature=ab",
        "X-Goog-Credential=a%40b&X-Goog-Expires=60&X-Goog-Signature=ab",
        "AWSAccessKeyId=AKIA&Signature=ab&Expires=1",
        "Expires=1&Signature=ab&Key-Pair-Id=K1",
        "sv=2024-01-01&se=2030&sig=ab",
    ],
)
async def test_model_whose_address_is_a_signed_url_is_stored(frontend: RunningFrontend, query: str):
    body = {"name": "m", "backend": "fake", "files": [f"https://files.example/m.gguf?{query}"]}
    assert (await frontend.call("PUT", "/api/models/config/m", body))[0] == 200


async def test_rule_with_prefix_cache_is_stored_with_a_warning_that_it_has_no_effect(frontend: RunningFrontend):
    status, rule = await frontend.call("PUT", "/api/rules/m", {"route_policy": "prefix_cache"})
    assert (status, rule["route_policy"]) == (200, "prefix_cache")
    assert rule["warnings"] == [
        "route_policy prefix_cache is stored and has no effect yet: requests are routed by least_wait."
    ]
    assert (await frontend.call("GET", "/api/rules/m"))[1]["warnings"] == rule["warnings"]
    _, other = await frontend.call("PUT", "/api/rules/m", {"route_policy": "round_robin"})
    assert other["warnings"] == []
