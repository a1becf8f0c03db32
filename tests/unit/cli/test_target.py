"""Whom a command talks to, and logging in and out."""

from __future__ import annotations

import json

import pytest

from corral.cli.target import StoredLogin, find_target, get_credentials_path, read_login, store_login
from tests.unit.client.standin import KEY, StandIn, a_cluster, json_answer, served_in_a_thread

OURS = "http://127.0.0.1:18080"


def a_home(path, url: str = OURS, key: str | None = "ck_home"):
    (path / "run").mkdir(parents=True)
    (path / "run" / "state.json").write_text(json.dumps({"url": url}))
    if key is not None:
        (path / "admin.key").write_text(f"{key}\n")
    return path


@pytest.mark.behaviour("CLI-5")
def test_flag_wins_over_login_and_login_over_the_local_cluster(tmp_path, monkeypatch):
    monkeypatch.setenv("CORRAL_HOME", str(a_home(tmp_path / "home")))
    assert (find_target({}).url, find_target({}).key) == (OURS, "ck_home")
    store_login(StoredLogin(url="http://login:1", key="ck_login"))
    assert (find_target({}).url, find_target({}).key) == ("http://login:1", "ck_login")
    monkeypatch.setenv("CORRAL_URL", "http://env:1")
    monkeypatch.setenv("CORRAL_KEY", "ck_env")
    assert (find_target({}).url, find_target({}).key) == ("http://env:1", "ck_env")
    found = find_target({"url": "http://flag:1/", "key": "ck_flag"})
    assert (found.url, found.key) == ("http://flag:1", "ck_flag")


@pytest.mark.behaviour("CLI-5")
def test_key_is_not_sent_to_another_address(tmp_path, monkeypatch):
    monkeypatch.setenv("CORRAL_HOME", str(a_home(tmp_path / "home")))
    store_login(StoredLogin(url="http://login:1", key="ck_login"))
    assert find_target({"url": "http://elsewhere:1"}).key is None
    assert find_target({"url": "http://login:1"}).key == "ck_login"
    assert find_target({"url": OURS}).key == "ck_home"


def test_key_can_come_from_a_file(tmp_path, monkeypatch):
    path = tmp_path / "key"
    path.write_text("ck_file\n")
    monkeypatch.setenv("CORRAL_KEY_FILE", str(path))
    assert find_target({"url": OURS}).key == "ck_file"


def test_local_cluster_is_in_the_home_directory(tmp_path):
    a_home(tmp_path / ".corral", key=None)
    assert (find_target({}).url, find_target({}).key) == (OURS, None)


@pytest.mark.parametrize("state", ["", "[]", "{}", '{"url": ""}', "null"])
def test_unreadable_state_is_no_cluster(corral, tmp_path, state):
    (tmp_path / ".corral" / "run").mkdir(parents=True)
    (tmp_path / ".corral" / "run" / "state.json").write_text(state)
    outcome = corral("nodes", "list")
    assert outcome.code == 1
    assert outcome.err.startswith("error: There is no cluster to talk to.")
    assert "`corral up`" in outcome.err


@pytest.mark.behaviour("CLI-5")
def test_address_that_does_not_answer_gets_advice_by_how_it_was_found(corral, tmp_path):
    free = StandIn()
    with served_in_a_thread(free):
        pass
    a_home(tmp_path / ".corral", free.url)
    local = corral("cluster")
    assert local.code == 1
    assert f"{free.url} does not respond" in local.err
    assert "`corral up` starts it" in local.err
    assert "Is the address right" in corral("cluster", "--url", free.url).err
    store_login(StoredLogin(url=free.url, key="k"))
    assert "`corral logout` deletes the login" in corral("cluster").err


def test_login_checks_the_key_and_keeps_it_for_its_owner_only(corral, frontend, monkeypatch):
    monkeypatch.delenv("CORRAL_URL")
    monkeypatch.delenv("CORRAL_KEY")
    frontend.on("GET /api/cluster", json_answer(a_cluster()))
    outcome = corral("login", frontend.url, "--key-stdin", typed=f"{KEY}\n")
    assert (outcome.code, outcome.out) == (0, "")
    assert KEY not in outcome.err
    assert get_credentials_path().stat().st_mode & 0o777 == 0o600
    assert get_credentials_path().parent.stat().st_mode & 0o777 == 0o700
    assert read_login() == StoredLogin(url=frontend.url, key=KEY)
    assert corral("cluster").code == 0
    assert corral("logout").code == 0
    assert read_login() is None
    assert corral("logout").code == 0


def test_wrong_key_is_not_kept_and_an_older_login_stays(corral, frontend, monkeypatch):
    monkeypatch.delenv("CORRAL_KEY")
    before = StoredLogin(url="http://login:1", key="ck_login")
    store_login(before)
    outcome = corral("login", frontend.url, "--key-stdin", typed="ck_wrong\n")
    assert outcome.code == 1
    assert outcome.err.startswith("error: This key is not known.")
    assert read_login() == before


def test_login_over_an_open_file_closes_it(corral):
    store_login(StoredLogin(url="http://login:1", key="a"))
    get_credentials_path().chmod(0o644)
    store_login(StoredLogin(url="http://login:1", key="b"))
    assert get_credentials_path().stat().st_mode & 0o777 == 0o600
    assert [path.name for path in get_credentials_path().parent.iterdir()] == ["credentials.toml"]


@pytest.mark.parametrize("typed", ["", "\n"])
def test_login_without_a_key_says_how_to_give_one(corral, frontend, monkeypatch, typed):
    monkeypatch.delenv("CORRAL_KEY")
    assert corral("login", frontend.url, "--key-stdin", typed=typed).code == 1
    assert "--key-stdin" in corral("login", frontend.url).err
    assert frontend.seen == []


def test_damaged_login_is_named(corral):
    store_login(StoredLogin(url="http://login:1", key="a"))
    get_credentials_path().write_text("url = ")
    outcome = corral("cluster")
    assert outcome.code == 1
    assert str(get_credentials_path()) in outcome.err
