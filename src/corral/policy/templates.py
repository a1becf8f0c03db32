"""Templates that users write: prompts of tasks and agents, and bodies of webhooks.

`{{.name}}` and `{{json .name}}` of LocalAI's templates are read as `{{ name }}` and `{{ name | json }}`. The language
is `policy/template_language.py`, which is imported at the first template: a process without templates does without the
memory and the time that Jinja takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Go's templates, as LocalAI has them: a dot before the name, and `json` as a function.
_GO_VALUE = re.compile(r"\{\{(-?)\s*(json\s+)?\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*(-?)\}\}", re.ASCII)


def translate_go_template(source: str) -> str:
    """Return a template of LocalAI in the language of this module; one that is in it already stays as it is."""

    def translate(match: re.Match[str]) -> str:
        before, as_json, name, after = match.groups()
        return f"{{{{{before} {name}{' | json' if as_json else ''} {after}}}}}"

    return _GO_VALUE.sub(translate, source)


def check_template(source: str) -> None:
    """Raise `InvalidRequest` if the text is no template of this language."""
    from corral.policy.template_language import compile_template

    compile_template(source)


def list_parameters(source: str) -> list[str]:
    """Return the names that a template uses, in alphabetical order."""
    from corral.policy.template_language import list_names

    return list(list_names(source))


def render_template(source: str, values: Mapping[str, Any]) -> str:
    """Return the text of a template with these values. Raises `InvalidRequest`, with the code `missing_parameter` if a
    name has no value."""
    from corral.policy.template_language import render

    return render(source, values)
