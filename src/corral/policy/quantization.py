"""Decides about quantisations: types and expected sizes, which file of a model is read, room, progress, and the model
that the result becomes.

Guarantee: the percentage of a run never goes back as long as its phases come in their order. Limit: expected sizes are
estimates; of a model that an earlier version has registered, from the number of parameters alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import PurePosixPath
from types import MappingProxyType

from corral.domain.errors import InvalidRequest, Unprocessable
from corral.domain.model import FilePart, Model, ModelConfig, ModelFile, ModelMcpConfig, StoredFile
from corral.domain.node import Node, NodeType
from corral.domain.quantization import Quantization, QuantizationPhase, QuantizationStatus, WeightType
from corral.domain.run import RunNeeds, RunState
from corral.policy.models.gguf import FILE_TYPES, LORA, TENSOR_TYPES

BACKEND = "llama-cpp-quantization"
CONVERTER = "llama-conversion"
# What serves the result of a conversion.
ENGINE = "llama-cpp"
HALF = "f16"
_HALF_BITS = 16
SAFETENSORS = ".safetensors"
# What the converter reads beside the weights.
_BESIDE = frozenset(
    {
        "config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json",
        "added_tokens.json", "generation_config.json", "chat_template.jinja", "chat_template.json", "merges.txt",
        "vocab.json", "adapter_config.json",
    }
)  # fmt: skip
# Families that the converter knows, as `config.json` names them.
FAMILIES = ("llama", "mistral")
# Options of another engine that mean the same for the result.
_SHARED_OPTIONS = frozenset({"context_size", "parallel"})
# Bits for each weight as llama.cpp's own tables have them for a model of 8 billion parameters.
WEIGHT_TYPES: Mapping[str, WeightType] = MappingProxyType(
    {
        name: WeightType(name=name, bits_per_weight=bits)
        for name, bits in (
            ("q2_k", 3.16),
            ("q3_k_s", 3.64),
            ("q3_k_m", 4.0),
            ("q3_k_l", 4.3),
            ("q4_0", 4.67),
            ("q4_1", 5.13),
            ("q4_k_s", 4.67),
            ("q4_k_m", 4.9),
            ("q5_0", 5.57),
            ("q5_1", 6.03),
            ("q5_k_s", 5.57),
            ("q5_k_m", 5.7),
            ("q6_k", 6.56),
            ("q8_0", 8.5),
            ("bf16", 16.0),
            ("f16", 16.0),
        )
    }
)
# K types pack 256 weights of a row. Rows of another length get a type of 32 weights, and the output one of 8 bits:
# `tensor_type_fallback` of llama.cpp. The bits of each.
_K_BLOCK = 256
_INSTEAD: Mapping[str, float] = MappingProxyType({"q2_k": 4.5, "q3_k": 4.5, "q4_k": 5.5, "q5_k": 6.0, "q6_k": 8.5})
_OUTPUT, _EMBEDDING = "output.weight", "token_embd.weight"
_OUTPUT_BITS, _INSTEAD_OUTPUT_BITS = 6.56, 8.5
# What a name without a size means, as llama.cpp's own tool reads it.
_SHORT_NAMES = {"q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m", "q6_k_m": "q6_k", "q8": "q8_0"}
DEFAULT_TYPE = "q4_k_m"
# Vocabulary, templates and metadata of a GGUF file.
_HEADER_BYTES = 16 * 1024**2
# A token in it, with its share of the merges.
_TOKEN_BYTES = 36
# How much larger than expected a result may be; more is refused.
_RESULT_MARGIN = 1.25
_WIDEST_BITS = 32.0
# What a replica takes beside its weights, roughly: the exact number depends on its context.
_CONTEXT_MARGIN = 1.2
# The tensor that is worked on, as floats and as its result, and the program itself.
_RAM_BASE_BYTES = 256 * 1024**2
_RAM_MAX_BYTES = 2 * 1024**3
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
# From where to where each phase moves the bar.
_WINDOWS: Mapping[QuantizationPhase, tuple[float, float]] = MappingProxyType(
    {
        QuantizationPhase.DOWNLOADING: (0.0, 30.0),
        QuantizationPhase.CONVERTING: (30.0, 45.0),
        QuantizationPhase.QUANTIZING: (45.0, 90.0),
        QuantizationPhase.UPLOADING: (90.0, 99.0),
    }
)
_STATUS_OF_PHASE = {
    QuantizationPhase.DOWNLOADING: QuantizationStatus.DOWNLOADING,
    QuantizationPhase.CONVERTING: QuantizationStatus.CONVERTING,
    QuantizationPhase.QUANTIZING: QuantizationStatus.QUANTIZING,
    # LocalAI has no word for it.
    QuantizationPhase.UPLOADING: QuantizationStatus.QUANTIZING,
}
_END_STATUS = {
    RunState.COMPLETED: QuantizationStatus.COMPLETED,
    RunState.CANCELLED: QuantizationStatus.STOPPED,
    RunState.FAILED: QuantizationStatus.FAILED,
    RunState.LOST: QuantizationStatus.FAILED,
}


def parse_weight_type(text: str) -> WeightType:
    """Return the type with this name, in upper or lower case."""
    name = text.strip().lower().replace("-", "_")
    found = WEIGHT_TYPES.get(_SHORT_NAMES.get(name, name))
    if found is None:
        near = get_close_matches(name[:40], list(WEIGHT_TYPES), n=1, cutoff=0.6)
        known = ", ".join(WEIGHT_TYPES)
        raise InvalidRequest(
            f"{text[:40]!r} is not a type that models can be quantised to.",
            hint=f"Did you mean {near[0]}?" if near else f"Choose one of: {known}.",
            code="unknown_weight_type",
            details={"types": list(WEIGHT_TYPES)},
        )
    return found


def is_of_type(quantisation: str, weight_type: str) -> bool:
    """Return whether the type that a file's header names is the one that was requested."""
    return quantisation.lower() == weight_type


def estimate_result_bytes(model: Model, weight_type: WeightType) -> int | None:
    """Return about how many bytes a model takes with this type; None if nothing is known of its weights."""
    parameters = model.facts.parameters if model.facts is not None else None
    if parameters is None and model.payload_bytes is not None:
        parameters = int(model.payload_bytes * 8 / _find_bits(model))
    if parameters is None:
        return None
    vocabulary = model.facts.shapes.get(_EMBEDDING) if model.facts is not None else None
    header = vocabulary[1] * _TOKEN_BYTES if vocabulary else min(_HEADER_BYTES, parameters // 8)
    by_shape = _estimate_by_shapes(model, parameters, weight_type)
    return by_shape + header if by_shape is not None else int(parameters * weight_type.bits_per_weight / 8) + header


def _estimate_by_shapes(model: Model, parameters: int, weight_type: WeightType) -> int | None:
    """Return the bytes of the weights where the rows of some matrices do not divide into the blocks of a K type: they
    get the type that llama.cpp takes instead. None if all divide, or if the matrices are not known."""
    facts = model.facts
    instead = _INSTEAD.get(weight_type.name[:4])
    if facts is None or not facts.shapes or not facts.layers or instead is None:
        return None
    counted = bits = 0.0
    has_output = _OUTPUT in facts.shapes
    for name, (width, height) in facts.shapes.items():
        count = width * height * (facts.layers if "*" in name else 1)
        is_output = name == _OUTPUT or (name == _EMBEDDING and not has_output)
        fits = width % _K_BLOCK == 0
        wide = (_OUTPUT_BITS if fits else _INSTEAD_OUTPUT_BITS) if is_output else None
        counted += count
        bits += count * (wide or (weight_type.bits_per_weight if fits else instead))
    if all(width % _K_BLOCK == 0 for width, _ in facts.shapes.values()):
        return None
    rest = max(0.0, parameters - counted)
    return int((bits + rest * weight_type.bits_per_weight) / 8)


def _find_bits(model: Model) -> float:
    """Return how many bits a weight of a model takes in its files."""
    name = model.facts.quantisation if model.facts is not None else ""
    known = WEIGHT_TYPES.get(name.lower())
    if known is not None:
        return known.bits_per_weight
    tensor_type = next((kind for kind in TENSOR_TYPES.values() if kind.name == name.upper()), None)
    return tensor_type.block_bytes * 8 / tensor_type.block if tensor_type is not None else _WIDEST_BITS / 2


def is_quantized(model: Model) -> bool:
    """Return whether the weights of a model are quantised already, as far as is known."""
    name = model.facts.quantisation.lower() if model.facts is not None else ""
    return bool(name) and name not in ("f32", "f16", "bf16")


def list_fitting(nodes: Sequence[Node], size_bytes: int | None) -> list[str]:
    """Return the names of the nodes whose free GPU memory, or RAM without a GPU, holds weights of this size with some
    context."""
    if size_bytes is None:
        return []
    need = int(size_bytes * _CONTEXT_MARGIN)
    found = []
    for node in nodes:
        hardware = node.hardware
        free = hardware.available_vram if hardware.total_vram else hardware.available_ram
        reserved = node.reserved_vram if hardware.total_vram else node.reserved_ram
        if node.type is NodeType.BACKEND and free is not None and free - reserved >= need:
            found.append(node.name)
    return found


def compute_needs(model: Model, source_bytes: int | None, weight_type: WeightType) -> RunNeeds:
    """Return what a node must have free: the source, the result, and memory for the largest weights."""
    result = estimate_result_bytes(model, weight_type)
    if result is None and source_bytes is not None:
        result = int(source_bytes * weight_type.bits_per_weight / 4)
    if source_bytes is None or result is None:
        return RunNeeds()
    ram = _RAM_BASE_BYTES + min(source_bytes, _RAM_MAX_BYTES)
    disk = source_bytes + int(result * _RESULT_MARGIN)
    if is_converted(model) and weight_type.name != HALF:
        # The file in half precision lies beside both.
        disk += int(result * _HALF_BITS / weight_type.bits_per_weight)
    return RunNeeds(disk_bytes=disk, ram_bytes=ram)


def is_converted(model: Model) -> bool:
    """Return whether the weights of a model have to become a GGUF file first, as far as is known."""
    return model.facts is not None and model.facts.format == "safetensors"


def is_lora(model: Model) -> bool:
    return model.facts is not None and model.facts.kind == LORA


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterBase:
    """The base of an adapter that is converted, with what the order of its rows depends on."""

    name: str
    architecture: str
    heads: int
    kv_heads: int


def choose_base(model: Model, base: Model | None, weight_type: WeightType) -> AdapterBase | None:
    """Return the base that the conversion of an adapter needs; None for a model. Raises `Unprocessable` for a
    combination that makes no sense."""
    if not is_lora(model):
        if base is not None and model.files is not None:
            raise Unprocessable(f"{model.name} is no LoRA adapter, so it has no base.", code="not_an_adapter")
        if base is None:
            return None
    if base is None:
        raise Unprocessable(
            f"{model.name} is a LoRA adapter, and its base is not named.",
            hint="Name the GGUF model that it shall change: corral quantize ADAPTER --type f16 --base MODEL",
            code="base_missing",
        )
    if weight_type.name != HALF:
        raise Unprocessable(
            f"{model.name} is a LoRA adapter, which is converted to f16 alone.", hint="--type f16", code="bad_adapter"
        )
    facts = base.facts
    if facts is None or facts.format != "gguf" or not facts.heads:
        raise Unprocessable(
            f"The base {base.name} has no GGUF file whose header is known here.",
            hint=f"Load it once: corral models load {base.name}",
            code="base_unknown",
        )
    return AdapterBase(
        name=base.name,
        architecture=facts.architecture,
        heads=facts.heads,
        kv_heads=facts.kv_heads or facts.heads,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """The files of a model that a quantisation reads, the first of them, and those that the result keeps."""

    entry: StoredFile
    weights: tuple[StoredFile, ...]
    kept: tuple[StoredFile, ...] = ()
    # What a converter reads beside the weights.
    beside: tuple[StoredFile, ...] = ()

    @property
    def is_converted(self) -> bool:
        return self.entry.path.lower().endswith(SAFETENSORS)

    @property
    def needed(self) -> tuple[StoredFile, ...]:
        return (*self.weights, *self.kept, *self.beside)


def choose_source(model: Model, imatrix: str = "") -> SourceFiles:
    """Return which files of a model are read. `imatrix` is the path of its importance matrix among them. Raises
    `Unprocessable` for a model that cannot be quantised."""
    matrix = next((file for file in model.files or () if file.path == imatrix), None)
    if imatrix and matrix is None:
        raise Unprocessable(
            f"{model.name} has no file {imatrix[:200]!r} that could be its importance matrix.",
            hint=f"Add the file to the model: corral models edit {model.name}",
            code="imatrix_not_found",
        )
    found = _choose_weights(model, [file for file in model.files or () if file != matrix])
    return found if matrix is None else replace(found, beside=(*found.beside, matrix))


def _choose_weights(model: Model, files: Sequence[StoredFile]) -> SourceFiles:
    if not any(file.path.lower().endswith(".gguf") for file in files):
        found = _choose_safetensors(model, files)
        if found is not None:
            return found
    named = set(model.config.options.values())
    kept = tuple(file for file in files if file.path in named and file.path != model.config.entry)
    candidates = [file for file in files if file.path.lower().endswith(".gguf") and file not in kept]
    entry = next((file for file in candidates if file.path == model.config.entry), None)
    shards = [file for file in candidates if _SHARD.search(file.path)]
    if entry is None and len(candidates) == 1:
        entry = candidates[0]
    if entry is None and shards and len(shards) == len(candidates):
        entry = min(shards, key=lambda file: file.path)
    if entry is None:
        raise Unprocessable(_explain_no_source(model, has_gguf=bool(candidates)), hint=_HINT, code="not_quantizable")
    weights = tuple(shards) if _SHARD.search(entry.path) else (entry,)
    return SourceFiles(entry=entry, weights=weights, kept=kept)


def _choose_safetensors(model: Model, files: Sequence[StoredFile]) -> SourceFiles | None:
    """Return the safetensors files of a model with what lies beside them; None if there are none. Raises
    `Unprocessable` for a family that the converter does not know."""
    weights = [file for file in files if file.path.lower().endswith(SAFETENSORS)]
    if not weights:
        return None
    folder = min((file.path.rpartition("/")[0] for file in weights), key=lambda path: (path.count("/"), path))
    inside = [file for file in files if file.path.rpartition("/")[0] == folder]
    weights = sorted((file for file in inside if file in weights), key=lambda file: file.path)
    family = model.facts.architecture if model.facts is not None else ""
    if family and not is_lora(model) and family not in FAMILIES:
        raise Unprocessable(
            f"{model.name} is of the family {family}; the converter knows {' and '.join(FAMILIES)}.",
            hint="Install a GGUF variant of the model.",
            code="not_convertible",
        )
    beside = tuple(file for file in inside if PurePosixPath(file.path).name in _BESIDE)
    return SourceFiles(entry=weights[0], weights=tuple(weights), beside=beside)


_HINT = "Quantise a model of GGUF or safetensors files; `corral models show` lists the files of a model."


def _explain_no_source(model: Model, *, has_gguf: bool) -> str:
    if has_gguf:
        return f"{model.name} has several GGUF files, and its configuration does not say which one it is."
    return f"{model.name} has neither GGUF nor safetensors files."


def make_file_name(source: str, weight_type: str) -> str:
    """Return the name of the result: that of the source, with the other type in it."""
    stem = PurePosixPath(source).name
    stem = _SHARD.sub("", stem) if _SHARD.search(stem) else stem.removesuffix(".gguf")
    stem = re.sub(r"(-\d{5}-of-\d{5})?\.safetensors$", "", stem, flags=re.IGNORECASE)
    names = "|".join(sorted({*(name.upper() for name in WEIGHT_TYPES), *FILE_TYPES.values()}, key=len, reverse=True))
    bare = re.sub(rf"[.\-_](?:{names})$", "", stem, flags=re.IGNORECASE) or stem
    return f"{bare[:200]}.{weight_type.upper()}.gguf"


def make_model_name(source: str, weight_type: str) -> str:
    """Return the name that a result gets by default."""
    return f"{source[:200]}-{weight_type}"


def make_result_config(model: Model, source: SourceFiles, result: StoredFile) -> ModelConfig:
    """Return the configuration of the model that a result becomes: that of its source, with the other file. What names
    or limits the source alone is left out; MCP servers are, because an admin has to give them."""
    files = (result, *source.kept)
    config = model.config
    if source.is_converted:
        # It was for another engine.
        shared = {name: value for name, value in config.options.items() if name in _SHARED_OPTIONS}
        config = replace(config, backend=ENGINE, options=shared)
    return replace(
        config,
        files=tuple(
            ModelFile(path=file.path, parts=(FilePart(uri=f"upload:{file.sha256}"),), sha256=file.sha256)
            for file in files
        ),
        entry=result.path,
        vram_bytes=None,
        ram_bytes=None,
        aliases=(),
        is_enabled=True,
        is_pinned=False,
        gallery="",
        variant="",
        is_variant_pinned=False,
        mcp=ModelMcpConfig(),
    )


def make_adapter_config(model: Model, base: str, result: StoredFile) -> ModelConfig:
    """Return the configuration of the adapter that a converted adapter becomes."""
    file = ModelFile(path=result.path, parts=(FilePart(uri=f"upload:{result.sha256}"),), sha256=result.sha256)
    return ModelConfig(
        name=model.name,
        backend=ENGINE,
        files=(file,),
        description=model.config.description,
        defaults=model.config.defaults,
        base=base,
        adapter=result.path,
    )


def compute_percent(phase: QuantizationPhase, fraction: float) -> float:
    """Return how far a run is, 0 to 100, when so much of a phase is done, 0 to 1."""
    low, high = _WINDOWS[phase]
    return round(low + (high - low) * min(1.0, max(0.0, fraction)), 1)


def find_status(job: Quantization) -> QuantizationStatus:
    """Return the state of a job in LocalAI's words."""
    ended = _END_STATUS.get(job.run_state)
    if ended is not None:
        return ended
    if job.phase not in set(QuantizationPhase) or job.run_state is RunState.QUEUED:
        return QuantizationStatus.QUEUED
    return _STATUS_OF_PHASE[QuantizationPhase(job.phase)]


def list_addresses(files: Sequence[ModelFile]) -> list[str]:
    """Return where the files of a model come from."""
    return [part.uri for file in files for part in file.parts][:100]
