"""A llama model of half a megabyte, made from a seed: it loads in a blink and its words are noise, but always the same.

The same arguments give the same bytes, so two files can be compared, and two seeds answer differently, so a test can
tell which of two models spoke. The tokenizer is byte-level, so that every text has tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]

_TEXT = (
    "the a of to and in is it was for on are as with they at be this have from or one had by word but not what all "
    "were we when your can said there use an each which she do how their if will up other about out many then them "
    "these so some her would make like him into time has look two more write go see number no way could people my"
)
_WORDS = tuple(_TEXT.split())
_END_OF_TEXT = "<|endoftext|>"
_TURN_STARTS = "<|im_start|>"
_TURN_ENDS = "<|im_end|>"
CONTROL = (_END_OF_TEXT, _TURN_STARTS, _TURN_ENDS)
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HEADS, KEY_HEADS = 4, 2
# How much likelier a readable token is than any other: the first dimension of every state is this handle.
_HANDLE, _READABLE, _UNREADABLE, _NEVER = 3.0, 1.0, -14.0, -20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Dimensions of a generated model."""

    layers: int = 2
    width: int = 64
    feed_forward: int = 128
    context: int = 4096


def write_tiny_gguf(
    path: Path, *, seed: int = 1, name: str = "tiny", shape: ModelShape | None = None, is_half: bool = False
) -> Path:
    """Write the model and give its path back. With `is_half`, its matrices are in half precision."""
    shape = shape or ModelShape()
    tokens, kinds, merges = make_vocabulary()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_dimension_count(shape.width // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16 if is_half else gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tokens.index(_END_OF_TEXT))
    writer.add_eos_token_id(tokens.index(_TURN_ENDS))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT)
    for tensor, values in make_weights(tokens, shape, np.random.default_rng(seed)).items():
        writer.add_tensor(tensor, values.astype(np.float16) if is_half and values.ndim > 1 else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _letters() -> list[str]:
    """Return one printable character for each byte, as GPT-2's tokenizer writes them."""
    as_they_are = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in as_they_are else chr(next(others)) for byte in range(256)]


def make_vocabulary() -> tuple[list[str], list[int], list[str]]:
    """Return all bytes, the common words with all their prefixes, and the control tokens."""
    letters = _letters()
    tokens, merges = list(letters), []
    for word in _WORDS:
        spelled = letters[ord(" ")] + word
        for end in range(2, len(spelled) + 1):
            if spelled[:end] not in tokens:
                tokens.append(spelled[:end])
                merges.append(f"{spelled[: end - 1]} {spelled[end - 1]}")
    kinds = [int(gguf.TokenType.NORMAL)] * len(tokens) + [int(gguf.TokenType.CONTROL)] * len(CONTROL)
    return [*tokens, *CONTROL], kinds, merges


def make_weights(tokens: list[str], shape: ModelShape, rng: np.random.Generator) -> dict[str, Array]:
    width, head = shape.width, shape.width // HEADS

    def noise(rows: int, columns: int, scale: float) -> Array:
        values: Array = (rng.standard_normal((rows, columns)) * scale / np.sqrt(columns)).astype(np.float32)
        return values

    def noise_beside_the_handle(columns: int, scale: float) -> Array:
        values = noise(width, columns, scale)
        values[0] = 0.0
        return values

    plain = np.ones(width, np.float32)
    states = noise(len(tokens), width, np.sqrt(width))
    states[:, 0] = _HANDLE
    output = noise(len(tokens), width, 3.0)
    output[:, 0] = [_likeliness(token) for token in tokens]
    weights = {"token_embd.weight": states, "output_norm.weight": plain, "output.weight": output}
    for layer in range(shape.layers):
        weights |= {
            f"blk.{layer}.attn_norm.weight": plain,
            f"blk.{layer}.attn_q.weight": noise(HEADS * head, width, 2.0),
            f"blk.{layer}.attn_k.weight": noise(KEY_HEADS * head, width, 2.0),
            f"blk.{layer}.attn_v.weight": noise(KEY_HEADS * head, width, 1.0),
            f"blk.{layer}.attn_output.weight": noise_beside_the_handle(HEADS * head, 1.0),
            f"blk.{layer}.ffn_norm.weight": plain,
            f"blk.{layer}.ffn_gate.weight": noise(shape.feed_forward, width, 2.0),
            f"blk.{layer}.ffn_up.weight": noise(shape.feed_forward, width, 2.0),
            f"blk.{layer}.ffn_down.weight": noise_beside_the_handle(shape.feed_forward, 2.0),
        }
    return weights


def _likeliness(token: str) -> float:
    if token in CONTROL:
        return _NEVER
    text = token.removeprefix(_letters()[ord(" ")])
    if text in _WORDS:
        return _READABLE + 0.2 * len(text)
    return _READABLE if token.isascii() and token.isalpha() and token.islower() else _UNREADABLE
