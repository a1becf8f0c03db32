"""Decides about LoRA adapters: whether one fits its base, and how engines and requests name it.

Guarantee: an adapter that is known to misfit is never given to an engine, because an engine that cannot load one of its
adapters does not start at all. Limit: a base that was registered by an earlier version has no shapes in its facts;
then architecture and width alone are compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from corral.domain.model import AttachedAdapter, Model, ModelFacts
from corral.policy.models.gguf import LORA

# The folder of adapters inside the folder of their base.
FOLDER = "adapters"
# Engines number their adapters and hold all of them in memory.
ADAPTERS_MAX = 64
# How a request says to an engine which adapter it is for: by llama.cpp's numbers, or by vLLM's names.
BY_NUMBER, BY_NAME = "number", "name"
SELECTIONS = ("", BY_NUMBER, BY_NAME)


def find_misfit(base: Model, adapter: Model) -> str:
    """Return why engines of the base cannot load the adapter; empty if they can, or if nothing speaks against it."""
    if adapter.files is None:
        return f"The files of {adapter.name} have not been fetched."
    if base.files is None:
        return f"The files of {base.name} have not been fetched, so nothing is known about what fits it."
    return find_facts_misfit(base.name, base.facts or ModelFacts(), adapter.name, adapter.facts or ModelFacts())


def find_facts_misfit(base: str, facts: ModelFacts, name: str, adapter: ModelFacts) -> str:
    """Return why an adapter with these facts does not fit; empty if nothing speaks against it."""
    if facts.kind:
        return f"{base} is an adapter itself."
    if adapter.kind != LORA:
        return f"The file of {name} is no LoRA adapter."
    if adapter.format != facts.format:
        return f"{name} is in the format {adapter.format}, and {base} in {facts.format or 'an unknown one'}."
    if adapter.architecture and facts.architecture and adapter.architecture != facts.architecture:
        return f"{name} is for the architecture {adapter.architecture}, and {base} has {facts.architecture}."
    return _find_shape_misfit(base, facts, adapter)


def _find_shape_misfit(base: str, facts: ModelFacts, adapter: ModelFacts) -> str:
    for name, size in adapter.shapes.items():
        known = facts.shapes.get(name)
        if known is not None and list(known) != list(size):
            return (
                f"It changes {name} of {_say(size)}, and that of {base} has {_say(known)}:"
                " it was made for another model."
            )
        if known is None and facts.shapes:
            return f"It changes {name}, which {base} does not have: it was made for another model."
    return ""


def _say(size: Sequence[int]) -> str:
    return " x ".join(str(one) for one in size)


def attach_adapter(adapter: Model) -> AttachedAdapter:
    """Return an adapter whose files are known as the engines of its base get it."""
    folder = f"{FOLDER}/{hashlib.sha256(adapter.name.encode()).hexdigest()[:16]}"
    files = tuple(replace(file, path=f"{folder}/{file.path}") for file in adapter.files or ())
    path = f"{folder}/{adapter.config.adapter}" if adapter.config.adapter else folder
    return AttachedAdapter(model=adapter.name, path=path.removesuffix("/"), files=files, sources=adapter.config.files)


def render_adapters_option(adapters: Sequence[AttachedAdapter]) -> str:
    """Return the value of the option by which a worker gets the adapters: names, and paths below the model's folder."""
    return json.dumps([{"name": one.model, "path": one.path} for one in adapters])


def locate_adapters(option: str, folder: str) -> str:
    """Return the value of that option with whole paths; `folder` is the one of the model on a node."""
    return json.dumps([{**one, "path": f"{folder}/{one['path']}"} for one in json.loads(option)])


def render_members(number: int | None) -> str:
    """Return the members of a request for the adapter with this number, or for the base; a comma ends them.

    The base says so: an engine that was not given the member goes on with what an adapter has left in its cache.
    """
    return f'"lora":[{{"id":{number or 0},"scale":{0.0 if number is None else 1.0}}}],'
