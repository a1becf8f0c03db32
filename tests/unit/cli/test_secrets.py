"""`corral secrets …`: the value comes from a prompt or standard input, and is shown nowhere."""

from __future__ import annotations

import io
import json
import sys

import pytest

from corral.cli import secrets
from corral.cli.main import run
from corral.domain.secret import VALUE_BYTES_MAX
from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import json_answer, refusal

PLAIN = "hf_PLAIN"
AT = "2026-01-02T12:00:00Z"


def a_secret(**changes):
    made = {
        "id": "s1", "name": "hub", "reference": "secret:hub", "created_at": AT,
        "updated_at": AT, "changed_by": "ada", "last_used_at": None,
    }  # fmt: skip
    return made | changes


def test_secrets_are_listed_with_their_reference_and_last_use(corral, frontend):
    cluster = a_secret(name="s3", reference="cluster-secret:s3", last_used_at=AT)
    frontend.on("GET /api/secrets", json_answer([a_secret(), cluster]))
    lines = corral("secrets", "list").out.splitlines()
    assert lines[0].split() == ["NAME", "REFERENCE", "SET", "LAST", "USED"]
    assert "secret:hub" in lines[1]
    assert "by ada" in lines[1]
    assert lines[1].endswith("never")
    assert lines[2].endswith("ago")
    assert json.loads(corral("secrets", "list", "--json").out) == [a_secret(), cluster]


def test_secrets_list_without_any_says_how_to_store_one(corral, frontend):
    frontend.on("GET /api/secrets", json_answer([]))
    assert corral("secrets", "list").err == "There are no secrets. `corral secrets set NAME` stores one.\n"
    outcome = corral("secrets", "list", "--cluster")
    assert outcome.err == "There are no cluster secrets. `corral secrets set --cluster NAME` stores one.\n"
    assert [call.query for call in frontend.seen] == [{}, {"scope": "cluster"}]


@pytest.mark.behaviour("SEC-9")
@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_secrets_set_reads_standard_input_without_its_last_line_break(corral, frontend, ending):
    frontend.on("PUT /api/secrets/hub", json_answer(a_secret()))
    outcome = corral("secrets", "set", "hub", typed=f"{PLAIN}\nsecond line{ending}")
    assert outcome.code == 0
    assert bodies(frontend, "PUT /api/secrets/hub") == [{"value": f"{PLAIN}\nsecond line"}]
    assert outcome.err == "Stored secret hub. Configurations refer to it as secret:hub.\n"
    assert PLAIN not in outcome.out + outcome.err


@pytest.mark.behaviour("SEC-9")
def test_secrets_set_asks_on_a_terminal_without_showing_the_value(corral, frontend, monkeypatch):
    frontend.on("PUT /api/secrets/hub", json_answer(a_secret(reference="cluster-secret:hub")))
    prompts = []

    def ask(prompt, stream):
        prompts.append((prompt, stream))
        return PLAIN

    monkeypatch.setattr(secrets, "getpass", ask)
    outcome = corral("secrets", "set", "hub", "--cluster", is_terminal=True)
    assert prompts == [("Value of hub (not shown): ", sys.stderr)]
    assert bodies(frontend, "PUT /api/secrets/hub") == [{"value": PLAIN}]
    assert [call.query for call in frontend.seen] == [{"scope": "cluster"}]
    assert outcome.err == "Stored cluster secret hub. Configurations refer to it as cluster-secret:hub.\n"


@pytest.mark.behaviour("SEC-9")
def test_secrets_set_takes_no_value_as_an_argument(corral, frontend):
    assert corral("secrets", "set", "hub", PLAIN, typed="x").code == 2
    assert corral("secrets", "set", "hub", "--value", PLAIN, typed="x").code == 2
    assert frontend.seen == []


def test_secrets_set_prints_json_of_the_entry(corral, frontend):
    frontend.on("PUT /api/secrets/hub", json_answer(a_secret()))
    assert json.loads(corral("secrets", "set", "hub", "--json", typed=PLAIN).out) == a_secret()


@pytest.mark.behaviour("SEC-10")
@pytest.mark.parametrize(
    ("name", "typed", "sentence"),
    [
        ("two words", PLAIN, "1 to 100 letters"),
        (PLAIN * 20, PLAIN, "1 to 100 letters"),
        ("hub", "", "is empty"),
        ("hub", "\n", "is empty"),
        ("hub", f"{PLAIN}\x00", "NUL"),
        ("hub", f"{PLAIN}\udcff", "not valid Unicode"),
        ("hub", PLAIN + "x" * 2 * VALUE_BYTES_MAX, "larger than 64 KiB"),
    ],
)
def test_invalid_secret_is_refused_before_a_request_and_not_repeated(corral, frontend, name, typed, sentence):
    outcome = corral("secrets", "set", name, typed=typed)
    assert outcome.code == 1
    assert sentence in outcome.err
    assert "hint: " in outcome.err
    assert "PLAIN" not in outcome.err
    assert frontend.seen == []


def test_secret_of_the_largest_size_with_a_line_break_is_sent(corral, frontend):
    frontend.on("PUT /api/secrets/hub", json_answer(a_secret()))
    assert corral("secrets", "set", "hub", typed="x" * VALUE_BYTES_MAX + "\r\n").code == 0
    assert [len(body["value"]) for body in bodies(frontend, "PUT /api/secrets/hub")] == [VALUE_BYTES_MAX]


def test_standard_input_that_is_not_text_is_refused(frontend, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe\x00"), encoding="utf-8"))
    assert run(["secrets", "set", "hub"]) == 1
    assert "error: Standard input is not text." in capsys.readouterr().err
    assert frontend.seen == []


def test_secret_is_deleted_by_name(corral, frontend):
    frontend.on("DELETE /api/secrets/hub", json_answer("", 204))
    assert corral("secrets", "delete", "hub").err == "Deleted secret hub.\n"
    assert json.loads(corral("secrets", "delete", "hub", "--json", "--cluster").out) == {"name": "hub", "deleted": True}
    assert [call.query for call in frontend.seen] == [{}, {"scope": "cluster"}]


def test_refusal_of_a_frontend_without_a_key_is_shown_with_its_hint(corral, frontend):
    frontend.on("PUT /api/secrets/hub", refusal(503, "no_secrets_key", "This frontend cannot seal secrets."))
    outcome = corral("secrets", "set", "hub", typed=PLAIN)
    assert outcome.code == 1
    assert outcome.err.startswith("error: This frontend cannot seal secrets.")
    assert PLAIN not in outcome.err
