"""The key `agent` of a model: what is read of LocalAI's settings, what counts, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from corral.domain.errors import InvalidRequest
from corral.domain.model import ModelConfig
from corral.policy.models.configuration import compute_run_hash, diff, from_mapping, from_stored, to_mapping
from corral.policy.models.tool_loop import list_loop_warnings, make_loop_options

# Every member that LocalAI documents.
OF_LOCALAI: dict[str, Any] = {
    "max_attempts": 3,
    "max_iterations": 4,
    "enable_reasoning": True,
    "enable_planning": False,
    "enable_mcp_prompts": True,
    "enable_plan_re_evaluator": False,
    "disable_sink_state": False,
    "loop_detection": 0,
    "max_adjustment_attempts": 5,
    "force_reasoning_tool": False,
}


def model(**agent: Any) -> ModelConfig:
    return from_mapping({"name": "m", "backend": "fake", "agent": agent})


@pytest.mark.behaviour("MCP-11")
def test_settings_of_localai_are_read_and_written_back_as_they_were() -> None:
    config = model(**OF_LOCALAI)
    loop = config.tool_loop
    assert (loop.max_iterations, loop.max_attempts, loop.loop_detection) == (4, 3, 0)
    assert to_mapping(config)["agent"] == OF_LOCALAI
    assert from_mapping(to_mapping(config)) == config
    assert compute_run_hash(config) == compute_run_hash(model())


def test_limits_that_are_given_become_options_of_a_run_and_others_stay_at_their_defaults() -> None:
    assert make_loop_options(model(**OF_LOCALAI).tool_loop) == {"max_attempts": 3, "loop_detection": 0}
    assert make_loop_options(model(max_iterations=4).tool_loop) == {}


def test_warning_names_each_setting_that_asks_for_something_and_has_no_effect() -> None:
    warnings = list_loop_warnings(model(**OF_LOCALAI).tool_loop)
    named = ("enable_reasoning", "enable_mcp_prompts", "max_adjustment_attempts")
    assert warnings == [f"agent.{name} has no effect: it is a setting of LocalAI's planner." for name in named]
    assert list_loop_warnings(model(max_attempts=1).tool_loop) == []


def test_changed_limit_is_a_line_of_the_diff() -> None:
    assert "~ agent.loop_detection: 3 -> 4" in diff(model(loop_detection=3), model(loop_detection=4))


@pytest.mark.parametrize(
    "agent",
    [
        {"max_iterations": 0},
        {"max_iterations": 10_000},
        {"max_attempts": -1},
        {"loop_detection": 1000},
        {"loop_detection": True},
        {"enable_reasoning": "yes"},
        {"max_adjustment_attempts": "many"},
        {"iterations": 3},
    ],
)
def test_setting_outside_of_its_limits_or_unknown_is_refused(agent: Any) -> None:
    with pytest.raises(InvalidRequest):
        model(**agent)


def test_stored_setting_of_a_newer_version_is_left_out() -> None:
    stored = to_mapping(model(max_iterations=4))
    assert from_stored(stored | {"agent": {"max_iterations": 4, "newer": 1}}) == model(max_iterations=4)
