"""Estimates what one replica takes of a machine, before it has run there, and how long it may take to load.

The admin's values come first, then measurements of the same run hash on the same kind of node, then the headers:
weights, keys and values of all tokens that fit into the context, and the overhead of every engine. An unknown value
stays None, and excludes no node. Limit: layers that are split between GPU and CPU are counted as if all of them were
on the GPU; measurements correct that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corral.domain.model import ModelConfig, ModelFacts, Need
from corral.domain.node import Node

MIB = 1024**2
GIB = 1024**3
# As engines do without a configured context: the model's own, but no more than this.
CONTEXT_DEFAULT = 8192
# An engine without weights: its program, its buffers; on a GPU also the driver's own context.
GPU_OVERHEAD_BYTES = 384 * MIB
CPU_OVERHEAD_BYTES = 96 * MIB
# Compute buffers grow with the model.
OVERHEAD_SHARE = 0.05
# Spec: a checkpoint of 70 GiB gets 28 min 20 s.
LOAD_BASE_S = 300.0
LOAD_S_PER_GIB = 20.0
LOAD_MOST_S = 6 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """VRAM and RAM that one replica of a model was measured to take."""

    vram_bytes: int | None = None
    ram_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMemory:
    """VRAM and RAM that replicas of one model configuration were measured to take; corrects the estimate."""

    gpu: MemoryUse | None = None
    cpu: MemoryUse | None = None

    def select(self, *, uses_gpu: bool) -> MemoryUse | None:
        return self.gpu if uses_gpu else self.cpu


def has_gpu(node: Node) -> bool:
    """Return whether weights go into VRAM on this node. Where CPU and GPU share their memory, it counts as the
    GPU's."""
    return (node.hardware.total_vram or 0) > 0


def estimate_need(
    config: ModelConfig,
    facts: ModelFacts | None,
    payload_bytes: int | None,
    node: Node,
    observed: ObservedMemory | None,
    *,
    is_processor_build: bool = False,
) -> Need:
    """Estimate the need of a replica on this node. `observed` is of the model's current run hash (`parse_observed`).

    `is_processor_build`: the engine that would run there makes no use of a GPU (`catalog.uses_processor_only`).
    """
    uses_gpu = has_gpu(node) and not is_processor_build and config.options.get("gpu_layers", "").strip() != "0"
    seen = observed.select(uses_gpu=uses_gpu) if observed else None
    computed = _compute_memory(config, facts, payload_bytes, GPU_OVERHEAD_BYTES if uses_gpu else CPU_OVERHEAD_BYTES)
    vram = _pick_first(config.vram_bytes, seen.vram_bytes if seen else None, computed) if uses_gpu else 0
    ram = _pick_first(config.ram_bytes, seen.ram_bytes if seen else None, None if uses_gpu else computed)
    return Need(
        vram_bytes=vram,
        ram_bytes=ram,
        payload_bytes=payload_bytes,
        threads=max(1, config.threads or 1),
        is_observed=_is_observed(config, seen, uses_gpu=uses_gpu),
    )


def _is_observed(config: ModelConfig, memory_use: MemoryUse | None, *, uses_gpu: bool) -> bool:
    if memory_use is None:
        return False
    configured, measured = (
        (config.vram_bytes, memory_use.vram_bytes) if uses_gpu else (config.ram_bytes, memory_use.ram_bytes)
    )
    return configured is None and measured is not None


def _compute_memory(
    config: ModelConfig, facts: ModelFacts | None, payload_bytes: int | None, overhead_bytes: int
) -> int | None:
    """Return the memory; None without the size of the weights. Files of an unknown format count as weights."""
    weights = facts.weights_bytes if facts is not None and facts.weights_bytes is not None else payload_bytes
    if weights is None:
        return None
    per_token = facts.kv_bytes_per_token or 0 if facts is not None else 0
    cache = per_token * read_context_size(config, facts) * read_parallel(config)
    return weights + cache + overhead_bytes + int(weights * OVERHEAD_SHARE)


def read_context_size(config: ModelConfig, facts: ModelFacts | None) -> int:
    """Return how many tokens one conversation may have."""
    given = _parse_number(config.options.get("context_size"))
    if given:
        return given
    known = facts.context_length if facts is not None else None
    return min(known or CONTEXT_DEFAULT, CONTEXT_DEFAULT)


def read_parallel(config: ModelConfig) -> int:
    """Return how many conversations are kept at a time."""
    return _parse_number(config.options.get("parallel")) or 1


def compute_load_budget_s(payload_bytes: int | None, override: float | None) -> float:
    """Return how long an engine may take until it is ready: five minutes and 20 s for each GiB, or the admin's
    value."""
    if override is not None:
        return override
    return min(LOAD_BASE_S + LOAD_S_PER_GIB * (payload_bytes or 0) / GIB, LOAD_MOST_S)


def parse_observed(document: Mapping[str, Any] | None, run_hash: str) -> ObservedMemory | None:
    """Parse the stored `models.observed`; None if it is about another run hash."""
    if not document or document.get("run_hash") != run_hash:
        return None
    return ObservedMemory(gpu=_parse_memory_use(document.get("gpu")), cpu=_parse_memory_use(document.get("cpu")))


def _parse_memory_use(document: object) -> MemoryUse | None:
    if not isinstance(document, Mapping):
        return None
    vram, ram = document.get("vram_bytes"), document.get("ram_bytes")
    return MemoryUse(
        vram_bytes=vram if isinstance(vram, int) else None, ram_bytes=ram if isinstance(ram, int) else None
    )


def _pick_first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _parse_number(text: str | None) -> int | None:
    """Parse a setting of an engine as a number; None if it is none, which the engine will report."""
    cleaned = (text or "").strip()
    return int(cleaned) if cleaned.isdecimal() and len(cleaned) <= 12 else None
