"""LoRA adapters for the generated llama models, as llama.cpp reads them and as PEFT writes them.

An adapter changes what the model says from the first tokens on, and the same seed gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tests.support.safetensors_files import write_safetensors
from tests.support.tiny_gguf import Array, ModelShape

RANK = 4
ALPHA = 8.0
STRENGTH = 0.5
# GGUF's names of the adapted matrices, and those of PEFT.
_PEFT_NAMES = {"ffn_down": "mlp.down_proj", "ffn_up": "mlp.up_proj"}


def make_lora_pairs(seed: int, shape: ModelShape) -> dict[str, tuple[Array, Array]]:
    """Return for each adapted matrix, by GGUF's name, its two factors: A (rank x inputs) and B (outputs x rank)."""
    rng = np.random.default_rng(1000 + seed)
    found: dict[str, tuple[Array, Array]] = {}
    for layer in range(shape.layers):
        for name, inputs, outputs in (
            ("ffn_down", shape.feed_forward, shape.width),
            ("ffn_up", shape.width, shape.feed_forward),
        ):
            factor_a = (rng.standard_normal((RANK, inputs)) / np.sqrt(inputs)).astype(np.float32)
            factor_b = (rng.standard_normal((outputs, RANK)) * STRENGTH / np.sqrt(RANK)).astype(np.float32)
            if name == "ffn_down":
                # The first number of every state keeps the answer readable.
                factor_b[0] = 0.0
            found[f"blk.{layer}.{name}.weight"] = (factor_a, factor_b)
    return found


def write_tiny_lora(path: Path, *, seed: int = 1, shape: ModelShape | None = None, architecture: str = "llama") -> Path:
    """Write an adapter as a GGUF file and return its path."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", ALPHA)
    for name, (factor_a, factor_b) in make_lora_pairs(seed, shape or ModelShape()).items():
        writer.add_tensor(f"{name}.lora_a", factor_a)
        writer.add_tensor(f"{name}.lora_b", factor_b)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_peft_lora(folder: Path, *, seed: int = 1, shape: ModelShape | None = None, **config: Any) -> Path:
    """Write the same adapter as PEFT exports it, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Array] = {}
    for name, (factor_a, factor_b) in make_lora_pairs(seed, shape or ModelShape()).items():
        _, layer, matrix, _ = name.split(".")
        stem = f"base_model.model.model.layers.{layer}.{_PEFT_NAMES[matrix]}"
        tensors |= {f"{stem}.lora_A.weight": factor_a, f"{stem}.lora_B.weight": factor_b}
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    document: Mapping[str, Any] = {
        "peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": ["down_proj", "up_proj"],
        "base_model_name_or_path": "tiny", "bias": "none", "use_rslora": False, "use_dora": False,
    } | config  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(document), encoding="utf-8")
    return folder
