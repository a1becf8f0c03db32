"""The key `agent` of a model: limits of the loop in which a chat calls the model and its MCP servers in turn.

    agent: {max_iterations: 10, max_attempts: 2, loop_detection: 5}

The keys are those of LocalAI. Those of its planner have no effect here: they are read and kept, so that a configuration
of LocalAI can be used and exported as it is, and a warning names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corral.domain.model import ToolLoopConfig
from corral.policy.models.mapping_reader import MappingReader

ITERATIONS_MAX = 1000
# The same as for agents.
ATTEMPTS_MAX = 20
LOOP_DETECTION_MAX = 100
# Steps of a chat's loop if the model says nothing.
DEFAULT_ITERATIONS = 10
_LIMITS = ("max_iterations", "max_attempts", "loop_detection")
_UNUSED_FLAGS = (
    "enable_reasoning",
    "enable_planning",
    "enable_mcp_prompts",
    "enable_plan_re_evaluator",
    "disable_sink_state",
    "force_reasoning_tool",
)
_UNUSED_NUMBER = "max_adjustment_attempts"
KEYS = (*_LIMITS, *_UNUSED_FLAGS, _UNUSED_NUMBER)


def read_tool_loop(reader: MappingReader) -> ToolLoopConfig:
    """Read the key `agent` of a model."""
    inner = reader.read_inner("agent")
    inner.check_keys(KEYS)
    unused: dict[str, bool | int] = {
        name: inner.read_flag(name, default=False) for name in _UNUSED_FLAGS if inner.value.get(name) is not None
    }
    attempts = inner.read_integer(_UNUSED_NUMBER, least=0, most=ITERATIONS_MAX)
    return ToolLoopConfig(
        max_iterations=inner.read_integer("max_iterations", least=1, most=ITERATIONS_MAX),
        max_attempts=inner.read_integer("max_attempts", least=0, most=ATTEMPTS_MAX),
        loop_detection=inner.read_integer("loop_detection", least=0, most=LOOP_DETECTION_MAX),
        unused=unused if attempts is None else unused | {_UNUSED_NUMBER: attempts},
    )


def to_tool_loop_mapping(config: ToolLoopConfig) -> dict[str, Any]:
    """Return the limits as they are written; `read_tool_loop` reads them back."""
    limits = {name: getattr(config, name) for name in _LIMITS}
    return {name: limit for name, limit in limits.items() if limit is not None} | dict(config.unused)


def make_loop_options(config: ToolLoopConfig) -> Mapping[str, int]:
    """Return the limits that are options of a run, by the names of `wire.run_work.RunOptionsSpec`."""
    found = {"max_attempts": config.max_attempts, "loop_detection": config.loop_detection}
    return {name: limit for name, limit in found.items() if limit is not None}


def list_loop_warnings(config: ToolLoopConfig) -> list[str]:
    """Return a sentence for each setting of LocalAI's planner that asks for something."""
    return [
        f"agent.{name} has no effect: it is a setting of LocalAI's planner." for name, on in config.unused.items() if on
    ]
