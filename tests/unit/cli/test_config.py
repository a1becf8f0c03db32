"""`corral config …`"""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def worker(monkeypatch):
    monkeypatch.setenv("CORRAL_JOIN", "http://f:1")
    monkeypatch.setenv("CORRAL_TOKEN", "cj_0123456789")


@pytest.mark.behaviour("SET-4")
def test_config_check_reports_unknown_variables(corral, worker, monkeypatch):
    assert corral("config", "check").code == 0
    monkeypatch.setenv("CORRAL_JION", "x")
    outcome = corral("config", "check")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.count("CORRAL_JION") == 1
    assert "Did you mean CORRAL_JOIN?" in outcome.err


def test_check_without_a_process_leaves_out_what_is_not_set_up(corral, worker):
    outcome = corral("config", "check")
    assert "frontend: not set up here" in outcome.err
    assert "The settings are valid: worker, up." in outcome.err


def test_check_of_a_process_wants_its_required_settings(corral):
    outcome = corral("config", "check", "frontend", "--json")
    assert outcome.code == 1
    problems = json.loads(outcome.out)["problems"]
    assert {problem["setting"] for problem in problems} == {
        "CORRAL_DATABASE_URL",
        "CORRAL_NATS_URL",
        "CORRAL_NATS_ACCOUNT_SEED",
    }


def test_check_reads_the_file_that_is_named(corral, tmp_path):
    path = tmp_path / "corral.toml"
    path.write_text("[worker]\njoin = 'http://f'\nlables = 'a=b'\n")
    outcome = corral("config", "check", "--config", str(path))
    assert outcome.code == 1
    assert "Did you mean labels?" in outcome.err


@pytest.mark.behaviour("SET-10")
def test_show_prints_values_and_origins_without_secrets(corral, worker):
    outcome = corral("config", "show", "worker")
    assert "environment CORRAL_TOKEN" in outcome.out
    assert "cj_0123456789" not in outcome.out + outcome.err
    shown = {item["key"]: item for item in json.loads(corral("config", "show", "worker", "--json").out)["worker"]}
    assert shown["token"]["value"] == "••••"
    assert shown["http_host"] == {
        "key": "http_host", "environment": "CORRAL_HTTP_HOST", "value": "127.0.0.1", "origin": "default",
        "section": "addresses", "sentence": "Address that the worker listens on.", "is_secret": False,
    }  # fmt: skip
