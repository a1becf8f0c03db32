"""`corral settings …`"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import json_answer, refusal


def _setting(name: str, value: str | None, source: str = "default", *, is_live: bool = True) -> dict[str, Any]:
    words = {"section": "serving", "sentence": "Does something.", "is_secret": False}
    return {"name": name, "value": value, "source": source, "is_live": is_live} | words


def _settings(*settings: dict[str, Any]) -> dict[str, Any]:
    return {"answered_by": "front-1", "settings": list(settings)}


ALL = _settings(
    _setting("node_lease", "30s", is_live=False),
    _setting("hub_token", None, is_live=False),
    _setting("disk_check", "no", "cluster, changed by ada"),
    _setting("request_wait", "1m"),
)


def test_settings_list_shows_value_and_origin_of_every_setting(corral, frontend):
    frontend.on("GET /api/settings", json_answer(ALL))
    outcome = corral("settings", "list")
    assert (outcome.code, outcome.err) == (0, "")
    assert [line.split() for line in outcome.out.splitlines()] == [
        ["SETTING", "VALUE", "FROM", "LIVE"],
        ["node_lease", "30s", "default", "no"],
        ["hub_token", "-", "default", "no"],
        ["disk_check", "no", "cluster,", "changed", "by", "ada", "yes"],
        ["request_wait", "1m", "default", "yes"],
    ]


def test_settings_list_leaves_out_what_cannot_change_with_live(corral, frontend):
    frontend.on("GET /api/settings", json_answer(ALL))
    shown = json.loads(corral("settings", "list", "--live", "--json").out)
    assert [one["name"] for one in shown] == ["disk_check", "request_wait"]
    assert shown[0] == ALL["settings"][2]


def test_settings_set_sends_all_changes_in_one_request_and_shows_them(corral, frontend):
    frontend.on("POST /api/settings", json_answer(ALL))
    outcome = corral("settings", "set", "request_wait=1m", "disk_check=no")
    assert outcome.code == 0
    assert bodies(frontend, "POST /api/settings") == [{"request_wait": "1m", "disk_check": "no"}]
    assert [line.split()[0] for line in outcome.out.splitlines()] == ["SETTING", "disk_check", "request_wait"]


def test_settings_reset_sends_null_for_every_name(corral, frontend):
    frontend.on("POST /api/settings", json_answer(ALL))
    outcome = corral("settings", "reset", "request_wait", "disk_check", "--json")
    assert bodies(frontend, "POST /api/settings") == [{"request_wait": None, "disk_check": None}]
    assert {one["name"] for one in json.loads(outcome.out)} == {"request_wait", "disk_check"}


@pytest.mark.parametrize("words", [("request_wait",), ("=90s",), ("request_wait=90s", "request_wait=80s")])
def test_settings_set_refuses_words_that_are_no_change_before_sending(corral, frontend, words):
    outcome = corral("settings", "set", *words)
    assert (outcome.code, outcome.out, frontend.seen) == (1, "", [])
    assert outcome.err.startswith("error: ")
    assert "\nhint: " in outcome.err


@pytest.mark.parametrize("words", [("set", "request_wiat=90s"), ("reset", "request_wiat")])
def test_settings_show_the_refusal_of_the_frontend_with_its_hint(corral, frontend, words):
    message, hint = "There is no setting 'request_wiat'.", "Did you mean request_wait?"
    frontend.on("POST /api/settings", refusal(400, "unknown_setting", message, hint))
    outcome = corral("settings", *words)
    assert (outcome.code, outcome.out) == (1, "")
    assert message in outcome.err
    assert hint in outcome.err
