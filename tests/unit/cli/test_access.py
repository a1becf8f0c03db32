"""`corral tokens …`, `corral keys …`, `corral cluster`."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import a_cluster, a_key, a_token, join_commands, json_answer, refusal


@pytest.mark.behaviour("CLI-12")
def test_token_is_alone_on_standard_output_and_comes_with_the_join_command(corral, frontend):
    frontend.on("GET /api/join", json_answer(join_commands()))
    frontend.on("POST /api/tokens", json_answer(a_token(token="cj_secret"), 201))
    outcome = corral("tokens", "create", "--uses", "3", "--expires", "1h", "--name", "rack 2")
    assert outcome.out == "cj_secret\n"
    assert "\n  curl -fsSL http://yard:8080/join | sh -s -- --token cj_secret\n" in outcome.err
    assert "\n  corral worker --join http://yard:8080 --token cj_secret\n" in outcome.err
    assert "a1b2" in outcome.err
    assert "warning" not in outcome.err
    assert "corral nodes approve" in outcome.err
    (body,) = bodies(frontend, "POST /api/tokens")
    assert body == {"name": "rack 2", "max_uses": 3, "expires_in_s": 3600, "approves": False}


@pytest.mark.behaviour("CLI-12")
def test_token_as_json_holds_the_join_command(corral, frontend):
    frontend.on("GET /api/join", json_answer(join_commands()))
    frontend.on("POST /api/tokens", json_answer(a_token(token="cj_secret"), 201))
    outcome = corral("tokens", "create", "--json", "--uses", "0", "--expires", "never", "--approve")
    made = json.loads(outcome.out)
    assert made["join_command"] == "curl -fsSL http://yard:8080/join | sh -s -- --token cj_secret"
    (body,) = bodies(frontend, "POST /api/tokens")
    assert (body["max_uses"], body["expires_in_s"], body["approves"]) == (None, None, True)


def test_tokens_create_warns_before_the_token_is_made_if_no_other_machine_can_join(corral, frontend):
    frontend.on("GET /api/join", json_answer(join_commands(problem="Nobody can reach it.", hint="Open it.")))
    frontend.on("POST /api/tokens", json_answer(a_token(token="cj_secret"), 201))
    outcome = corral("tokens", "create")
    assert outcome.err.startswith("warning: Nobody can reach it.\n\nhint: Open it.\n")
    assert [f"{call.method} {call.path}" for call in frontend.seen] == ["GET /api/join", "POST /api/tokens"]


def test_unclear_lifetime_is_refused_before_anything_is_sent(corral, frontend):
    outcome = corral("tokens", "create", "--expires", "soon")
    assert outcome.code == 1
    assert outcome.err.startswith("error: --expires is not a duration ('soon')")
    assert frontend.seen == []


def test_tokens_and_keys_are_listed_without_secrets(corral, frontend):
    frontend.on("GET /api/tokens", json_answer([a_token(), a_token(id="t2", max_uses=None, state="revoked")]))
    frontend.on("GET /api/keys", json_answer([a_key()]))
    tokens = corral("tokens", "list").out.splitlines()
    assert tokens[0].split() == ["ID", "NAME", "TOKEN", "STATE", "USES", "APPROVES", "EXPIRES", "CREATED"]
    assert "0/1" in tokens[1]
    assert "0/any" in tokens[2]
    assert "ck_4Fab…" in corral("keys", "list").out
    assert json.loads(corral("keys", "list", "--json").out)[0]["id"] == "k1"


@pytest.mark.parametrize("reference", ["t1", "rack 2", "cj_9fKq"])
def test_token_is_revoked_by_id_name_or_first_characters(corral, frontend, reference):
    frontend.on("GET /api/tokens", json_answer([a_token(), a_token(id="t0", state="revoked")]))
    frontend.on("DELETE /api/tokens/t1", json_answer(a_token(state="revoked")))
    outcome = corral("tokens", "revoke", reference)
    assert outcome.code == 0
    assert "is revoked" in outcome.err


def test_name_that_fits_several_keys_is_refused_with_their_ids(corral, frontend):
    frontend.on("GET /api/keys", json_answer([a_key(), a_key(id="k2")]))
    outcome = corral("keys", "revoke", "ci")
    assert outcome.code == 1
    assert "k1, k2" in outcome.err


@pytest.mark.behaviour("CLI-12")
def test_keys_are_made_rotated_and_revoked(corral, frontend):
    frontend.on("POST /api/keys", json_answer(a_key(key="ck_secret"), 201))
    frontend.on("GET /api/keys", json_answer([a_key()]))
    frontend.on("GET /api/me", json_answer(a_me("k0")))
    frontend.on("POST /api/keys/k1/rotate", json_answer(a_key(key="ck_newer"), 201))
    frontend.on("DELETE /api/keys/k1", json_answer(a_key(state="revoked")))
    assert corral("keys", "create", "shop", "--expires", "90d").out == "ck_secret\n"
    assert bodies(frontend, "POST /api/keys") == [{"name": "shop", "expires_in_s": 90 * 86400}]
    assert corral("keys", "rotate", "ci").out == "ck_newer\n"
    assert corral("keys", "revoke", "k1").code == 0


def a_me(key_id):
    return {
        "name": "admin", "scope": "admin", "key_id": key_id, "user_id": None, "node_id": None, "models": None,
        "limits": [],
    }  # fmt: skip


LAST = {"error": {"type": "conflict", "code": "last_key", "message": "This is the last admin key that works."}}


@pytest.mark.behaviour("KEY-5")
@pytest.mark.parametrize(
    ("flags", "scope", "words"),
    [
        ((), "infer", "may ask every model (scope infer). It expires never"),
        (("--admin",), "admin", "may do everything (scope admin)"),
        (("--scope", "operate"), "operate", "may run the cluster"),
    ],
)
def test_keys_create_says_what_the_key_may_and_until_when(corral, frontend, flags, scope, words):
    frontend.on("GET /api/keys", json_answer([]))
    frontend.on("POST /api/keys", json_answer(a_key(key="ck_secret", scope=scope), 201))
    outcome = corral("keys", "create", "ci", *flags)
    assert outcome.out == "ck_secret\n"
    assert words in outcome.err
    assert [body.get("scope") for body in bodies(frontend, "POST /api/keys")] == [scope if flags else None]


@pytest.mark.behaviour("KEY-5")
def test_keys_create_shows_the_refusal_of_a_taken_name(corral, frontend):
    frontend.on("POST /api/keys", refusal(409, "key_name_taken", "There is a key named ci already."))
    outcome = corral("keys", "create", "ci")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("error: There is a key named ci already.")


@pytest.mark.behaviour("KEY-5")
def test_keys_create_refuses_admin_with_another_scope(corral, frontend):
    outcome = corral("keys", "create", "ci", "--admin", "--scope", "infer")
    assert outcome.code == 1
    assert frontend.seen == []


@pytest.mark.behaviour("KEY-6")
@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_keys_revoke_asks_before_the_key_in_use_is_revoked(corral, frontend, typed, code):
    frontend.on("GET /api/keys", json_answer([a_key()]))
    frontend.on("GET /api/me", json_answer(a_me("k1")))
    frontend.on("DELETE /api/keys/k1", json_answer(a_key(state="revoked")))
    outcome = corral("keys", "revoke", "ci", typed=typed, is_terminal=True)
    assert (outcome.code, len(bodies(frontend, "DELETE /api/keys/k1"))) == (code, 1 - code)
    assert "the key that you are using" in outcome.err


@pytest.mark.behaviour("KEY-6")
def test_keys_revoke_without_terminal_needs_flag_for_the_key_in_use(corral, frontend):
    frontend.on("GET /api/keys", json_answer([a_key()]))
    frontend.on("GET /api/me", json_answer(a_me("k1")))
    frontend.on("DELETE /api/keys/k1", json_answer(a_key(state="revoked")))
    refused = corral("keys", "revoke", "ci")
    assert (refused.code, bodies(frontend, "DELETE /api/keys/k1")) == (1, [])
    assert "--yes" in refused.err
    assert corral("keys", "revoke", "ci", "--yes").code == 0


@pytest.mark.behaviour("KEY-6")
def test_keys_revoke_of_last_admin_key_names_the_way_back(corral, frontend):
    frontend.on("GET /api/keys", json_answer([a_key()]))
    frontend.on("GET /api/me", json_answer(a_me("k1")))
    frontend.on("DELETE /api/keys/k1", json_answer(LAST, 409))
    refused = corral("keys", "revoke", "ci", "--yes")
    assert refused.code == 1
    assert "corral keys recover" in refused.err
    assert "--last" in refused.err
    frontend.on("DELETE /api/keys/k1", json_answer(a_key(state="revoked")))
    assert corral("keys", "revoke", "ci", "--last").code == 0
    assert [seen.query for seen in frontend.seen if seen.method == "DELETE"] == [{}, {"last": "true"}]


def test_cluster_shows_frontends_leader_and_parts(corral, frontend):
    frontend.on("GET /api/cluster", json_answer(a_cluster(degraded=["NATS does not respond."])))
    outcome = corral("cluster")
    for text in ("front-1 (term 7, for", "up: 18.4", "1 healthy", "10.0.0.1:8080", "leader"):
        assert text in outcome.out
    assert outcome.err == "degraded: NATS does not respond.\n"
    assert json.loads(corral("cluster", "--json").out)["leader"]["term"] == 7


def test_cluster_without_a_leader_says_so(corral, frontend):
    leader = {"holder": None, "term": 3, "acquired_at": None, "expires_at": None}
    frontend.on("GET /api/cluster", json_answer(a_cluster(leader=leader, nodes=[], frontends=[])))
    assert "none (term 3)" in corral("cluster").out
