"""`corral keys …` and `corral users …`: who may what, and how much."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from corral.cli import access
from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import KEY, NOON, a_cluster, a_key, json_answer


def a_user(**changes):
    user = {
        "id": "u1", "name": "ada", "scope": "operate", "has_password": True, "issuer": "", "disabled_at": None,
        "created_at": NOON.isoformat(), "created_by": "admin",
    }  # fmt: skip
    return user | changes


def test_key_is_made_with_everything_that_it_may(corral, frontend):
    frontend.on("GET /api/keys", json_answer([]))
    frontend.on("POST /api/keys", json_answer(a_key(key="ck_secret"), 201))
    outcome = corral(
        "keys", "create", "shop", "--scope", "infer", "--models", "llama-*, qwen", "--user", "ada",
        "--requests-per-minute", "60", "--tokens-per-day", "100000", "--expires", "30d",
    )  # fmt: skip
    assert outcome.out == "ck_secret\n"
    (body,) = bodies(frontend, "POST /api/keys")
    assert body == {
        "name": "shop",
        "scope": "infer",
        "models": ["llama-*", "qwen"],
        "user": "ada",
        "limits": [{"model": "", "requests_per_minute": 60, "tokens_per_day": 100_000}],
        "expires_in_s": 30 * 86400,
    }


def test_limit_replaces_the_one_of_its_model_and_leaves_the_others(corral, frontend):
    limits = [{"model": "", "tokens_per_day": 5}, {"model": "a", "requests_per_minute": 1}]
    frontend.on("GET /api/keys", json_answer([a_key()]))
    frontend.on("GET /api/keys/k1", json_answer(a_key(limits=limits)))
    frontend.on("PATCH /api/keys/k1", json_answer(a_key(limits=limits)))
    assert corral("keys", "limit", "ci", "--model", "a", "--tokens-per-minute", "7").code == 0
    assert corral("keys", "limit", "ci").code == 0
    first, second = bodies(frontend, "PATCH /api/keys/k1")
    assert [_drop_unset(limit) for limit in first["limits"]] == [
        {"model": "", "tokens_per_day": 5},
        {"model": "a", "tokens_per_minute": 7},
    ]
    assert [_drop_unset(limit) for limit in second["limits"]] == [{"model": "a", "requests_per_minute": 1}]
    assert set(first) == {"limits"}


def _drop_unset(limit):
    return {name: value for name, value in limit.items() if value is not None}


def test_rotated_key_may_leave_the_old_one_some_time(corral, frontend):
    frontend.on("GET /api/keys", json_answer([a_key()]))
    frontend.on("POST /api/keys/k1/rotate", json_answer(a_key(key="ck_newer", previous_until=NOON.isoformat()), 201))
    outcome = corral("keys", "rotate", "ci", "--grace", "1h")
    assert outcome.out == "ck_newer\n"
    assert "the old one works until" in outcome.err
    assert bodies(frontend, "POST /api/keys/k1/rotate") == [{"grace_s": 3600}]
    assert corral("keys", "rotate", "ci", "--grace", "soon").err.startswith("error: --grace is not a duration")


class ClosedPipe(io.StringIO):
    """Standard output whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.mark.behaviour("KEY-2")
def test_keys_rotate_writes_the_key_file_when_standard_output_is_closed(corral, frontend, monkeypatch, tmp_path):
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "state.json").write_text(json.dumps({"url": frontend.url}))
    (tmp_path / "admin.key").write_text(f"{KEY}\n")
    frontend.on("GET /api/keys", json_answer([a_key()]))
    nothing = dict.fromkeys(("user_id", "node_id", "models"))
    frontend.on("GET /api/me", json_answer({"name": "ci", "scope": "admin", "key_id": "k1", "limits": [], **nothing}))
    frontend.on("POST /api/keys/k1/rotate", json_answer(a_key(key="ck_newer"), 201))
    frontend.keys.add("ck_newer")
    monkeypatch.setattr(sys, "stdout", ClosedPipe())
    corral("keys", "rotate", "ci")
    assert (tmp_path / "admin.key").read_text() == "ck_newer\n"


def test_key_change_sends_only_the_given_fields(corral, frontend):
    frontend.on("GET /api/keys", json_answer([a_key()]))
    frontend.on("PATCH /api/keys/k1", json_answer(a_key()))
    corral("keys", "change", "ci", "--scope", "infer")
    corral("keys", "change", "ci", "--models", "all", "--expires", "never")
    corral("keys", "change", "ci", "--models", "a,b", "--name", "new")
    assert bodies(frontend, "PATCH /api/keys/k1") == [
        {"scope": "infer"},
        {"models": None, "expires_in_s": None},
        {"models": ["a", "b"], "name": "new"},
    ]


def test_key_is_shown_with_what_it_may_and_how_much(corral, frontend):
    limits = [{"model": "", "requests_per_minute": 60}, {"model": "llama", "tokens_per_month": 7}]
    shown = a_key(scope="infer", models=["llama-*"], user_name="ada", limits=limits)
    frontend.on("GET /api/keys", json_answer([shown]))
    frontend.on("GET /api/keys/k1", json_answer(shown))
    out = corral("keys", "show", "ci").out
    for text in ("infer", "llama-*", "ada", "all together", "60", "TOKENS/MONTH"):
        assert text in out
    assert json.loads(corral("keys", "show", "ci", "--json").out)["limits"][1]["tokens_per_month"] == 7
    listed = corral("keys", "list").out.splitlines()
    assert listed[0].split() == ["ID", "NAME", "KEY", "STATE", "SCOPE", "MODELS", "LAST", "USED", "EXPIRES", "CREATED"]
    # Used, and expiring.
    assert listed[1].count("never") == 2
    frontend.on("GET /api/keys", json_answer([shown | {"last_used_at": NOON.isoformat()}]))
    assert corral("keys", "list").out.splitlines()[1].count("never") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("keys", "create", ""),
        ("keys", "create", "k", "--scope", "root"),
        ("keys", "change", "k", "--scope", "root"),
        ("users", "create", "two words", "--no-password"),
        ("users", "create", "ada", "--scope", "root", "--no-password"),
    ],
)
def test_invalid_key_options_are_refused_before_a_request(corral, frontend, words):
    outcome = corral(*words)
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert "Traceback" not in outcome.err
    assert frontend.seen == []


def test_first_user_is_made_with_a_password_from_standard_input(corral, frontend):
    frontend.on("POST /api/users", json_answer(a_user(scope="admin"), 201))
    outcome = corral("users", "create", "Ada", "--admin", "--password-stdin", typed="a long password\n")
    assert outcome.code == 0
    assert bodies(frontend, "POST /api/users") == [{"name": "ada", "scope": "admin", "password": "a long password"}]
    assert "a long password" not in outcome.out + outcome.err


def test_create_user_reads_the_password_twice_on_a_terminal(corral, frontend, monkeypatch):
    frontend.on("POST /api/users", json_answer(a_user(), 201))
    typed = iter(["a long password", "another one"])
    monkeypatch.setattr(access, "getpass", lambda *_: next(typed))
    outcome = corral("users", "create", "ada", is_terminal=True)
    assert (outcome.code, outcome.err) == (1, "error: The two passwords differ.\n")
    assert frontend.seen == []


def test_create_user_does_not_prompt_without_a_terminal(corral, frontend):
    outcome = corral("users", "create", "ada")
    assert outcome.code == 1
    assert "--password-stdin" in outcome.err


def test_short_password_is_refused_and_not_repeated(corral, frontend):
    outcome = corral("users", "create", "ada", "--password-stdin", typed="secret1\n")
    assert outcome.code == 1
    assert "secret1" not in outcome.err


def test_users_are_listed_changed_and_deleted_by_name(corral, frontend):
    frontend.on("GET /api/users", json_answer([a_user(), a_user(id="u2", name="bob", has_password=False)]))
    frontend.on("PATCH /api/users/u1", json_answer(a_user()))
    frontend.on("DELETE /api/users/u1", json_answer(a_user()))
    listed = corral("users", "list").out
    assert listed.splitlines()[0].split("  ")[0] == "ID"
    assert "keys only" in listed
    assert corral("users", "disable", "ada").code == 0
    assert corral("users", "enable", "ADA").code == 0
    assert corral("users", "scope", "u1", "infer").code == 0
    assert corral("users", "passwd", "ada", "--password-stdin", typed="a new password\n").code == 0
    assert corral("users", "delete", "ada").code == 0
    assert bodies(frontend, "PATCH /api/users/u1") == [
        {"disabled": True},
        {"disabled": False},
        {"scope": "infer"},
        {"password": "a new password"},
    ]


def test_key_that_may_only_ask_models_can_log_in(corral, frontend):
    refusal = {"code": "not_allowed", "message": "shop may only ask models.", "type": "corral_error", "hint": None}
    frontend.on("GET /api/cluster", json_answer({"error": refusal}, 403))
    nothing = dict.fromkeys(("user_id", "node_id", "models"))
    me: dict[str, Any] = {"name": "shop", "scope": "infer", "key_id": "k", "limits": [], **nothing}
    frontend.on("GET /api/me", json_answer(me))
    outcome = corral("login", frontend.url, "--key-stdin", typed=f"{KEY}\n")
    assert outcome.code == 0
    assert "as shop, with scope infer" in outcome.err
    frontend.on("GET /api/cluster", json_answer(a_cluster()))
    assert "frontend front-1" in corral("login", frontend.url, "--key-stdin", typed=f"{KEY}\n").err
