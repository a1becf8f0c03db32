"""`corral usage`: who has used how much of what, as a person reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from tests.unit.client.standin import NOON, json_answer


def _sums(requests: int, prompt: int = 0, completion: int = 0, **changes: int) -> dict[str, int]:
    sums = {"requests": requests, "errors": 0, "prompt_tokens": prompt, "cached_tokens": 0}
    return sums | {"completion_tokens": completion, "estimated_tokens": 0} | changes


def _usage(*rows: dict[str, Any], by: tuple[str, ...] = ("model",), **changes: Any) -> dict[str, Any]:
    names = ("requests", "errors", "prompt_tokens", "cached_tokens", "completion_tokens", "estimated_tokens")
    total = {name: sum(row[name] for row in rows) for name in names}
    return {"since": NOON.isoformat(), "by": list(by), "rows": list(rows), "total": total, "is_cut": False} | changes


SMALL = {"model": "a-small-one"} | _sums(100, 1_000, 500, errors=2)
LARGE = {"model": "large"} | _sums(7, 20_000, 1_000_000, cached_tokens=12_000)


def test_table_has_the_most_first_and_a_total(corral, frontend):
    frontend.on("GET /api/usage", json_answer(_usage(SMALL, LARGE)))
    outcome = corral("usage")
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        "MODEL         REQUESTS   ERRORS   PROMPT   CACHED   COMPLETION      TOKENS   SHARE",
        "large                7        0   20,000   12,000    1,000,000   1,020,000   ████████████ 100%",
        "a-small-one        100        2    1,000        0          500       1,500                 <1%",
        "total              107        2   21,000   12,000    1,000,500   1,021,500   ████████████ 100%",
    ]
    assert "from 2026-01-02 12:00 until now (UTC)" in outcome.err


def test_usage_by_time_is_printed_in_order_of_time(corral, frontend):
    days = [{"at": f"2026-01-0{day}T00:00:00Z", "user": "ada"} | _sums(day) for day in (1, 2)]
    frontend.on("GET /api/usage", json_answer(_usage(*days, by=("day", "user"))))
    lines = corral("usage", "--by", "day,user").out.splitlines()
    assert [line.split()[:3] for line in lines[1:3]] == [["2026-01-01", "ada", "1"], ["2026-01-02", "ada", "2"]]
    # Nothing has tokens: the share is one of requests.
    assert lines[2].endswith("67%")


def test_usage_options_are_sent_to_the_frontend(corral, frontend):
    frontend.on("GET /api/me/usage", json_answer(_usage(SMALL)))
    assert corral("usage", "--mine", "--by", "model, day", "--since", "2026-01-01", "--until", "24h").code == 0
    (seen,) = frontend.seen
    assert seen.query["by"] == "model,day"
    assert seen.query["from"] == "2026-01-01T00:00:00+00:00"
    assert seen.query["to"].endswith("+00:00")


def test_csv_is_printed_as_it_comes(corral, frontend):
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="model,requests\na,1\n", content_type="text/csv")

    frontend.on("GET /api/usage", answer)
    outcome = corral("usage", "--csv")
    assert (outcome.code, outcome.out, outcome.err) == (0, "model,requests\na,1\n", "")
    assert frontend.seen[0].query["format"] == "csv"


def test_usage_json_is_the_answer_of_the_frontend(corral, frontend):
    frontend.on("GET /api/usage", json_answer(_usage(SMALL)))
    printed = json.loads(corral("usage", "--json").out)
    assert printed["rows"] == [SMALL]
    assert printed["total"] == {name: SMALL[name] for name in printed["total"]}


def test_usage_mentions_estimates_and_missing_rows(corral, frontend):
    row = SMALL | {"estimated_tokens": 1234}
    frontend.on("GET /api/usage", json_answer(_usage(row, is_cut=True)))
    notice = corral("usage").err
    assert "1,234 output tokens are estimates" in notice
    assert "--csv" in notice


def test_usage_without_rows_prints_only_a_message(corral, frontend):
    frontend.on("GET /api/usage", json_answer(_usage()))
    outcome = corral("usage", "--until", "2026-02-01")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.startswith("There was no usage from 2026-01-02 12:00 until now")


@pytest.mark.parametrize("words", [("--since", "soon"), ("--until", "9" * 40 + "d")])
def test_invalid_usage_options_are_refused_with_a_hint(words, corral, frontend):
    outcome = corral("usage", *words)
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert "hint: " in outcome.err
    assert frontend.seen == []


def test_usage_refuses_csv_and_json_together(corral, frontend):
    outcome = corral("usage", "--csv", "--json")
    assert outcome.code == 1
    assert json.loads(outcome.err)["error"]["hint"] == "Give only one of them."
    assert frontend.seen == []
