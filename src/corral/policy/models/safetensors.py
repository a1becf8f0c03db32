"""The headers of safetensors files, and what the `config.json` beside them says of the model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from corral.domain.model import ModelFacts
from corral.policy.models.header_bytes import BadHeader, Cursor, Readable, check_end, sane

# The format allows 100 MB; the largest in use are a few, and JSON takes many times its size in memory.
HEADER_BYTES_MAX = 24 * 1024 * 1024
DOCUMENT_BYTES_MAX = 8 * 1024 * 1024
TENSORS_MAX = 262_144
_KV_ELEMENT_BYTES = 2
# Weights that are packed in whole numbers: their count is not the count of parameters.
_WHOLE_NUMBERS = frozenset({"I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetensorsHeader:
    path: str
    parameters: int = 0
    weights_bytes: int = 0
    # Bytes by the type of the tensors.
    types: Mapping[str, int] = field(default_factory=dict)


def read_safetensors(file: Readable) -> SafetensorsHeader:
    cursor = Cursor(file)
    length = cursor.length()
    if length > HEADER_BYTES_MAX:
        raise BadHeader(f"{file.path} claims to have a header of {length} bytes.")
    document = _parse(cursor.take(length), file.path)
    tensors = {name: entry for name, entry in document.items() if name != "__metadata__"}
    if len(tensors) > TENSORS_MAX:
        raise BadHeader(f"{file.path} claims to have {len(tensors)} tensors.")
    types: Counter[str] = Counter()
    parameters, last = 0, 0
    for entry in tensors.values():
        kind, elements, begin, end = _tensor(entry, file.path)
        types[kind] += end - begin
        parameters += elements
        last = max(last, end)
    check_end(file, cursor.offset + max(last, types.total()))
    return SafetensorsHeader(path=file.path, parameters=parameters, weights_bytes=types.total(), types=dict(types))


def _tensor(entry: object, path: str) -> tuple[str, int, int, int]:
    if isinstance(entry, Mapping):
        kind, shape, place = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
        if isinstance(kind, str) and isinstance(shape, list) and isinstance(place, list) and len(place) == 2:
            begin, end = (sane(offset, 2**63) for offset in place)
            counts = [sane(count) for count in shape[:64]]
            if begin is not None and end is not None and begin <= end and None not in counts:
                return kind[:16], prod(count or 0 for count in counts), begin, end
    raise BadHeader(f"{path} describes a tensor that makes no sense.")


def read_document(file: Readable | None) -> Mapping[str, Any]:
    """A small JSON file of the model; empty if there is none, or it is none."""
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


def safetensors_facts(
    headers: Sequence[SafetensorsHeader], config: Mapping[str, Any], *, has_chat_template: bool
) -> ModelFacts:
    """What a folder of one or more files is. A model with eyes tells of its words in `text_config`."""
    words = config.get("text_config")
    words = {**config, **words} if isinstance(words, Mapping) else config
    types: Counter[str] = Counter()
    for header in headers:
        types.update(header.types)
    quantisation = _quantisation(config, types)
    is_packed = any(kind in _WHOLE_NUMBERS for kind in types) and not quantisation.isupper()
    layers, heads = sane(words.get("num_hidden_layers")), sane(words.get("num_attention_heads"))
    kv_heads = sane(words.get("num_key_value_heads"))
    return ModelFacts(
        format="safetensors",
        architecture=_architecture(config),
        parameters=None if is_packed else sum(header.parameters for header in headers),
        quantisation=quantisation,
        layers=layers,
        context_length=sane(words.get("max_position_embeddings")),
        embedding_length=sane(words.get("hidden_size")),
        heads=heads,
        kv_heads=heads if kv_heads is None else kv_heads,
        kv_bytes_per_token=_kv_bytes_per_token(words, layers, heads, heads if kv_heads is None else kv_heads),
        weights_bytes=sum(header.weights_bytes for header in headers),
        has_chat_template=has_chat_template,
    )


def _architecture(config: Mapping[str, Any]) -> str:
    kind, classes = config.get("model_type"), config.get("architectures")
    if isinstance(kind, str) and kind:
        return kind[:255]
    return classes[0][:255] if isinstance(classes, list) and classes and isinstance(classes[0], str) else ""


def _quantisation(config: Mapping[str, Any], types: Counter[str]) -> str:
    """The method in small letters with its bits, such as `gptq-4`, else the type that takes the most bytes."""
    given = config.get("quantization_config")
    if isinstance(given, Mapping) and isinstance(given.get("quant_method"), str):
        bits = sane(given.get("bits"), 64)
        return f"{given['quant_method'][:32].lower()}{f'-{bits}' if bits else ''}"
    return max(types, key=lambda name: (types[name], name), default="")


def _kv_bytes_per_token(
    words: Mapping[str, Any], layers: int | None, heads: int | None, kv_heads: int | None
) -> int | None:
    width = sane(words.get("hidden_size"))
    length = sane(words.get("head_dim"))
    if length is None and width is not None and heads:
        length = width // heads
    if layers is None or kv_heads is None or length is None:
        return None
    return sane(2 * layers * kv_heads * length * _KV_ELEMENT_BYTES)
