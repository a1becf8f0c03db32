"""Reads the header of a GGUF file, versions 2 and 3, as llama.cpp does, without reading a weight.

The tables of types and names are those of the format's specification.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from corral.domain.model import ModelFacts
from corral.policy.models.header_bytes import (
    BadHeader,
    HeaderCursor,
    ReadableFile,
    check_end,
    detect_tools,
    parse_count,
)

MAGIC = b"GGUF"
VERSIONS = (2, 3)
# Far above what is in use: about 60 entries and 2,000 tensors.
ENTRIES_MAX = 65_536
TENSORS_MAX = 262_144
DIMENSIONS_MAX = 8
NAME_BYTES_MAX = 65_535
# Only short texts and lists are kept; a vocabulary is skipped.
KEPT_TEXT_BYTES = 1024
KEPT_LIST_LENGTH = 4096
# Ten times the longest chat template in use.
TEMPLATE_BYTES_MAX = 512 * 1024
NESTING_MAX = 4
# Eight times the largest vocabulary in use.
LIST_LENGTH_MAX = 2_000_000
_KV_ELEMENT_BYTES = 2  # half precision, llama.cpp's default

_TEMPLATE = "tokenizer.chat_template"
LORA = "lora"
LORA_A, LORA_B = ".lora_a", ".lora_b"
_LAYER = re.compile(r"\.\d+\.", re.ASCII)
# Of the kinds of matrices in one model; a large one has about forty.
SHAPES_MAX = 128
SHAPE_NAME_MAX = 128
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_BLOCKS = """
    0:F32:1:4 1:F16:1:2 2:Q4_0:32:18 3:Q4_1:32:20 6:Q5_0:32:22 7:Q5_1:32:24 8:Q8_0:32:34 9:Q8_1:32:40 10:Q2_K:256:84
    11:Q3_K:256:110 12:Q4_K:256:144 13:Q5_K:256:176 14:Q6_K:256:210 15:Q8_K:256:292 16:IQ2_XXS:256:66
    17:IQ2_XS:256:74 18:IQ3_XXS:256:98 19:IQ1_S:256:50 20:IQ4_NL:32:18 21:IQ3_S:256:110 22:IQ2_S:256:82
    23:IQ4_XS:256:136 24:I8:1:1 25:I16:1:2 26:I32:1:4 27:I64:1:8 28:F64:1:8 29:IQ1_M:256:56 30:BF16:1:2
    34:TQ1_0:256:54 35:TQ2_0:256:66 39:MXFP4:32:17 40:NVFP4:64:36 41:Q1_0:128:18
"""
_FILE_TYPES = """
    0:F32 1:F16 2:Q4_0 3:Q4_1 7:Q8_0 8:Q5_0 9:Q5_1 10:Q2_K 11:Q3_K_S 12:Q3_K_M 13:Q3_K_L 14:Q4_K_S 15:Q4_K_M
    16:Q5_K_S 17:Q5_K_M 18:Q6_K 19:IQ2_XXS 20:IQ2_XS 21:Q2_K_S 22:IQ3_XS 23:IQ3_XXS 24:IQ1_S 25:IQ4_NL 26:IQ3_S
    27:IQ3_M 28:IQ2_S 29:IQ2_M 30:IQ4_XS 31:IQ1_M 32:BF16 36:TQ1_0 37:TQ2_0 38:MXFP4_MOE 39:NVFP4 40:Q1_0
"""
FILE_TYPES = {int(number): name for number, name in (entry.split(":") for entry in _FILE_TYPES.split())}


@dataclass(frozen=True, slots=True)
class TensorType:
    """Describes how a GGUF tensor type stores weights: so many in one block of so many bytes."""

    name: str
    block: int
    block_bytes: int

    def compute_bytes(self, elements: int) -> int:
        return -(-elements // self.block) * self.block_bytes


TENSOR_TYPES = {
    int(number): TensorType(name, int(block), int(block_bytes))
    for number, name, block, block_bytes in (entry.split(":") for entry in _BLOCKS.split())
}

GgufValue = int | float | bool | str | tuple["GgufValue", ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """Holds the header of one GGUF model file.

    Long texts and lists are None; so are weight bytes of an unknown type.
    """

    path: str
    version: int
    entries: Mapping[str, GgufValue] = field(default_factory=dict)
    parameters: int = 0
    weights_bytes: int | None = 0
    # Bytes by the name of the tensors' type.
    types: Mapping[str, int] = field(default_factory=dict)
    # Inputs and outputs of matrices by name, with `*` for the number of a layer.
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def get_text(self, key: str) -> str:
        value = self.entries.get(key)
        return value if isinstance(value, str) else ""

    def get_count(self, key: str) -> int | None:
        return parse_count(self.entries.get(key))

    @property
    def architecture(self) -> str:
        return self.get_text("general.architecture")

    @property
    def is_lora(self) -> bool:
        """Return whether the file is a LoRA adapter of another model."""
        return self.get_text("general.type") == "adapter" and self.get_text("adapter.type") == "lora"

    @property
    def is_projector(self) -> bool:
        """Return whether the file is a projector (vision or audio encoder) of another model."""
        return self.architecture == "clip" or self.get_text("general.type") in ("mmproj", "adapter")


def read_gguf(file: ReadableFile) -> GgufHeader:
    """Read the header of one file; `BadHeader` for anything that is none, cut off, or larger than any real one."""
    cursor = HeaderCursor(file)
    if cursor.read(4) != MAGIC:
        raise BadHeader(f"{file.path} is not a GGUF file.", hint="Check where it comes from.")
    version = cursor.read_number("I")
    if version not in VERSIONS:
        raise BadHeader(f"{file.path} has version {version} of GGUF; 2 and 3 (little-endian) are understood.")
    tensor_count, entry_count = cursor.read_length(), cursor.read_length()
    if tensor_count > TENSORS_MAX or entry_count > ENTRIES_MAX:
        raise BadHeader(f"{file.path} claims to have {tensor_count} tensors and {entry_count} entries.")
    entries: dict[str, GgufValue] = {}
    for _ in range(entry_count):
        key = _read_name(cursor, file)
        kept_bytes = TEMPLATE_BYTES_MAX if key.startswith(_TEMPLATE) else KEPT_TEXT_BYTES
        entries[key] = _read_value(cursor, file, cursor.read_number("I"), kept_bytes)
    tensors = [_read_tensor(cursor, file) for _ in range(tensor_count)]
    return _make_header(file, cursor.offset, version, entries, tensors)


@dataclass(frozen=True, slots=True)
class _Tensor:
    """Holds the name, type, sizes and offset of one tensor."""

    name: str
    type: TensorType | None
    sizes: tuple[int, ...]
    elements: int
    offset: int


def _make_header(
    file: ReadableFile, header_end: int, version: int, entries: Mapping[str, GgufValue], tensors: Sequence[_Tensor]
) -> GgufHeader:
    types: Counter[str] = Counter()
    is_known, last = True, 0
    for tensor in tensors:
        if tensor.type is None:
            is_known = False
            continue
        size = tensor.type.compute_bytes(tensor.elements)
        types[tensor.type.name] += size
        last = max(last, tensor.offset + size)
    alignment = parse_count(entries.get("general.alignment"), 65_536) or 32
    begin = -(-header_end // alignment) * alignment if tensors else header_end
    # Overlapping tensors would be more than the file has.
    check_end(file, begin + max(last, types.total()))
    return GgufHeader(
        path=file.path,
        version=version,
        entries=entries,
        parameters=sum(tensor.elements for tensor in tensors),
        weights_bytes=types.total() if is_known else file.size_bytes - begin,
        types=dict(types),
        shapes=_collect_shapes(tensors),
    )


def _collect_shapes(tensors: Sequence[_Tensor]) -> dict[str, Sequence[int]]:
    """Return inputs and outputs of each kind of matrix. An adapter has two factors for each one that it changes."""
    found: dict[str, set[tuple[int, int]]] = {}
    inputs: dict[str, int] = {}
    outputs: dict[str, int] = {}
    for tensor in tensors:
        if len(tensor.sizes) != 2:
            continue
        stem, factor = tensor.name.removesuffix(LORA_A), ""
        if stem != tensor.name:
            factor = LORA_A
        elif tensor.name.endswith(LORA_B):
            stem, factor = tensor.name.removesuffix(LORA_B), LORA_B
        if factor == LORA_A:
            inputs[stem] = tensor.sizes[0]
        elif factor == LORA_B:
            outputs[stem] = tensor.sizes[1]
        else:
            found.setdefault(_LAYER.sub(".*.", stem), set()).add((tensor.sizes[0], tensor.sizes[1]))
    for stem, size in inputs.items():
        found.setdefault(_LAYER.sub(".*.", stem), set()).add((size, outputs.get(stem, 0)))
    kept = sorted(name for name, sizes in found.items() if len(sizes) == 1 and len(name) <= SHAPE_NAME_MAX)
    return {name: list(next(iter(found[name]))) for name in kept[:SHAPES_MAX]}


def _read_name(cursor: HeaderCursor, file: ReadableFile) -> str:
    length = cursor.read_length()
    if length > NAME_BYTES_MAX:
        raise BadHeader(f"{file.path} has a name of {length} bytes in its header.")
    return cursor.read(length).decode("utf-8", "replace")


def _read_value(cursor: HeaderCursor, file: ReadableFile, kind: int, kept_bytes: int) -> GgufValue:
    if kind in _SCALARS:
        value: GgufValue = struct.unpack(f"<{_SCALARS[kind]}", cursor.read(struct.calcsize(f"<{_SCALARS[kind]}")))[0]
        return value
    if kind == _STRING:
        length = cursor.read_length()
        if length <= kept_bytes:
            return cursor.read(length).decode("utf-8", "replace")
        cursor.skip(length)
        return None
    if kind == _ARRAY:
        return _read_array(cursor, file, depth=1)
    raise BadHeader(f"{file.path} has an entry of the unknown type {kind} in its header.")


def _read_array(cursor: HeaderCursor, file: ReadableFile, depth: int) -> GgufValue:
    kind, length = cursor.read_number("I"), cursor.read_length()
    if length > LIST_LENGTH_MAX:
        raise BadHeader(f"{file.path} has a list of {length} values in its header.")
    if kind in _SCALARS:
        form = f"<{_SCALARS[kind]}"
        if length > KEPT_LIST_LENGTH:
            cursor.skip(length * struct.calcsize(form))
            return None
        return tuple(value for (value,) in struct.iter_unpack(form, cursor.read(length * struct.calcsize(form))))
    if kind == _STRING:
        cursor.skip_texts(length)
        return None
    if kind == _ARRAY and depth < NESTING_MAX:
        for _ in range(length):
            _read_array(cursor, file, depth + 1)
        return None
    raise BadHeader(f"{file.path} has a list of the unknown type {kind} in its header.")


def _read_tensor(cursor: HeaderCursor, file: ReadableFile) -> _Tensor:
    name = _read_name(cursor, file)
    dimensions = cursor.read_number("I")
    if dimensions > DIMENSIONS_MAX:
        raise BadHeader(f"{file.path} has a tensor with {dimensions} dimensions.")
    sizes = tuple(cursor.read_length() for _ in range(dimensions))
    elements = prod(sizes)
    kind, offset = cursor.read_number("I"), cursor.read_length()
    if parse_count(elements, 2**63) is None or parse_count(offset, 2**63) is None:
        raise BadHeader(f"{file.path} has a tensor of {elements} numbers.")
    return _Tensor(name, TENSOR_TYPES.get(kind), sizes, elements, offset)


def make_gguf_facts(headers: Sequence[GgufHeader], entry: str = "") -> ModelFacts:
    """Return the facts of one model, made of one file, of several shards, or of a file and its projector.

    The first shard has all entries and each shard its own tensors. A projector adds its weights and nothing else, and
    files of other models add nothing. `entry` is the path of the file that the engine is given.
    """
    main = _find_main(headers, entry)
    shards = [header for header in headers if header is main or _is_shard_of(main, header)]
    counted = shards + [header for header in headers if header.is_projector and header is not main]
    weights = [header.weights_bytes for header in counted]
    family = main.architecture
    layers = main.get_count(f"{family}.block_count")
    heads = _find_most(main.entries.get(f"{family}.attention.head_count"))
    kv_heads = main.entries.get(f"{family}.attention.head_count_kv")
    types: Counter[str] = Counter()
    for shard in shards:
        types.update(shard.types)
    file_type = main.get_count("general.file_type")
    return ModelFacts(
        format="gguf",
        architecture=family,
        parameters=sum(shard.parameters for shard in shards),
        quantisation=FILE_TYPES.get(-1 if file_type is None else file_type) or _find_commonest(types),
        layers=layers,
        context_length=main.get_count(f"{family}.context_length"),
        embedding_length=main.get_count(f"{family}.embedding_length"),
        heads=heads,
        kv_heads=heads if kv_heads is None else _find_most(kv_heads),
        kv_bytes_per_token=_compute_kv_bytes_per_token(main),
        weights_bytes=None if None in weights else sum(size or 0 for size in weights),
        has_chat_template=_TEMPLATE in main.entries,
        takes_tools=_detect_tools(main),
        kind=LORA if main.is_lora else "",
        shapes={name: size for shard in shards for name, size in shard.shapes.items()},
    )


def _detect_tools(main: GgufHeader) -> bool | None:
    """Return whether a template of the file has a place for tools. Without any, llama.cpp uses one that has none."""
    templates = [value for key, value in main.entries.items() if key == _TEMPLATE or key.startswith(f"{_TEMPLATE}.")]
    return detect_tools([value if isinstance(value, str) else None for value in templates])


def _find_main(headers: Sequence[GgufHeader], entry: str) -> GgufHeader:
    candidates = [header for header in headers if header.architecture and not header.is_projector]
    chosen = [header for header in headers if header.path == entry]
    return next(iter([*chosen, *candidates]), headers[0])


def _is_shard_of(main: GgufHeader, other: GgufHeader) -> bool:
    """Return whether a file is a later shard of a model: it names no architecture of its own, or the same one."""
    count = main.get_count("split.count") or 0
    return count > 1 and other.get_count("split.count") == count and other.architecture in ("", main.architecture)


def _compute_kv_bytes_per_token(main: GgufHeader) -> int | None:
    """Return the bytes of keys and values of one token over all layers. Sliding windows make it less: this is the
    maximum."""
    family = main.architecture
    layers, heads = main.get_count(f"{family}.block_count"), main.entries.get(f"{family}.attention.head_count")
    if main.entries.get(f"{family}.attention.causal") is False:
        return 0  # an encoder, which keeps no keys and values
    most_heads = _find_most(heads)
    if layers is None or most_heads is None:
        return None
    given = main.entries.get(f"{family}.attention.head_count_kv")
    by_layer = _sum_over_layers(heads if given is None else given, layers)
    width = main.get_count(f"{family}.embedding_length")
    usual = width // most_heads if width is not None and most_heads else None
    key, value = main.get_count(f"{family}.attention.key_length"), main.get_count(f"{family}.attention.value_length")
    key, value = usual if key is None else key, usual if value is None else value
    if by_layer is None or key is None or value is None:
        return None
    return parse_count(by_layer * (key + value) * _KV_ELEMENT_BYTES)


def _sum_over_layers(heads: GgufValue, layers: int) -> int | None:
    """Sum the heads over the layers: one number for all of them, or one each."""
    if isinstance(heads, tuple):
        counts = [parse_count(count) for count in heads[:layers]]
        return None if None in counts or len(counts) < layers else sum(count or 0 for count in counts)
    count = parse_count(heads)
    return None if count is None else count * layers


def _find_most(heads: GgufValue) -> int | None:
    """Return the largest number of heads of any layer."""
    if isinstance(heads, tuple):
        return max((count for count in map(parse_count, heads) if count is not None), default=None)
    return parse_count(heads)


def _find_commonest(types: Counter[str]) -> str:
    return max(types, key=lambda name: (types[name], name), default="")
