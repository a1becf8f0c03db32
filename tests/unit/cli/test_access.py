"""`corral tokens …`, `corral keys …`, `corral cluster`."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import a_cluster, a_key, a_token, json_answer


@pytest.mark.behaviour("CLI-12")
def test_a_token_is_alone_on_standard_output_and_comes_with_the_join_command(corral, frontend):
    frontend.on("POST /api/tokens", json_answer(a_token(token="cj_secret"), 201))
    outcome = corral("tokens", "create", "--uses", "3", "--expires", "1h", "--name", "rack 2")
    assert outcome.out == "cj_secret\n"
    assert f"corral worker --join {frontend.url} --token cj_secret" in outcome.err
    assert "corral nodes approve" in outcome.err
    (body,) = bodies(frontend, "POST /api/tokens")
    assert body == {"name": "rack 2", "max_uses": 3, "expires_in_s": 3600, "approves": False}


@pytest.mark.behaviour("CLI-12")
def test_a_token_as_json_holds_the_join_command(corral, frontend):
    frontend.on("POST /api/tokens", json_answer(a_token(token="cj_secret"), 201))
    outcome = corral("tokens", "create", "--json", "--uses", "0", "--expires", "never", "--approve")
    made = json.loads(outcome.out)
    assert made["join_command"] == f"corral worker --join {frontend.url} --token {made['token']}"
    (body,) = bodies(frontend, "POST /api/tokens")
    assert (body["max_uses"], body["expires_in_s"], body["approves"]) == (None, None, True)


def test_an_unclear_lifetime_is_refused_before_anything_is_sent(corral, frontend):
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


@pytest.mark.parametrize("said", ["t1", "rack 2", "cj_9fKq"])
def test_a_token_is_revoked_by_id_name_or_first_characters(corral, frontend, said):
    frontend.on("GET /api/tokens", json_answer([a_token(), a_token(id="t0", state="revoked")]))
    frontend.on("DELETE /api/tokens/t1", json_answer(a_token(state="revoked")))
    outcome = corral("tokens", "revoke", said)
    assert outcome.code == 0
    assert "is revoked" in outcome.err


def test_a_name_that_fits_several_keys_is_refused_with_their_ids(corral, frontend):
    frontend.on("GET /api/keys", json_answer([a_key(), a_key(id="k2")]))
    outcome = corral("keys", "revoke", "ci")
    assert outcome.code == 1
    assert "k1, k2" in outcome.err


@pytest.mark.behaviour("CLI-12")
def test_keys_are_made_rotated_and_revoked(corral, frontend):
    frontend.on("POST /api/keys", json_answer(a_key(key="ck_secret"), 201))
    frontend.on("GET /api/keys", json_answer([a_key()]))
    frontend.on("POST /api/keys/k1/rotate", json_answer(a_key(key="ck_newer"), 201))
    frontend.on("DELETE /api/keys/k1", json_answer(a_key(state="revoked")))
    assert corral("keys", "create", "ci", "--expires", "90d").out == "ck_secret\n"
    assert bodies(frontend, "POST /api/keys") == [{"name": "ci", "expires_in_s": 90 * 86400}]
    assert corral("keys", "rotate", "ci").out == "ck_newer\n"
    assert corral("keys", "revoke", "k1").code == 0


def test_the_cluster_shows_frontends_leader_and_parts(corral, frontend):
    frontend.on("GET /api/cluster", json_answer(a_cluster(degraded=["NATS does not answer."])))
    outcome = corral("cluster")
    for text in ("front-1 (term 7, for", "up: 18.4", "1 healthy", "10.0.0.1:8080", "leader"):
        assert text in outcome.out
    assert outcome.err == "degraded: NATS does not answer.\n"
    assert json.loads(corral("cluster", "--json").out)["leader"]["term"] == 7


def test_a_cluster_without_a_leader_says_so(corral, frontend):
    leader = {"holder": None, "term": 3, "acquired_at": None, "expires_at": None}
    frontend.on("GET /api/cluster", json_answer(a_cluster(leader=leader, nodes=[], frontends=[])))
    assert "none (term 3)" in corral("cluster").out
