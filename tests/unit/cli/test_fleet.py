"""`corral apply` and what it refuses to do by mistake."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import json_answer

APPLY = "POST /api/fleet"
REMOVAL = {"plan": False, "steps": [{"kind": "model", "name": "chat", "action": "remove"}]}


@pytest.fixture
def empty(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text("models: []\n", encoding="utf-8")
    return str(path)


@pytest.mark.behaviour("CLI-33")
def test_apply_with_prune_refuses_an_empty_file_even_with_yes(corral, frontend, empty):
    frontend.on(APPLY, json_answer(REMOVAL))
    outcome = corral("apply", "-f", empty, "--prune", "-y")
    assert outcome.code == 1
    assert "--allow-empty" in outcome.err
    assert bodies(frontend, APPLY) == []


@pytest.mark.behaviour("CLI-33")
def test_apply_with_prune_takes_an_empty_file_with_allow_empty(corral, frontend, empty):
    frontend.on(APPLY, json_answer(REMOVAL))
    outcome = corral("apply", "-f", empty, "--prune", "-y", "--allow-empty")
    assert (outcome.code, outcome.out) == (0, "- model chat\n")


@pytest.mark.behaviour("CLI-33")
def test_plan_of_a_prune_by_an_empty_file_begins_with_a_warning(corral, frontend, empty):
    frontend.on(APPLY, json_answer(REMOVAL | {"plan": True}))
    outcome = corral("apply", "-f", empty, "--prune", "--plan")
    assert outcome.code == 0
    assert outcome.err.startswith("WARNING: ")
