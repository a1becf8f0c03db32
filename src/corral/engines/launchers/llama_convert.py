"""Makes a GGUF file in half precision from safetensors: a model of the llama family, or a PEFT LoRA adapter of one.

Each line on standard output is an object: `{"phase", "fraction"}` while it works, and the last one `{"result": …}` or
`{"error", "code"}`. Names, parameters and the order of the rows of queries and keys are those of llama.cpp's own
converter, which needs torch and transformers; this one needs numpy and gguf, and holds one tensor at a time. Guarantee:
what it does not know for certain (another family, another tokenizer, a scaling of positions) is refused, because the
result would load and answer nonsense.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import struct
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

FAMILIES = {"llama": "llama", "mistral": "llama"}
HEADER_BYTES_MAX = 64 * 1024 * 1024
DOCUMENT_BYTES_MAX = 64 * 1024 * 1024
PLAIN: dict[str, Any] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2")}
_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_IN_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)$", re.ASCII)
# Computed from the parameters, and written by old versions of transformers.
_SKIPPED = re.compile(r"\.rotary_emb\.inv_freq$")
_LORA = re.compile(r"base_model\.model\.(.+)\.lora_([AB])(?:\.default)?\.weight$", re.ASCII)
# How the text is split before byte pairs are merged, by the patterns in `tokenizer.json`.
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


class ConversionError(Exception):
    """The source is not what this program converts."""


def main() -> int:
    options = read_options()
    if options.check:
        print(f"gguf {read_version()}, numpy {np.__version__}", flush=True)
        return 0
    if options.watch_stdin:
        threading.Thread(target=end_with_stdin, name="stdin", daemon=True).start()
    try:
        source = SourceFolder(Path(options.model).parent)
        convert = convert_adapter if options.heads else convert_model
        types = convert(source, Path(options.output), options)
    except ConversionError as error:
        write_line({"error": str(error), "code": "not_convertible"})
        return 1
    except (OSError, ValueError, KeyError, TypeError) as error:
        write_line({"error": f"The files are damaged or incomplete: {error!r}"[:500], "code": "bad_model_file"})
        return 1
    write_line({"phase": "converting", "fraction": 1.0})
    tool = f"Corral's converter with gguf {read_version()}"
    write_line({"result": {"tool": tool, "source_types": sorted(types), "is_requantized": False}})
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="load the libraries, print their versions and exit")
    parser.add_argument("--model", default="", help="one of the safetensors files; the others lie beside it")
    parser.add_argument("--output", default="", help="the file to write")
    parser.add_argument("--heads", type=int, default=0, help="of the base of an adapter: heads of queries")
    parser.add_argument("--kv-heads", type=int, default=0, help="of the base of an adapter: heads of keys and values")
    parser.add_argument("--architecture", default="llama", help="of the base of an adapter, as GGUF names it")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--watch-stdin", action="store_true", help="end when standard input is closed")
    options = parser.parse_args()
    if not options.check and (not options.model or not options.output):
        parser.error("--model and --output are needed")
    return options


def end_with_stdin() -> None:
    """End this process when its standard input is closed: the worker that started it is gone."""
    while os.read(0, 4096):
        pass
    os._exit(1)


def read_version() -> str:
    from importlib.metadata import version

    return version("gguf")


def write_line(fields: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


@dataclass(frozen=True)
class StoredTensor:
    """Holds where a tensor lies in a safetensors file, its type and its sizes."""

    path: Path
    kind: str
    shape: tuple[int, ...]
    start: int
    size_bytes: int

    def read(self) -> Any:
        """Return the numbers in 32 bits."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            content = file.read(self.size_bytes)
        if self.kind == "BF16":
            return (
                (np.frombuffer(content, np.dtype("<u2")).astype(np.uint32) << 16).view(np.float32).reshape(self.shape)
            )
        if self.kind not in PLAIN:
            raise ConversionError(f"The weights are {self.kind}; f32, f16 and bf16 can be converted.")
        return np.frombuffer(content, PLAIN[self.kind]).astype(np.float32).reshape(self.shape)


class SourceFolder:
    """Reads a folder of safetensors files and the documents beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tensors: dict[str, StoredTensor] = {}
        for path in sorted(folder.glob("*.safetensors")):
            self.tensors |= read_header(path)

    def read_document(self, name: str, *, is_required: bool = False) -> dict[str, Any]:
        path = self.folder / name
        if not path.is_file():
            if is_required:
                raise ConversionError(f"There is no {name} beside the weights.")
            return {}
        if path.stat().st_size > DOCUMENT_BYTES_MAX:
            raise ConversionError(f"{name} is larger than {DOCUMENT_BYTES_MAX // 1024**2} MiB.")
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}


def read_header(path: Path) -> dict[str, StoredTensor]:
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > HEADER_BYTES_MAX:
            raise ConversionError(f"{path.name} claims to have a header of {length} bytes.")
        header = json.loads(file.read(length))
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            shape = tuple(int(size) for size in entry["shape"])
            found[name] = StoredTensor(path, str(entry["dtype"]), shape, 8 + length + start, end - start)
    return found


# --- models ---


def convert_model(source: SourceFolder, output: Path, options: argparse.Namespace) -> set[str]:
    """Write a model and return the types of the weights that were read."""
    del options
    config = source.read_document("config.json", is_required=True)
    family = str(config.get("model_type") or "")
    if family not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise ConversionError(f"Models of the family {family or 'unknown'} cannot be converted; {known} can.")
    check_config(config)
    writer = gguf.GGUFWriter(output, FAMILIES[family])
    add_parameters(writer, config)
    add_vocabulary(writer, source, config)
    heads = int(config["num_attention_heads"])
    kv_heads = int(config.get("num_key_value_heads") or heads)
    named = sorted((map_name(name), name) for name in source.tensors if not _SKIPPED.search(name))
    names = {new: source.tensors[old] for new, old in named}
    factors = make_rope_factors(config)
    if factors is not None:
        writer.add_tensor_info("rope_freqs.weight", factors.shape, factors.dtype, factors.nbytes)
    for new, tensor in names.items():
        add_info(writer, new, tensor.shape)
    begin(writer)
    if factors is not None:
        writer.write_tensor_data(factors)
    for number, (new, tensor) in enumerate(names.items()):
        write_line({"phase": "converting", "fraction": number / len(names)})
        writer.write_tensor_data(to_stored(new, permute(new, tensor.read(), heads, kv_heads)))
    writer.close()
    return {tensor.kind.lower() for tensor in names.values()}


def check_config(config: Mapping[str, Any]) -> None:
    if config.get("quantization_config"):
        raise ConversionError("The weights are quantised; those in f32, f16 or bf16 can be converted.")
    if config.get("attention_bias") or config.get("mlp_bias"):
        raise ConversionError("A llama with biases cannot be converted.")
    if config.get("hidden_act", "silu") != "silu":
        raise ConversionError(f"A llama with the activation {config['hidden_act']} cannot be converted.")
    kind = read_rope(config).get("kind")
    if kind not in ("default", "linear", "llama3"):
        raise ConversionError(f"The scaling of positions {kind!r} cannot be converted.")


def read_rope(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return how positions are scaled: `rope_scaling` of earlier configurations, `rope_parameters` of later ones."""
    found = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = found.get("rope_type") or found.get("type") or "default"
    theta = found.get("rope_theta") or config.get("rope_theta") or 10000.0
    return {**found, "kind": kind, "theta": float(theta)}


def add_parameters(writer: Any, config: Mapping[str, Any]) -> None:
    heads, width = int(config["num_attention_heads"]), int(config["hidden_size"])
    head = int(config.get("head_dim") or width // heads)
    rope = read_rope(config)
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_block_count(int(config["num_hidden_layers"]))
    writer.add_context_length(int(config["max_position_embeddings"]))
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(int(config["intermediate_size"]))
    writer.add_head_count(heads)
    writer.add_head_count_kv(int(config.get("num_key_value_heads") or heads))
    writer.add_rope_freq_base(rope["theta"])
    writer.add_layer_norm_rms_eps(float(config["rms_norm_eps"]))
    if head != width // heads:
        writer.add_key_length(head)
        writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    if rope["kind"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(float(rope["factor"]))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_vocab_size(int(config["vocab_size"]))
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def make_rope_factors(config: Mapping[str, Any]) -> Any:
    """Return the factors of frequencies that Llama 3.1 and later ones have; None for others."""
    rope = read_rope(config)
    if rope["kind"] != "llama3":
        return None
    head = int(config.get("head_dim") or int(config["hidden_size"]) // int(config["num_attention_heads"]))
    factor, low, high = (float(rope[name]) for name in ("factor", "low_freq_factor", "high_freq_factor"))
    context = float(rope["original_max_position_embeddings"])
    factors = []
    for at in range(0, head, 2):
        length = 2 * math.pi * rope["theta"] ** (at / head)
        smooth = (context / length - low) / (high - low)
        between = 1 / ((1 - smooth) / factor + smooth) if length >= context / high else 1.0
        factors.append(factor if length > context / low else between)
    return np.array(factors, np.float32)


def map_name(name: str) -> str:
    """Return GGUF's name of a tensor."""
    stem, _, kind = name.rpartition(".")
    inside = _IN_LAYER.fullmatch(stem)
    new = f"blk.{inside[1]}.{_LAYER[inside[2]]}" if inside and inside[2] in _LAYER else _OUTSIDE.get(stem, "")
    if not new or kind != "weight":
        raise ConversionError(f"The tensor {name[:200]} does not belong to a llama.")
    return f"{new}.weight"


def permute(name: str, values: Any, heads: int, kv_heads: int) -> Any:
    """Return the rows of queries and keys in the order in which llama.cpp turns them."""
    count = heads if ".attn_q." in name else kv_heads if ".attn_k." in name else 0
    if not count:
        return values
    shape = values.shape
    return values.reshape(count, 2, shape[0] // count // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def add_info(writer: Any, name: str, shape: tuple[int, ...]) -> None:
    kind = np.dtype(np.float32 if len(shape) == 1 else np.float16)
    writer.add_tensor_info(name, shape, kind, math.prod(shape) * kind.itemsize)


def to_stored(name: str, values: Any) -> Any:
    if values.ndim == 1:
        return np.ascontiguousarray(values)
    with np.errstate(over="ignore"):
        half = np.ascontiguousarray(values.astype(np.float16))
    if not np.isfinite(half).all():
        raise ConversionError(f"{name} has numbers that half precision does not hold.")
    return half


def begin(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()


# --- vocabularies ---


def add_vocabulary(writer: Any, source: SourceFolder, config: Mapping[str, Any]) -> None:
    size = int(config["vocab_size"])
    if (source.folder / "tokenizer.model").is_file():
        add_sentencepiece(writer, source, size)
        special = gguf.SpecialVocab(source.folder, n_vocab=size)
    else:
        add_byte_pairs(writer, source, size)
        special = gguf.SpecialVocab(source.folder, load_merges=True, n_vocab=size)
    special.add_to_gguf(writer, quiet=True)


def add_byte_pairs(writer: Any, source: SourceFolder, size: int) -> None:
    document = source.read_document("tokenizer.json", is_required=True)
    model = document.get("model") or {}
    if model.get("type") != "BPE" or model.get("byte_fallback"):
        raise ConversionError("The tokenizer is of no kind that can be converted without tokenizer.model.")
    by_number = {number: token for token, number in model["vocab"].items()}
    added = {int(one["id"]): one for one in document.get("added_tokens") or ()}
    tokens, kinds = [], []
    for number in range(size):
        extra = added.get(number)
        if extra is not None:
            tokens.append(str(extra["content"]))
            kinds.append(gguf.TokenType.CONTROL if extra.get("special") else gguf.TokenType.USER_DEFINED)
        elif number in by_number:
            tokens.append(by_number[number])
            kinds.append(gguf.TokenType.NORMAL)
        else:
            tokens.append(f"[PAD{number}]")
            kinds.append(gguf.TokenType.UNUSED)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(find_splitting(document.get("pre_tokenizer")))
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)


def find_splitting(document: Any) -> str:
    """Return llama.cpp's name for how a tokenizer splits a text."""
    found = document or {}
    steps = found.get("pretokenizers") or [found] if found.get("type") == "Sequence" else [found]
    outline = []
    for step in steps:
        kind = step.get("type")
        if kind == "ByteLevel":
            outline.append("bytes+words" if step.get("use_regex", True) else "bytes")
        elif kind == "Digits":
            outline.append("digits" if step.get("individual_digits") else "numbers")
        elif kind == "Split":
            outline.append(f"split {(step.get('pattern') or {}).get('Regex')}")
        else:
            outline.append(str(kind))
    known = {("bytes+words",): "gpt-2", ("digits", "bytes+words"): "smollm", (f"split {_LLAMA3}", "bytes"): "llama-bpe"}
    name = known.get(tuple(outline))
    if name is None:
        mark = hashlib.sha256(repr(outline).encode()).hexdigest()[:12]
        raise ConversionError(f"The tokenizer splits texts in a way that is not known here ({mark}).")
    return name


def add_sentencepiece(writer: Any, source: SourceFolder, size: int) -> None:
    pieces = list(read_pieces((source.folder / "tokenizer.model").read_bytes()))[:size]
    tokens: list[bytes] = [text for text, _, _ in pieces]
    scores: list[float] = [score for _, score, _ in pieces]
    kinds: list[int] = [kind for _, _, kind in pieces]
    for number in range(len(tokens), size):
        tokens.append(f"[PAD{number}]".encode())
        scores.append(-10000.0)
        kinds.append(gguf.TokenType.UNUSED)
    settings = source.read_document("tokenizer_config.json")
    for key, entry in (settings.get("added_tokens_decoder") or {}).items():
        number = int(key)
        if number < size:
            is_special = bool(entry.get("special"))
            text = str(entry["content"]) if is_special else str(entry["content"]).replace("\u2581", " ")
            tokens[number], scores[number] = text.encode(), -1000.0
            kinds[number] = gguf.TokenType.CONTROL if is_special else gguf.TokenType.USER_DEFINED
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)


def read_pieces(content: bytes) -> Iterator[tuple[bytes, float, int]]:
    """Read text, score and kind of each piece of a SentencePiece model, which is a message of Protocol Buffers. The
    numbers of the kinds are those of GGUF."""
    for number, value in read_fields(content):
        if number == 1 and isinstance(value, bytes):
            piece = dict(read_fields(value))
            score = struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0
            yield piece.get(1, b""), score, int(piece.get(3, 1))


def read_fields(content: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(content):
        key, at = read_number(content, at)
        form = key & 7
        if form == 0:
            value, at = read_number(content, at)
            yield key >> 3, value
            continue
        if form == 2:
            length, at = read_number(content, at)
        else:
            length = {1: 8, 5: 4}[form]
        if at + length > len(content):
            raise ConversionError("tokenizer.model is cut off.")
        yield key >> 3, content[at : at + length]
        at += length


def read_number(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(content) and shift < 64:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ConversionError("tokenizer.model is cut off.")


# --- adapters ---


def convert_adapter(source: SourceFolder, output: Path, options: argparse.Namespace) -> set[str]:
    """Write a LoRA adapter and return the types of the weights that were read."""
    config = source.read_document("adapter_config.json", is_required=True)
    check_adapter(config)
    if options.architecture not in FAMILIES.values():
        raise ConversionError(f"Adapters of the architecture {options.architecture} cannot be converted.")
    rank, alpha = int(config["r"]), float(config["lora_alpha"])
    pairs: dict[str, dict[str, StoredTensor]] = {}
    for name, tensor in source.tensors.items():
        found = _LORA.fullmatch(name)
        if found is None:
            raise ConversionError(f"The tensor {name[:200]} does not belong to a LoRA adapter.")
        pairs.setdefault(map_name(f"{found[1]}.weight"), {})[found[2]] = tensor
    if not pairs or any(set(pair) != {"A", "B"} for pair in pairs.values()):
        raise ConversionError("The adapter is empty, or has one factor of a matrix without the other.")
    writer = gguf.GGUFWriter(output, options.architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    # llama.cpp divides by the rank; rank-stabilised adapters are divided by its root.
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha * math.sqrt(rank) if config.get("use_rslora") else alpha)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    for name, pair in sorted(pairs.items()):
        add_info(writer, f"{name}.lora_a", pair["A"].shape)
        add_info(writer, f"{name}.lora_b", pair["B"].shape)
    begin(writer)
    for number, (name, pair) in enumerate(sorted(pairs.items())):
        write_line({"phase": "converting", "fraction": number / len(pairs)})
        writer.write_tensor_data(to_stored(name, pair["A"].read()))
        rows = permute(name, pair["B"].read(), options.heads, options.kv_heads or options.heads)
        writer.write_tensor_data(to_stored(name, rows))
    writer.close()
    return {tensor.kind.lower() for tensor in source.tensors.values()}


def check_adapter(config: Mapping[str, Any]) -> None:
    if config.get("peft_type") != "LORA":
        raise ConversionError(f"Adapters of the kind {config.get('peft_type')} cannot be converted; LoRA can.")
    for name, words in (
        ("use_dora", "DoRA"),
        ("alpha_pattern", "an alpha for each matrix"),
        ("modules_to_save", "whole matrices of their own"),
        ("trainable_token_indices", "tokens of their own"),
    ):
        if config.get(name):
            raise ConversionError(f"Adapters with {words} cannot be converted.")
    if config.get("bias", "none") != "none":
        raise ConversionError("Adapters with biases cannot be converted.")


if __name__ == "__main__":
    sys.exit(main())
