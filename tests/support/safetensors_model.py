"""Files of a small model as they are published: configuration, tokenizer, and weights in safetensors."""

from __future__ import annotations

import json

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 16,
    "max_position_embeddings": 64,
}


def make_safetensors(seed: int = 1) -> bytes:
    shape = [16, 8]
    size = 2 * shape[0] * shape[1]
    header = json.dumps({"lm_head.weight": {"dtype": "F16", "shape": shape, "data_offsets": [0, size]}}).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + bytes([seed % 256]) * size


def make_base_files(seed: int = 1) -> dict[str, bytes]:
    return {
        "config.json": json.dumps(CONFIG).encode(),
        "tokenizer.json": b"{}",
        "model.safetensors": make_safetensors(seed),
    }
