"""The generated llama as Hugging Face folders have it: the same weights as `tiny_gguf.py`, in safetensors files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.safetensors_files import write_safetensors
from tests.support.tiny_gguf import CHAT, CONTROL, HEADS, KEY_HEADS, Array, ModelShape, make_vocabulary, make_weights

NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def order_as_transformers(values: Array, heads: int) -> Array:
    """Return rows of queries or keys in the order of transformers: the reverse of what a converter does."""
    shape = values.shape
    return values.reshape(heads, shape[0] // heads // 2, 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def write_tiny_llama(
    folder: Path, *, seed: int = 1, shape: ModelShape | None = None, is_bfloat: bool = False, **config: Any
) -> Path:
    """Write two shards, the configuration and the tokenizer, and return the folder. `config` changes `config.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    shape = shape or ModelShape()
    tokens, _, merges = make_vocabulary()
    weights = {_rename(name): _reorder(name, values) for name, values in
               make_weights(tokens, shape, np.random.default_rng(seed)).items()}  # fmt: skip
    names = list(weights)
    for number, part in enumerate((names[: len(names) // 2], names[len(names) // 2 :]), start=1):
        shard = {name: weights[name] for name in part}
        write_safetensors(folder / f"model-{number:05}-of-00002.safetensors", shard, is_bfloat=is_bfloat)
    document = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": shape.width,
        "num_hidden_layers": shape.layers, "num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS,
        "intermediate_size": shape.feed_forward, "max_position_embeddings": shape.context, "rms_norm_eps": 1e-5,
        "vocab_size": len(tokens), "hidden_act": "silu", "rope_theta": 10000.0,
        "bos_token_id": tokens.index(CONTROL[0]), "eos_token_id": tokens.index(CONTROL[2]),
    } | config  # fmt: skip
    (folder / "config.json").write_text(json.dumps(document), encoding="utf-8")
    _write_tokenizer(folder, tokens, merges)
    return folder


def _rename(name: str) -> str:
    parts = name.removesuffix(".weight").split(".")
    stem = f"model.layers.{parts[1]}.{NAMES[parts[2]]}" if parts[0] == "blk" else OUTSIDE[parts[0]]
    return f"{stem}.weight"


def _reorder(name: str, values: Array) -> Array:
    heads = HEADS if ".attn_q." in name else KEY_HEADS if ".attn_k." in name else 0
    return order_as_transformers(values, heads) if heads else values


def _write_tokenizer(folder: Path, tokens: list[str], merges: list[str]) -> None:
    whole = [token for token in tokens if token not in CONTROL]
    added = [{"id": tokens.index(token), "content": token, "special": True} for token in CONTROL]
    tokenizer = {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "model": {"type": "BPE", "vocab": {token: at for at, token in enumerate(whole)}, "merges": merges},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    settings = {
        "bos_token": CONTROL[0], "eos_token": CONTROL[2], "add_bos_token": False, "chat_template": CHAT,
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
