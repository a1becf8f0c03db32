"""What a chat template can express, found by its text: rendering a template of a stranger is left to the engine."""

from __future__ import annotations

import re
from collections.abc import Sequence

# The variable that every template with tools reads. `tool_calls` alone is about calls of earlier turns.
_TOOLS = re.compile(r"\btools\b")


def takes_tools(templates: Sequence[str | None]) -> bool | None:
    """Return whether one of a model's templates has a place for tools. A template that is None could not be read."""
    if any(template is not None and _TOOLS.search(template) for template in templates):
        return True
    return None if None in templates else False
