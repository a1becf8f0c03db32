"""Hands the tool calls of a lost attempt on to the attempt that follows it, so that none of them is made again.

The trace has each call and its result as the model was shown them. The next attempt begins behind them: its model is
shown the messages of the run and then these. Limit: calls and results above `BYTES_MAX` are not handed on; a run that
has made a call with effects is lost then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from corral.domain.run import RunEvent, RunEventType

# More than any model can be shown; the limit is that of a conversation's history.
BYTES_MAX = 1024 * 1024


def make_call_messages(events: Sequence[RunEvent]) -> list[dict[str, Any]]:
    """Return the calls that have a result as messages of OpenAI's chat API, those of one step together.

    `events` are the steps, calls and results of earlier attempts, in order."""
    steps: list[dict[str, RunEvent]] = [{}]
    results: dict[str, str] = {}
    for event in events:
        call_id = str(event.data.get("call_id", ""))
        match event.type:
            case RunEventType.STEP:
                steps.append({})
            case RunEventType.TOOL_CALL:
                steps[-1][call_id] = event
            case RunEventType.TOOL_RESULT:
                results[call_id] = str(event.data.get("content", ""))
            case _:
                pass
    messages: list[dict[str, Any]] = []
    for step in steps:
        made = {call_id: call for call_id, call in step.items() if call_id in results}
        if made:
            calls = [_render_call(call_id, call) for call_id, call in made.items()]
            messages.append({"role": "assistant", "content": "", "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": call_id, "content": results[call_id]} for call_id in made]
    return messages


def _render_call(call_id: str, call: RunEvent) -> dict[str, Any]:
    arguments = call.data.get("arguments")
    # Arguments that are no JSON object, or were cut in the trace, go back as an empty one.
    text = json.dumps(arguments if isinstance(arguments, Mapping) else {}, ensure_ascii=False)
    name = call.tool or str(call.data.get("name", ""))
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def continue_spec(spec: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the specification of an attempt that goes on behind these messages of an earlier one."""
    if not messages:
        return dict(spec)
    options = dict(spec.get("options") or {})
    settings = dict(options.get("model_settings") or {})
    # The first step of the run, which a choice of tools is for, has been taken.
    settings.pop("tool_choice", None)
    return {
        **spec,
        "messages": [*spec["messages"], *messages],
        "options": options | {"tool_choice": "auto", "model_settings": settings},
    }
