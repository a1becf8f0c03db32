"""Which variant of a gallery's model suits the nodes that would run it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.errors import NotFound
from corral.policy.placing.variants import CandidateMachine, ModelVariant, choose_variant
from tests.unit.policy.builders import GIB, a_node

BASE = ModelVariant(model="m-q4", backend="llama-cpp", memory_bytes=4 * GIB, is_base=True)
LARGE = ModelVariant(model="m-q8", backend="llama-cpp", memory_bytes=9 * GIB)
HUGE = ModelVariant(model="m-vllm", backend="vllm", memory_bytes=18 * GIB)
ALL = (LARGE, BASE, HUGE)


def a_machine(capability: str = "nvidia-cuda-12", memory: int | None = 24, **changes: Any) -> CandidateMachine:
    values: dict[str, Any] = {"node": "gpu", "has_card": capability != "default"} | changes
    return CandidateMachine(capability=capability, memory_bytes=None if memory is None else memory * GIB, **values)


@pytest.mark.behaviour("OPS-100")
@pytest.mark.parametrize(
    ("machines", "expected"),
    [
        ([a_machine()], "m-vllm"),
        ([a_machine(memory=12)], "m-q8"),
        ([a_machine(memory=5)], "m-q4"),
        ([a_machine(memory=2)], "m-q4"),  # nothing fits: the base, with a warning
        ([a_machine("default", 64)], "m-q8"),  # without a card, vllm is the second choice
        ([a_machine("metal", 64)], "m-q8"),
        ([a_machine("default", 512), a_machine(memory=12)], "m-q8"),  # the card decides, not the larger machine
        ([a_machine(memory=24, backends=frozenset({"llama-cpp"}))], "m-q8"),
        ([], "m-q4"),
    ],
)
def test_hardware_of_the_target_nodes_decides(machines: list[CandidateMachine], expected: str) -> None:
    assert choose_variant(ALL, machines).variant.model == expected


@pytest.mark.behaviour("OPS-100")
def test_variant_that_fits_on_a_gpu_ranks_first() -> None:
    larger = ModelVariant(model="m-f16", backend="llama-cpp", memory_bytes=18 * GIB)
    machines = [a_machine("default", 512), a_machine(memory=12)]
    assert choose_variant((BASE, LARGE, larger), machines).variant is LARGE
    assert choose_variant((BASE, LARGE, larger), machines[:1]).variant is larger


@pytest.mark.behaviour("OPS-100")
def test_frontend_without_a_card_picks_for_nodes_that_have_one() -> None:
    card = a_node("gpu", total_vram=24 * GIB, gpu_vendor="nvidia", capability="nvidia-cuda-12", total_ram=8 * GIB)
    capped = a_node("capped", total_vram=24 * GIB, capability="nvidia-cuda-12", budget_reported="10GiB")
    assert choose_variant(ALL, [CandidateMachine.from_node(card)]).variant is HUGE
    assert choose_variant(ALL, [CandidateMachine.from_node(capped)]).variant is LARGE
    assert choose_variant(ALL, [CandidateMachine.from_node(card, frozenset({"llama-cpp"}))]).variant is LARGE


@pytest.mark.behaviour("PLACE-10")
def test_variant_of_a_processor_build_is_chosen_by_ram_on_a_node_with_a_gpu() -> None:
    card = a_node("gpu", total_vram=24 * GIB, capability="nvidia-cuda-12", total_ram=8 * GIB)
    backends = frozenset({"llama-cpp"})
    assert choose_variant(ALL, [CandidateMachine.from_node(card, backends, backends)]).variant is BASE


@pytest.mark.behaviour("OPS-100")
def test_variant_that_does_not_exist_fails_and_names_the_one_that_was_meant() -> None:
    with pytest.raises(NotFound) as refused:
        choose_variant(ALL, [a_machine()], requested="m-q9")
    assert refused.value.slug == "unknown_variant"
    assert refused.value.hint == "Did you mean m-q8?" or "m-q4" in (refused.value.hint or "")


@pytest.mark.behaviour("OPS-100")
def test_recorded_pin_is_kept_and_one_that_has_vanished_is_dropped_with_a_warning() -> None:
    kept = choose_variant(ALL, [a_machine()], pinned="m-q8")
    assert (kept.variant, kept.is_pinned, kept.warnings) == (LARGE, True, ())
    dropped = choose_variant(ALL, [a_machine()], pinned="m-q2")
    assert (dropped.variant, dropped.is_pinned) == (HUGE, False)
    assert "m-q2" in dropped.warnings[0]


def test_requested_variant_is_chosen_with_a_warning_though_it_does_not_fit() -> None:
    chosen = choose_variant(ALL, [a_machine(memory=5)], requested="m-vllm")
    assert chosen.variant is HUGE
    assert chosen.warnings == ("m-vllm needs 18.0 GiB, the largest node has 5.0 GiB.",)


def test_every_candidate_gets_a_verdict_the_base_first() -> None:
    chosen = choose_variant(ALL, [a_machine(memory=12, node="a"), a_machine(memory=5, node="b")])
    assert [verdict.variant for verdict in chosen.verdicts] == [BASE, LARGE, HUGE]
    assert [verdict.fits_on for verdict in chosen.verdicts] == [("a", "b"), ("a",), ()]
    assert chosen.verdicts[1].sentence == "m-q8 fits on 1 node."
    missing = choose_variant(ALL, [a_machine(backends=frozenset({"llama-cpp"}))])
    assert missing.verdicts[2].sentence == "No node has a build of vllm."


def test_faster_variant_ranks_before_larger_and_unknown_size_below_the_base() -> None:
    faster = ModelVariant(model="m-mtp", backend="llama-cpp", memory_bytes=5 * GIB, tags=("mtp",))
    fastest = ModelVariant(model="m-dflash", backend="llama-cpp", memory_bytes=5 * GIB, tags=("chat", "dflash"))
    unknown = ModelVariant(model="m-what", backend="llama-cpp", tags=("dflash",))
    machine = a_machine(memory=12)
    assert choose_variant((BASE, LARGE, faster), [machine]).variant is faster
    assert choose_variant((BASE, faster, fastest, unknown), [machine]).variant is fastest
    assert choose_variant((BASE, unknown), [machine]).variant is BASE


sizes = st.none() | st.integers(1, 40).map(GIB.__mul__)
backends = st.sampled_from(["llama-cpp", "vllm", "sglang", "mlx", "other"])
some_variants = st.lists(
    st.builds(ModelVariant, model=st.uuids().map(str), backend=backends, memory_bytes=sizes), max_size=5
)
some_machines = st.lists(
    st.builds(
        CandidateMachine,
        node=st.just("n"),
        capability=st.sampled_from(["default", "nvidia", "metal", "amd"]),
        memory_bytes=sizes,
        has_card=st.booleans(),
        backends=st.none() | st.frozensets(backends),
    ),
    max_size=4,
)


@given(some_variants, some_machines)
def test_fitting_variant_is_chosen_before_any_other(
    others: list[ModelVariant], machines: list[CandidateMachine]
) -> None:
    chosen = choose_variant((*others, BASE), machines)
    verdict = next(one for one in chosen.verdicts if one.variant is chosen.variant)
    if any(one.fits for one in chosen.verdicts):
        assert verdict.fits
    else:
        assert chosen.variant is BASE
