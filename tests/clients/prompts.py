"""The prompts of the clients. At temperature 0 it repeats the text of the prompt, a call of a tool as well."""

from __future__ import annotations

from typing import Any

MODEL = "smollm2-135m"
# The same engine under another name, whose backend is not known to speak any dialect.
TRANSLATED = "smollm2-translated"
QUESTION = "Why is the sky blue?"
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
CALL_IT = f"Repeat exactly:\n{CALL}"
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
AT_A_TIME = 64
