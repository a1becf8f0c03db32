"""Notes what the process of a test decodes, so that a test can say what keeps a frontend's event loop busy."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml


def record_decoded_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the size of each text that this process decodes as JSON or parses as YAML."""
    sizes: list[int] = []
    load_json, compose = json.loads, yaml.compose

    def note_json(text: Any, **options: Any) -> Any:
        sizes.append(len(text))
        return load_json(text, **options)

    def note_yaml(text: Any, **options: Any) -> Any:
        sizes.append(len(text))
        return compose(text, **options)

    monkeypatch.setattr(json, "loads", note_json)
    monkeypatch.setattr(yaml, "compose", note_yaml)
    return sizes
