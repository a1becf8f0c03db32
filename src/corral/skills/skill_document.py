"""Reads and writes `SKILL.md`: a front matter in YAML between two lines of `---`, and a body.

Guarantee: what is written is read again as it was, with colons, quotes and line breaks in every field. A document that
a person or a repository brought is kept as it is; only a change of its fields writes it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

import yaml

from corral.backends.documents import load_document
from corral.domain.errors import InvalidRequest
from corral.domain.skill import DOCUMENT_NAME, SkillContent
from corral.policy import skills as policy
from corral.policy.storable_values import check_storable

_LINE_WIDTH = 120
_FENCE = re.compile(r"\A\ufeff?---[ \t]*\r?\n(?P<front>.*?)^---[ \t]*\r?$(?:\n|\Z)", re.DOTALL | re.MULTILINE)


class _FrontMatterDumper(yaml.SafeDumper):
    """Writes texts with line breaks and other unusual characters in double quotes, where YAML folds nothing."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_FrontMatterDumper.add_representer(str, _represent_text)


def parse_document(text: str) -> SkillContent:
    """Return the skill in a document, without files. Raises `InvalidRequest` for the first thing that is wrong."""
    check_storable(text)
    found = _FENCE.match(text)
    if found is None:
        raise policy.make_error(
            f"{DOCUMENT_NAME} has no front matter.",
            "Begin with a line ---, then name: and description:, then another line ---.",
        )
    front = found["front"]
    if len(front.encode()) > policy.FRONT_MATTER_BYTES_MAX:
        raise policy.make_error(f"The front matter is larger than {policy.FRONT_MATTER_BYTES_MAX >> 10} KiB.")
    try:
        loaded = load_document(front, "front matter")
    except InvalidRequest as error:
        raise policy.make_error(f"The front matter of {DOCUMENT_NAME} cannot be read: {error.message}") from error
    if not isinstance(loaded, Mapping):
        raise policy.make_error("The front matter is not a mapping of names to values.")
    fields = policy.check_front_matter(_to_json(loaded))
    content = SkillContent(
        name=fields["name"],
        description=fields["description"],
        front_matter=fields,
        body=text[found.end() :].lstrip("\r\n"),
        document=text,
    )
    policy.check_files({}, len(text.encode()))
    return content


def make_content(fields: Mapping[str, Any], body: str) -> SkillContent:
    """Return a skill with a document of these fields. Raises `InvalidRequest` for the first thing that is wrong."""
    checked = policy.check_front_matter(fields)
    check_storable(body)
    front = yaml.dump(checked, Dumper=_FrontMatterDumper, sort_keys=False, allow_unicode=True, width=_LINE_WIDTH)
    return parse_document(f"---\n{front}---\n\n{body.lstrip()}")


def read_body(document: str) -> str:
    """Return the body of a stored document."""
    found = _FENCE.match(document)
    return document if found is None else document[found.end() :].lstrip("\r\n")


def _to_json(loaded: Mapping[Any, Any]) -> dict[str, Any]:
    """Return values of YAML as values of JSON: keys are texts, and dates as they are written."""
    try:
        text = json.dumps({str(key): value for key, value in loaded.items()}, default=_render_other, skipkeys=True)
    except (TypeError, ValueError) as error:
        raise policy.make_error("The front matter has a value that is no text, number, list or mapping.") from error
    if len(text) > 4 * policy.FRONT_MATTER_BYTES_MAX:
        raise policy.make_error("The front matter is too large when its aliases are written out.")
    found: dict[str, Any] = json.loads(text)
    return found


def _render_other(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError
