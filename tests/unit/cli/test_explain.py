"""`corral explain`: what a person sees of a pick."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.client.standin import json_answer


def a_candidate(node: str, **changes: Any) -> dict[str, Any]:
    fields = {"replica_id": f"r-{node}", "node": node, "is_picked": False, "expected_s": 0.5, "in_flight": 2}
    more = {"capacity": 4, "seconds": 0.25, "is_learnt": True, "breaker": "closed", "free_bytes": 1, "sentence": "x"}
    return fields | more | changes


def make_explanation(**changes: Any) -> dict[str, Any]:
    candidates = [
        a_candidate("gpu-a", is_picked=True),
        a_candidate("gpu-b", expected_s=None, in_flight=4, is_learnt=False, breaker="open"),
    ]
    left_out = [{"replica_id": "r-old", "node": "gpu-c", "sentence": "gpu-c: it is drained"}]
    found = {"model": "llama", "answered_by": "front-1", "policy": "least_wait", "picked": "r-gpu-a", "waiting": 0}
    return found | {"message": "To gpu-a.", "candidates": candidates, "left_out": left_out} | changes


@pytest.mark.behaviour("GW-75")
def test_explain_shows_the_next_replica_and_why_not_the_others(corral, frontend):
    frontend.on("POST /api/explain", json_answer(make_explanation()))
    outcome = corral("explain", "llama")
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        "REPLICA          NODE    EXPECTED   BUSY   RESPONSE          BREAKER",
        "r-gpu-a (next)   gpu-a   0.5s       2/4    0.25s             closed",
        "r-gpu-b          gpu-b   none now   4/4    0.25s (assumed)   open",
        "",
        "LEFT OUT   NODE    BECAUSE",
        "r-old      gpu-c   it is drained",
    ]
    assert "To gpu-a." in outcome.err
    (seen,) = frontend.seen
    assert seen.body == {"model": "llama"}


@pytest.mark.behaviour("GW-75")
def test_explain_prints_only_the_reason_without_replicas_and_json_is_the_answer(corral, frontend):
    frontend.on("POST /api/explain", json_answer(make_explanation(candidates=[], left_out=[], picked=None)))
    outcome = corral("explain", "llama")
    assert (outcome.code, outcome.out) == (0, "")
    assert json.loads(corral("explain", "llama", "--json").out)["picked"] is None
