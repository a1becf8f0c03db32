"""Reads the facts in a model's files: format, size, layers, context and bytes per token.

Guarantee: hostile files cost bounded time and memory, and end in a sentence (`bad_model_file`). Limit: GGUF and
safetensors are read; CTranslate2, ONNX and Piper are known by the names of their files alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from corral.domain.model import ModelFacts
from corral.policy.models.gguf import LORA, MAGIC, TEMPLATE_BYTES_MAX, make_gguf_facts, read_gguf
from corral.policy.models.header_bytes import (
    BadHeader,
    HeaderCursor,
    Read,
    ReadableFile,
    check_end,
    detect_tools,
    parse_count,
)

__all__ = ["BadHeader", "Read", "ReadableFile", "read_facts"]

# Limits the files of one model; a folder with more is something else.
FILES_MAX = 20_000

# The format allows 100 MB; the largest in use are a few, and JSON takes many times its size in memory.
HEADER_BYTES_MAX = 24 * 1024 * 1024
DOCUMENT_BYTES_MAX = 8 * 1024 * 1024
TENSORS_MAX = 262_144
_KV_ELEMENT_BYTES = 2
# How the weights of an adapter begin in the folders that PEFT writes.
_ADAPTER_STEM = "adapter_model"
# Weights that are packed in integers: their count is not the count of parameters.
_WHOLE_NUMBERS = frozenset({"I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetensorsHeader:
    """Holds what the header of one safetensors model file says: parameters, bytes of weights and types."""

    path: str
    parameters: int = 0
    weights_bytes: int = 0
    # Bytes by the type of the tensors.
    types: Mapping[str, int] = field(default_factory=dict)


def read_safetensors(file: ReadableFile) -> SafetensorsHeader:
    cursor = HeaderCursor(file)
    length = cursor.read_length()
    if length > HEADER_BYTES_MAX:
        raise BadHeader(f"{file.path} claims to have a header of {length} bytes.")
    document = _parse(cursor.read(length), file.path)
    tensors = {name: entry for name, entry in document.items() if name != "__metadata__"}
    if len(tensors) > TENSORS_MAX:
        raise BadHeader(f"{file.path} claims to have {len(tensors)} tensors.")
    types: Counter[str] = Counter()
    parameters, last = 0, 0
    for entry in tensors.values():
        kind, elements, begin, end = _parse_tensor(entry, file.path)
        types[kind] += end - begin
        parameters += elements
        last = max(last, end)
    check_end(file, cursor.offset + max(last, types.total()))
    return SafetensorsHeader(path=file.path, parameters=parameters, weights_bytes=types.total(), types=dict(types))


def _parse_tensor(entry: object, path: str) -> tuple[str, int, int, int]:
    if isinstance(entry, Mapping):
        kind, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
        if isinstance(kind, str) and isinstance(shape, list) and isinstance(offsets, list) and len(offsets) == 2:
            begin, end = (parse_count(offset, 2**63) for offset in offsets)
            counts = [parse_count(count) for count in shape[:64]]
            if begin is not None and end is not None and begin <= end and None not in counts:
                return kind[:16], prod(count or 0 for count in counts), begin, end
    raise BadHeader(f"{path} describes an invalid tensor.")


def read_document(file: ReadableFile | None) -> Mapping[str, Any]:
    """Read a small JSON file of the model; empty if it does not exist or is invalid."""
    if file is None or file.size_bytes > DOCUMENT_BYTES_MAX:
        return {}
    try:
        return _parse(file.read(0, file.size_bytes), file.path)
    except BadHeader:
        return {}


def _parse(text: bytes, path: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadHeader(f"The header of {path} is not valid JSON.", hint="Check where it comes from.") from error
    if not isinstance(document, dict):
        raise BadHeader(f"The header of {path} is not a mapping.")
    return document


def make_safetensors_facts(
    headers: Sequence[SafetensorsHeader], config: Mapping[str, Any], *, has_chat_template: bool
) -> ModelFacts:
    """Return the facts of a folder of one or more files. A vision model describes its language part in
    `text_config`."""
    words = config.get("text_config")
    words = {**config, **words} if isinstance(words, Mapping) else config
    types: Counter[str] = Counter()
    for header in headers:
        types.update(header.types)
    quantisation = _find_quantisation(config, types)
    is_packed = any(kind in _WHOLE_NUMBERS for kind in types) and not quantisation.isupper()
    layers, heads = parse_count(words.get("num_hidden_layers")), parse_count(words.get("num_attention_heads"))
    kv_heads = parse_count(words.get("num_key_value_heads"))
    return ModelFacts(
        format="safetensors",
        architecture=_find_architecture(config),
        parameters=None if is_packed else sum(header.parameters for header in headers),
        quantisation=quantisation,
        layers=layers,
        context_length=parse_count(words.get("max_position_embeddings")),
        embedding_length=parse_count(words.get("hidden_size")),
        heads=heads,
        kv_heads=heads if kv_heads is None else kv_heads,
        kv_bytes_per_token=_compute_kv_bytes_per_token(words, layers, heads, heads if kv_heads is None else kv_heads),
        weights_bytes=sum(header.weights_bytes for header in headers),
        has_chat_template=has_chat_template,
    )


def _find_architecture(config: Mapping[str, Any]) -> str:
    kind, classes = config.get("model_type"), config.get("architectures")
    if isinstance(kind, str) and kind:
        return kind[:255]
    return classes[0][:255] if isinstance(classes, list) and classes and isinstance(classes[0], str) else ""


def _find_quantisation(config: Mapping[str, Any], types: Counter[str]) -> str:
    """Return the method in lower case with its bits, such as `gptq-4`, else the type that takes the most bytes."""
    given = config.get("quantization_config")
    if isinstance(given, Mapping) and isinstance(given.get("quant_method"), str):
        bits = parse_count(given.get("bits"), 64)
        return f"{given['quant_method'][:32].lower()}{f'-{bits}' if bits else ''}"
    return max(types, key=lambda name: (types[name], name), default="")


def _compute_kv_bytes_per_token(
    words: Mapping[str, Any], layers: int | None, heads: int | None, kv_heads: int | None
) -> int | None:
    width = parse_count(words.get("hidden_size"))
    length = parse_count(words.get("head_dim"))
    if length is None and width is not None and heads:
        length = width // heads
    if layers is None or kv_heads is None or length is None:
        return None
    return parse_count(2 * layers * kv_heads * length * _KV_ELEMENT_BYTES)


def read_facts(files: Sequence[ReadableFile], entry: str = "") -> ModelFacts:
    """Return the facts of these files together. `entry` is the one that the engine is given, if any.

    Files of no known format are no mistake: an engine may know more than Corral does.
    """
    if len(files) > FILES_MAX:
        raise BadHeader(f"A model of {len(files)} files is more than Corral reads ({FILES_MAX}).")
    ggufs = [file for file in files if _is_gguf(file)]
    if ggufs:
        return make_gguf_facts([read_gguf(file) for file in _sort_shards(ggufs)], entry)
    tensors = [file for file in files if file.name.endswith(".safetensors")]
    if tensors:
        return _read_safetensors_facts(files, tensors)
    return _make_facts_by_name(files)


def _is_gguf(file: ReadableFile) -> bool:
    """Return whether a file is GGUF, by its name, or by its first bytes if the name has no other extension."""
    if file.name.lower().endswith(".gguf"):
        return True
    return "." not in file.name and file.size_bytes > len(MAGIC) and file.read(0, len(MAGIC)) == MAGIC


def _sort_shards(files: Sequence[ReadableFile]) -> list[ReadableFile]:
    """Sort shards by the numbers in their names: the first one describes all."""
    return sorted(files, key=lambda file: file.path)


def _read_safetensors_facts(files: Sequence[ReadableFile], tensors: Sequence[ReadableFile]) -> ModelFacts:
    folder = min(tensors, key=lambda file: (file.path.count("/"), file.path)).path.rpartition("/")[0]
    beside = {file.name: file for file in files if file.path.rpartition("/")[0] == folder}
    tokenizer = read_document(beside.get("tokenizer_config.json"))
    templates = [*_parse_templates(tokenizer), *_read_templates(beside)]
    headers = [read_safetensors(file) for file in _sort_shards(tensors)]
    facts = make_safetensors_facts(headers, read_document(beside.get("config.json")), has_chat_template=bool(templates))
    if "adapter_config.json" in beside and all(file.name.startswith(_ADAPTER_STEM) for file in tensors):
        facts = replace(facts, kind=LORA)
    # Without a template the engine may have one of its own.
    return replace(facts, takes_tools=detect_tools(templates) if templates else None)


def _parse_templates(document: Mapping[str, Any]) -> list[str | None]:
    """Return the templates of a `tokenizer_config.json` or `chat_template.json`: one text, or several with names."""
    found = document.get("chat_template")
    if found is None:
        return []
    several = found if isinstance(found, list) else [found]
    texts = [one.get("template") if isinstance(one, dict) else one for one in several]
    return [one if isinstance(one, str) else None for one in texts]


def _read_templates(beside: Mapping[str, ReadableFile]) -> list[str | None]:
    found = _parse_templates(read_document(beside.get("chat_template.json")))
    file = beside.get("chat_template.jinja")
    if file is None:
        return found
    is_readable = file.size_bytes <= TEMPLATE_BYTES_MAX
    return [*found, file.read(0, file.size_bytes).decode("utf-8", "replace") if is_readable else None]


def _make_facts_by_name(files: Sequence[ReadableFile]) -> ModelFacts:
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
