"""What a key may: made with it, changed while it works, and the same on every frontend."""

from __future__ import annotations

from typing import Any

from tests.api.operations import assert_envelope
from tests.api.test_authentication import make_key
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import PretendNode, create_join_token
from tests.support.polling import eventually

LIMITS = [
    {"model": "", "requests_per_minute": 60, "tokens_per_day": 100_000},
    {"model": "llama", "tokens_per_minute": 5, "tokens_per_month": 7},
]


async def _patch(frontend: RunningFrontend, key_id: str, **change: Any) -> Any:
    status, answer = await frontend.call("PATCH", f"/api/keys/{key_id}", change)
    assert status == 200, answer
    return answer


def _pick_limits(limits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return limits without the fields that are not set."""
    return [{name: value for name, value in limit.items() if value is not None} for limit in limits]


async def test_key_is_made_with_scope_models_limits_and_an_end(frontend: RunningFrontend) -> None:
    made = await make_key(frontend, scope="infer", models=["llama-*", "qwen"], limits=LIMITS, expires_in_s=60)
    status, shown = await frontend.call("GET", f"/api/keys/{made['id']}")
    assert status == 200
    assert shown == {name: value for name, value in made.items() if name != "key"}
    assert (shown["scope"], shown["models"], shown["state"]) == ("infer", ["llama-*", "qwen"], "active")
    assert _pick_limits(shown["limits"]) == LIMITS
    assert shown["expires_at"]
    status, me = await frontend.call("GET", "/api/me", key=made["key"])
    assert (status, me["key_id"], me["scope"], me["models"]) == (200, made["id"], "infer", ["llama-*", "qwen"])
    assert _pick_limits(me["limits"]) == LIMITS


async def test_key_change_applies_here_at_once_elsewhere_soon_and_keeps_other_fields(
    frontend: RunningFrontend, database_url: str
) -> None:
    async with running_frontend(database_url) as other:
        made = await make_key(frontend, scope="operate", models=["a"], limits=LIMITS)
        assert (await other.call("GET", "/api/nodes", key=made["key"]))[0] == 200
        changed = await _patch(frontend, made["id"], scope="infer")
        assert (changed["scope"], changed["models"], _pick_limits(changed["limits"])) == ("infer", ["a"], LIMITS)
        assert (await frontend.call("GET", "/api/nodes", key=made["key"]))[0] == 403

        async def is_refused_there() -> bool:
            return (await other.call("GET", "/api/nodes", key=made["key"]))[0] == 403

        await eventually(is_refused_there)


async def test_null_takes_a_restriction_away_and_an_empty_list_of_limits_all_of_them(frontend: RunningFrontend) -> None:
    made = await make_key(frontend, scope="infer", models=["a"], limits=LIMITS, expires_in_s=60)
    changed = await _patch(frontend, made["id"], models=None, limits=[], expires_in_s=None, name="renamed")
    assert (changed["models"], changed["limits"], changed["expires_at"], changed["name"]) == (None, [], None, "renamed")
    changed = await _patch(frontend, made["id"], models=[])
    assert changed["models"] == []
    changed = await _patch(frontend, made["id"], limits=[{"tokens_per_day": 5}])
    assert _pick_limits(changed["limits"]) == [{"model": "", "tokens_per_day": 5}]


WRONG: list[Any] = [
    {"scope": "root"},
    {"scope": None},
    {"name": None},
    {"name": ""},
    {"models": "llama"},
    {"models": [""]},
    {"models": ["m"] * 101},
    {"limits": None},
    {"limits": [{}]},
    {"limits": [{"model": "m"}]},
    {"limits": [{"requests_per_minute": 0}]},
    {"limits": [{"requests_per_minute": 2**31}]},
    {"limits": [{"tokens_per_day": -1}]},
    {"limits": [{"tokens_per_week": 1}]},
    {"limits": [{"tokens_per_day": 1}, {"tokens_per_month": 1}]},
    {"expires_in_s": 0},
    {"secret": "mine"},
]


async def test_change_that_makes_no_sense_changes_nothing(frontend: RunningFrontend) -> None:
    made = await make_key(frontend, scope="infer", limits=LIMITS)
    before = (await frontend.call("GET", f"/api/keys/{made['id']}"))[1]
    for change in WRONG:
        status, answer = await frontend.call("PATCH", f"/api/keys/{made['id']}", change)
        assert status == 400, f"{change}: {answer}"
        assert_envelope(answer)
        status, answer = await frontend.call("POST", "/api/keys", {"name": "k"} | change)
        assert status == 400, f"{change}: {answer}"
    assert (await frontend.call("GET", f"/api/keys/{made['id']}"))[1] == before


async def test_keys_that_are_revoked_or_not_there_cannot_be_changed(frontend: RunningFrontend) -> None:
    made = await make_key(frontend)
    await frontend.call("DELETE", f"/api/keys/{made['id']}")
    status, answer = await frontend.call("PATCH", f"/api/keys/{made['id']}", {"name": "n"})
    assert (status, assert_envelope(answer)["code"]) == (409, "key_revoked")
    for unknown in ("00000000-0000-4000-8000-000000000000", "nonsense"):
        status, answer = await frontend.call("PATCH", f"/api/keys/{unknown}", {"name": "n"})
        assert (status, assert_envelope(answer)["code"]) == (404, "key_not_found")


async def test_last_admin_key_is_not_narrowed_and_a_key_for_asking_does_not_count(
    frontend: RunningFrontend,
) -> None:
    await make_key(frontend, scope="infer")
    await make_key(frontend, scope="operate")
    me = (await frontend.call("GET", "/api/me"))[1]
    for method, path, body in (("PATCH", "", {"scope": "operate"}), ("DELETE", "", None)):
        status, answer = await frontend.call(method, f"/api/keys/{me['key_id']}{path}", body)
        assert (status, assert_envelope(answer)["code"]) == (409, "last_key")
    assert (await frontend.call("GET", "/api/keys", key=ADMIN_KEY))[0] == 200
    await make_key(frontend, scope="admin")
    assert (await _patch(frontend, me["key_id"], scope="operate"))["scope"] == "operate"


async def test_key_of_an_agent_node_is_never_given_more_than_inference(frontend: RunningFrontend) -> None:
    agent = PretendNode(frontend, "agent-1")
    _, answer = await agent.register(await create_join_token(frontend, approves=True), node_type="agent", address="")
    me = (await frontend.call("GET", "/api/me", key=answer["api_token"]))[1]
    assert (me["scope"], me["node_id"]) == ("infer", agent.id)
    status, refused = await frontend.call("PATCH", f"/api/keys/{me['key_id']}", {"scope": "admin"})
    assert (status, assert_envelope(refused)["code"]) == (409, "key_of_node")
    assert (await _patch(frontend, me["key_id"], models=["small-*"]))["models"] == ["small-*"]


async def _works(frontend: RunningFrontend, secret: str) -> bool:
    return (await frontend.call("GET", "/api/me", key=secret))[0] == 200


async def _rotate(frontend: RunningFrontend, key_id: str, body: Any = None) -> Any:
    status, made = await frontend.call("POST", f"/api/keys/{key_id}/rotate", body)
    assert status == 201, made
    return made


async def test_rotation_with_a_grace_keeps_both_secrets_working_and_not_an_older_one(
    frontend: RunningFrontend, database_url: str
) -> None:
    async with running_frontend(database_url) as other:
        first = await make_key(frontend, scope="infer")
        second = await _rotate(frontend, first["id"], {"grace_s": 3600})
        assert second["previous_until"]
        for place in (frontend, other):
            assert await _works(place, first["key"])
            assert await _works(place, second["key"])
        me = (await frontend.call("GET", "/api/me", key=first["key"]))[1]
        assert (me["key_id"], me["scope"]) == (first["id"], "infer")
        third = await _rotate(frontend, first["id"], {"grace_s": 3600})
        assert [await _works(frontend, one["key"]) for one in (first, second, third)] == [False, True, True]
        await _rotate(frontend, first["id"])
        assert [await _works(frontend, one["key"]) for one in (first, second, third)] == [False, False, False]


async def test_old_secret_ends_with_its_grace_and_with_the_key(frontend: RunningFrontend) -> None:
    first = await make_key(frontend, scope="infer")
    second = await _rotate(frontend, first["id"], {"grace_s": 0.3})

    async def is_over() -> bool:
        return not await _works(frontend, first["key"])

    await eventually(is_over)
    assert (await frontend.call("GET", f"/api/keys/{first['id']}"))[1]["previous_until"] is None
    third = await _rotate(frontend, first["id"], {"grace_s": 3600})
    await frontend.call("DELETE", f"/api/keys/{first['id']}")
    assert [await _works(frontend, one["key"]) for one in (second, third)] == [False, False]


async def test_grace_that_makes_no_sense_rotates_nothing(frontend: RunningFrontend) -> None:
    made = await make_key(frontend)
    for body in ({"grace_s": 0}, {"grace_s": -1}, {"grace_s": 1e9}, {"grace": 5}):
        assert (await frontend.call("POST", f"/api/keys/{made['id']}/rotate", body))[0] == 400
    assert await _works(frontend, made["key"])
