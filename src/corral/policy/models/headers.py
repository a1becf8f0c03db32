"""What a model's files say of it: format, size, layers, context and bytes per token.

Guarantee: hostile files cost bounded time and memory, and end in a sentence (`bad_model_file`). Limit: GGUF and
safetensors are read; CTranslate2, ONNX and Piper are known by the names of their files alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from corral.domain.model import ModelFacts
from corral.policy.models.chat_template import takes_tools
from corral.policy.models.gguf import MAGIC, TEMPLATE_BYTES_MAX, gguf_facts, read_gguf
from corral.policy.models.header_bytes import BadHeader, Read, Readable
from corral.policy.models.safetensors import read_document, read_safetensors, safetensors_facts

__all__ = ["BadHeader", "Read", "Readable", "read_facts"]

# The files of one model; a folder with more is something else.
FILES_MAX = 20_000


def read_facts(files: Sequence[Readable], entry: str = "") -> ModelFacts:
    """What these files are together. `entry` is the one that the engine is given, if it is given one.

    Files of no known format are no mistake: an engine may know more than Corral does.
    """
    if len(files) > FILES_MAX:
        raise BadHeader(f"A model of {len(files)} files is more than Corral reads ({FILES_MAX}).")
    ggufs = [file for file in files if _is_gguf(file)]
    if ggufs:
        return gguf_facts([read_gguf(file) for file in _in_order(ggufs)], entry)
    tensors = [file for file in files if file.name.endswith(".safetensors")]
    if tensors:
        return _safetensors(files, tensors)
    return _by_name(files)


def _is_gguf(file: Readable) -> bool:
    """Known by its name, or by its first bytes if the name has no ending that says something else."""
    if file.name.lower().endswith(".gguf"):
        return True
    return "." not in file.name and file.size_bytes > len(MAGIC) and file.read(0, len(MAGIC)) == MAGIC


def _in_order(files: Sequence[Readable]) -> list[Readable]:
    """Shards are numbered in their names, and the first one speaks for all."""
    return sorted(files, key=lambda file: file.path)


def _safetensors(files: Sequence[Readable], tensors: Sequence[Readable]) -> ModelFacts:
    folder = min(tensors, key=lambda file: (file.path.count("/"), file.path)).path.rpartition("/")[0]
    beside = {file.name: file for file in files if file.path.rpartition("/")[0] == folder}
    tokenizer = read_document(beside.get("tokenizer_config.json"))
    templates = [*_templates_in(tokenizer), *_templates_beside(beside)]
    headers = [read_safetensors(file) for file in _in_order(tensors)]
    facts = safetensors_facts(headers, read_document(beside.get("config.json")), has_chat_template=bool(templates))
    # Without a template the engine may have one of its own.
    return replace(facts, takes_tools=takes_tools(templates) if templates else None)


def _templates_in(document: Mapping[str, Any]) -> list[str | None]:
    """The templates of a `tokenizer_config.json` or `chat_template.json`: one text, or several with names."""
    found = document.get("chat_template")
    if found is None:
        return []
    several = found if isinstance(found, list) else [found]
    texts = [one.get("template") if isinstance(one, dict) else one for one in several]
    return [one if isinstance(one, str) else None for one in texts]


def _templates_beside(beside: Mapping[str, Readable]) -> list[str | None]:
    found = _templates_in(read_document(beside.get("chat_template.json")))
    file = beside.get("chat_template.jinja")
    if file is None:
        return found
    is_readable = file.size_bytes <= TEMPLATE_BYTES_MAX
    return [*found, file.read(0, file.size_bytes).decode("utf-8", "replace") if is_readable else None]


def _by_name(files: Sequence[Readable]) -> ModelFacts:
    names = {file.name for file in files}
    onnx = [file for file in files if file.name.endswith(".onnx")]
    if any(f"{file.name}.json" in names for file in onnx):
        return ModelFacts(format="piper", weights_bytes=sum(file.size_bytes for file in onnx))
    if onnx:
        weights = [file for file in files if ".onnx" in file.name]
        return ModelFacts(format="onnx", weights_bytes=sum(file.size_bytes for file in weights))
    if {"model.bin", "config.json"} <= names and any(name.startswith("vocabulary.") for name in names):
        weights = [file for file in files if file.name == "model.bin"]
        return ModelFacts(format="ctranslate2", weights_bytes=sum(file.size_bytes for file in weights))
    return ModelFacts()
