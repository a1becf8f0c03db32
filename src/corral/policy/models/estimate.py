"""What one replica takes of a machine, before it has run there, and how long it may take to load.

First what the admin wrote, then what was seen of the same run hash on the same kind of node, then what the headers
say: weights, keys and values of all tokens that fit into its context, and what every engine takes besides. What is
not known stays None, and excludes nobody. Limit: layers that are parted between GPU and processor are counted as if
all of them were on the GPU; what is observed corrects that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corral.domain.model import ModelConfig, ModelFacts, Need
from corral.domain.node import Node

MIB = 1024**2
GIB = 1024**3
# As the engines do when nobody says how long a conversation may be: the model's own, but no more than this.
CONTEXT_DEFAULT = 8192
# An engine without weights: its program, its buffers; on a GPU also the driver's own context.
GPU_OVERHEAD_BYTES = 384 * MIB
CPU_OVERHEAD_BYTES = 96 * MIB
# Buffers for calculating grow with the model.
OVERHEAD_SHARE = 0.05
# Spec: a checkpoint of 70 GiB gets 28 min 20 s.
LOAD_BASE_S = 300.0
LOAD_S_PER_GIB = 20.0
LOAD_MOST_S = 6 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a replica was measured to take."""

    vram_bytes: int | None = None
    ram_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What replicas of one run hash took, in the memory of a GPU and in RAM."""

    gpu: Seen | None = None
    cpu: Seen | None = None

    def on(self, *, uses_gpu: bool) -> Seen | None:
        return self.gpu if uses_gpu else self.cpu


def has_gpu(node: Node) -> bool:
    """Weights go into VRAM here. Where processor and GPU share their memory, it is counted as the GPU's."""
    return (node.hardware.total_vram or 0) > 0


def estimate(
    config: ModelConfig,
    facts: ModelFacts | None,
    payload_bytes: int | None,
    node: Node,
    observed: Observed | None,
    *,
    is_processor_build: bool = False,
) -> Need:
    """What a replica would take on this node. `observed` is of the model's present run hash (`observed_of`).

    `is_processor_build`: the engine that would run there makes no use of a GPU (`catalog.uses_processor_only`).
    """
    uses_gpu = has_gpu(node) and not is_processor_build and config.options.get("gpu_layers", "").strip() != "0"
    seen = observed.on(uses_gpu=uses_gpu) if observed else None
    computed = _computed(config, facts, payload_bytes, GPU_OVERHEAD_BYTES if uses_gpu else CPU_OVERHEAD_BYTES)
    vram = _first(config.vram_bytes, seen.vram_bytes if seen else None, computed) if uses_gpu else 0
    ram = _first(config.ram_bytes, seen.ram_bytes if seen else None, None if uses_gpu else computed)
    return Need(
        vram_bytes=vram,
        ram_bytes=ram,
        payload_bytes=payload_bytes,
        threads=max(1, config.threads or 1),
        is_observed=_is_observed(config, seen, uses_gpu=uses_gpu),
    )


def _is_observed(config: ModelConfig, seen: Seen | None, *, uses_gpu: bool) -> bool:
    if seen is None:
        return False
    said, measured = (config.vram_bytes, seen.vram_bytes) if uses_gpu else (config.ram_bytes, seen.ram_bytes)
    return said is None and measured is not None


def _computed(
    config: ModelConfig, facts: ModelFacts | None, payload_bytes: int | None, overhead_bytes: int
) -> int | None:
    """None without the size of the weights; files of an unknown format count as weights."""
    weights = facts.weights_bytes if facts is not None and facts.weights_bytes is not None else payload_bytes
    if weights is None:
        return None
    per_token = facts.kv_bytes_per_token or 0 if facts is not None else 0
    cache = per_token * context_size(config, facts) * parallel(config)
    return weights + cache + overhead_bytes + int(weights * OVERHEAD_SHARE)


def context_size(config: ModelConfig, facts: ModelFacts | None) -> int:
    """How many tokens one conversation may have."""
    given = _number(config.options.get("context_size"))
    if given:
        return given
    known = facts.context_length if facts is not None else None
    return min(known or CONTEXT_DEFAULT, CONTEXT_DEFAULT)


def parallel(config: ModelConfig) -> int:
    """How many conversations are kept at a time."""
    return _number(config.options.get("parallel")) or 1


def load_budget_s(payload_bytes: int | None, override: float | None) -> float:
    """How long an engine may take until it is ready: five minutes and 20 s for each GiB, or what the admin said."""
    if override is not None:
        return override
    return min(LOAD_BASE_S + LOAD_S_PER_GIB * (payload_bytes or 0) / GIB, LOAD_MOST_S)


def observed_of(document: Mapping[str, Any] | None, run_hash: str) -> Observed | None:
    """`models.observed` as it is stored; None if it is about another run hash."""
    if not document or document.get("run_hash") != run_hash:
        return None
    return Observed(gpu=_seen(document.get("gpu")), cpu=_seen(document.get("cpu")))


def _seen(document: object) -> Seen | None:
    if not isinstance(document, Mapping):
        return None
    vram, ram = document.get("vram_bytes"), document.get("ram_bytes")
    return Seen(vram_bytes=vram if isinstance(vram, int) else None, ram_bytes=ram if isinstance(ram, int) else None)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _number(text: str | None) -> int | None:
    """A setting of an engine as a number; None if it is none, which is the engine's to complain about."""
    cleaned = (text or "").strip()
    return int(cleaned) if cleaned.isdecimal() and len(cleaned) <= 12 else None
