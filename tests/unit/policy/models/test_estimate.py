"""What a replica takes: what was written, then what was seen, then what the headers say; unknown stays unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.model import ModelConfig, ModelFacts
from corral.policy.models.estimate import (
    CPU_OVERHEAD_BYTES,
    GIB,
    GPU_OVERHEAD_BYTES,
    MemoryUse,
    ObservedMemory,
    compute_load_budget_s,
    estimate_need,
    parse_observed,
)
from tests.unit.policy.builders import a_node

GPU = a_node("gpu", total_vram=24 * GIB, total_ram=64 * GIB)
CPU = a_node("cpu", total_vram=0, total_ram=64 * GIB)
CONFIG = ModelConfig(name="m", backend="llama-cpp")
FACTS = ModelFacts(weights_bytes=1000, kv_bytes_per_token=10, context_length=131_072)


def test_estimate_needs_vram_on_a_node_with_a_gpu_and_ram_on_one_without() -> None:
    on_gpu, on_cpu = estimate_need(CONFIG, FACTS, 1100, GPU, None), estimate_need(CONFIG, FACTS, 1100, CPU, None)
    assert on_gpu.vram_bytes == 1000 + 50 + 8192 * 10 + GPU_OVERHEAD_BYTES
    assert on_gpu.ram_bytes is None
    assert (on_cpu.vram_bytes, on_cpu.ram_bytes) == (0, 1000 + 50 + 8192 * 10 + CPU_OVERHEAD_BYTES)
    assert on_gpu.payload_bytes == on_cpu.payload_bytes == 1100


def test_context_is_what_was_written_else_the_models_and_never_more_than_8192_by_itself() -> None:
    def cache(config: ModelConfig, facts: ModelFacts) -> int:
        whole = estimate_need(config, facts, None, CPU, None).ram_bytes
        assert whole is not None
        return whole - 1050 - CPU_OVERHEAD_BYTES

    assert cache(CONFIG, FACTS) == 8192 * 10
    assert cache(CONFIG, replace(FACTS, context_length=512)) == 512 * 10
    assert cache(CONFIG, replace(FACTS, context_length=None)) == 8192 * 10
    written = replace(CONFIG, options={"context_size": "32768", "parallel": "4"})
    assert cache(written, FACTS) == 32768 * 4 * 10
    nonsense = replace(CONFIG, options={"context_size": "much", "parallel": "-1"})
    assert cache(nonsense, FACTS) == 8192 * 10


def test_configured_need_wins_over_measured_and_measured_over_computed() -> None:
    observed = ObservedMemory(gpu=MemoryUse(vram_bytes=5, ram_bytes=6), cpu=MemoryUse(ram_bytes=7))
    seen = estimate_need(CONFIG, FACTS, 1100, GPU, observed)
    assert (seen.vram_bytes, seen.ram_bytes, seen.is_observed) == (5, 6, True)
    seen = estimate_need(CONFIG, FACTS, 1100, CPU, observed)
    assert (seen.vram_bytes, seen.ram_bytes, seen.is_observed) == (0, 7, True)
    written = estimate_need(replace(CONFIG, vram_bytes=1, ram_bytes=2), FACTS, 1100, GPU, observed)
    assert (written.vram_bytes, written.ram_bytes, written.is_observed) == (1, 2, False)


def test_unknown_need_stays_unknown() -> None:
    assert estimate_need(CONFIG, None, None, GPU, None).vram_bytes is None
    assert estimate_need(CONFIG, ModelFacts(), None, CPU, None).ram_bytes is None
    only_files = estimate_need(CONFIG, ModelFacts(), 1000, CPU, None)
    assert only_files.ram_bytes == 1050 + CPU_OVERHEAD_BYTES


def test_model_that_is_kept_off_the_gpu_takes_ram() -> None:
    need = estimate_need(replace(CONFIG, options={"gpu_layers": "0"}), FACTS, 1100, GPU, None)
    assert need.vram_bytes == 0
    assert need.ram_bytes is not None


@pytest.mark.behaviour("PLACE-10")
def test_estimate_of_a_processor_build_takes_ram_on_a_node_with_a_gpu() -> None:
    observed = ObservedMemory(gpu=MemoryUse(vram_bytes=5, ram_bytes=6), cpu=MemoryUse(ram_bytes=7))
    computed = estimate_need(CONFIG, FACTS, 1100, GPU, None, is_processor_build=True)
    assert (computed.vram_bytes, computed.ram_bytes) == (0, estimate_need(CONFIG, FACTS, 1100, CPU, None).ram_bytes)
    seen = estimate_need(CONFIG, FACTS, 1100, GPU, observed, is_processor_build=True)
    assert (seen.vram_bytes, seen.ram_bytes) == (0, 7)


def test_observation_counts_for_its_run_hash_only() -> None:
    stored = {"run_hash": "one", "gpu": {"vram_bytes": 10, "ram_bytes": 2}, "cpu": {"ram_bytes": 8}}
    assert parse_observed(stored, "one") == ObservedMemory(
        gpu=MemoryUse(vram_bytes=10, ram_bytes=2), cpu=MemoryUse(ram_bytes=8)
    )
    assert parse_observed(stored, "two") is None
    assert parse_observed({"run_hash": "one", "gpu": "nonsense"}, "one") == ObservedMemory()


@pytest.mark.behaviour("NODE-82")
def test_load_budget_grows_with_the_size_and_an_override_wins_even_if_it_is_shorter() -> None:
    assert compute_load_budget_s(70 * GIB, None) == 28 * 60 + 20
    assert compute_load_budget_s(2 * GIB, None) == 5 * 60 + 40
    assert compute_load_budget_s(None, None) == 5 * 60
    assert compute_load_budget_s(70 * GIB, 10.0) == 10.0


@given(
    weights=st.integers(0, 2**40),
    per_token=st.integers(0, 2**24),
    context=st.integers(1, 2**20),
    parallel=st.integers(1, 64),
)
def test_estimate_never_shrinks_with_larger_inputs(weights: int, per_token: int, context: int, parallel: int) -> None:
    def need(weights: int, per_token: int, context: int, parallel: int) -> int:
        config = replace(CONFIG, options={"context_size": str(context), "parallel": str(parallel)})
        facts = ModelFacts(weights_bytes=weights, kv_bytes_per_token=per_token)
        found = estimate_need(config, facts, None, GPU, None).vram_bytes
        assert found is not None
        return found

    least = need(weights, per_token, context, parallel)
    assert least >= weights + per_token * context * parallel
    assert need(weights + 1, per_token, context, parallel) >= least
    assert need(weights, per_token + 1, context, parallel) >= least
    assert need(weights, per_token, context + 1, parallel + 1) >= least
