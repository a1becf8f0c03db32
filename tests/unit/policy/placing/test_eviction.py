"""Who makes room: the cheapest to bring back, on one node, and nobody who is busy, pinned or needed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.model import Need, StoredFile
from corral.domain.node import Node, NodeId
from corral.domain.replica import Replica, ReplicaState, Rule, RuleWindow
from corral.policy.placing.eviction import (
    EvictionDecision,
    EvictionOffer,
    EvictionOutcome,
    EvictionVictim,
    RetentionPolicy,
    find_cheapest_set,
    make_room,
)
from corral.policy.placing.fleet import ModelTraits, PlacementDemand, PlacementFleet
from corral.policy.placing.placement import PlacementContext, find_refusal, place_replicas
from tests.unit.policy.builders import GIB, THEN, a_node, a_replica
from tests.unit.policy.placing.fleets import crowded, fleets_and_demands, patiently

NEED = Need(vram_bytes=8 * GIB)


def a_full_node(name: str = "gpu", **changes: Any) -> Any:
    return a_node(name, **({"total_vram": 24 * GIB, "available_vram": 0, "slots_reported": 4} | changes))


def idle(node: str, model: str, size: int, *, ago_s: float = 3600, **changes: Any) -> Replica:
    values: dict[str, Any] = {"vram_bytes": size * GIB, "load_s": 10.0, "last_used_at": THEN - timedelta(seconds=ago_s)}
    return a_replica(node, changes.pop("index", 0), model=model, **values | changes)


def evict(fleet: PlacementFleet, demand: PlacementDemand | None = None, **more: Any) -> EvictionDecision:
    effective = demand or PlacementDemand(model="m", need=NEED)
    placement = place_replicas(fleet, effective)
    assert placement.choices == ()
    return make_room(fleet, effective, placement, THEN, **more)


def names(eviction: EvictionDecision) -> list[str]:
    return sorted(victim.replica.model for victim in eviction.victims)


@pytest.mark.behaviour("NODE-96")
def test_cheapest_sufficient_set_goes_on_one_candidate() -> None:
    rows = [
        idle("gpu", "small", 3),
        idle("gpu", "middle", 6),
        idle("gpu", "large", 12, load_s=60.0),
        idle("other", "huge", 24, load_s=600.0, ago_s=1),
    ]
    eviction = evict(PlacementFleet.build([a_full_node(), a_full_node("other")], rows))
    assert eviction.outcome is EvictionOutcome.MAKE_ROOM
    assert names(eviction) == ["middle", "small"]
    assert eviction.choice is not None
    assert eviction.choice.node == "gpu"
    assert eviction.choice.terms.evict_s == sum(victim.cost_s for victim in eviction.victims)
    assert "gpu has room for m without middle" in eviction.sentence.replace("small (2 s to bring back), ", "")


@pytest.mark.behaviour("NODE-96")
def test_recently_used_replica_is_kept_when_an_older_one_suffices() -> None:
    rows = [idle("gpu", "fresh", 12, ago_s=5), idle("gpu", "stale", 12, ago_s=7200)]
    assert names(evict(PlacementFleet.build([a_full_node()], rows))) == ["stale"]


@pytest.mark.behaviour("NODE-96")
def test_old_one_that_is_dear_to_bring_back_stays_if_a_cheap_one_does() -> None:
    rows = [idle("gpu", "slow", 12, load_s=1200.0, ago_s=900), idle("gpu", "quick", 12, load_s=3.0, ago_s=600)]
    assert names(evict(PlacementFleet.build([a_full_node()], rows))) == ["quick"]


@pytest.mark.behaviour("NODE-96")
def test_eviction_is_limited_to_candidate_nodes() -> None:
    nodes = [a_full_node("in", labels={"zone": "b"}), a_full_node("out"), a_full_node("away", drained_at=THEN)]
    rows = [idle("in", "dear", 12, load_s=900.0), idle("out", "cheap", 12), idle("away", "cheap", 12)]
    eviction = evict(PlacementFleet.build(nodes, rows), PlacementDemand(model="m", need=NEED, selector={"zone": "b"}))
    assert names(eviction) == ["dear"]
    assert (
        evict(PlacementFleet.build(nodes, rows), PlacementDemand(model="m", need=NEED, selector={"zone": "c"})).victims
        == ()
    )


@pytest.mark.behaviour("NODE-96")
def test_node_whose_disk_is_full_gains_nothing_by_an_eviction() -> None:
    full = a_full_node(total_disk=100 * GIB, available_disk=0)
    demand = PlacementDemand(model="m", need=NEED, files=(StoredFile(path="a", sha256="aa", size_bytes=GIB),))
    assert evict(PlacementFleet.build([full], [idle("gpu", "x", 12)]), demand).outcome is EvictionOutcome.NONE
    assert evict(PlacementFleet.build([full], [idle("gpu", "x", 12)]), replace(demand, is_disk_enforced=False)).victims


@pytest.mark.behaviour("NODE-93")
def test_eviction_refusal_has_its_own_code_when_all_replicas_are_busy() -> None:
    eviction = evict(PlacementFleet.build([a_full_node()], [idle("gpu", "x", 12, in_flight=1)]))
    assert eviction.outcome == "eviction_busy"
    assert eviction.victims == ()
    assert eviction.sentence == "m would fit on gpu, but the replicas that would have to make room are in use."


def test_eviction_refusal_says_when_nothing_could_ever_make_room() -> None:
    eviction = evict(PlacementFleet.build([a_full_node()], [idle("gpu", "x", 3, in_flight=1)]))
    assert eviction.outcome == "no_room"
    assert "gpu has 0.0 GiB of VRAM free, 8.0 GiB are needed." in eviction.sentence


@pytest.mark.behaviour("NODE-94")
def test_minimum_is_kept_and_of_two_the_older_goes() -> None:
    nodes = [a_full_node("a"), a_full_node("b")]
    rules = [Rule(model="x", selector={}, min_replicas=1)]
    assert evict(PlacementFleet.build(nodes, [idle("a", "x", 12)], rules=rules)).outcome is EvictionOutcome.NONE
    eviction = evict(
        PlacementFleet.build(nodes, [idle("a", "x", 12, ago_s=60), idle("b", "x", 12, ago_s=600)], rules=rules)
    )
    assert [victim.replica.node_id for victim in eviction.victims] == ["b"]


@pytest.mark.behaviour("NODE-94")
def test_two_victims_of_one_model_never_take_it_below_its_minimum_together() -> None:
    rows = [idle("gpu", "x", 4), idle("gpu", "x", 4, index=1), idle("gpu", "y", 4, load_s=500.0)]
    rule = Rule(model="x", selector={}, min_replicas=1)
    assert names(evict(PlacementFleet.build([a_full_node()], rows, rules=[rule]))) == ["x", "y"]
    assert names(evict(PlacementFleet.build([a_full_node()], rows))) == ["x", "x"]


@pytest.mark.behaviour("NODE-94")
def test_minimum_counts_in_the_window_that_asks_for_it() -> None:
    window = RuleWindow(cron="0 * * * *", duration_s=600, min_replicas=1)
    rule = Rule(model="x", selector={}, windows=(window,))
    fleet = PlacementFleet.build([a_full_node()], [idle("gpu", "x", 12)], rules=[rule])
    assert THEN.minute == 0
    assert evict(fleet).outcome is EvictionOutcome.NONE
    placement = place_replicas(fleet, PlacementDemand(model="m", need=NEED))
    later = make_room(fleet, PlacementDemand(model="m", need=NEED), placement, THEN + timedelta(minutes=30))
    assert names(later) == ["x"]


@pytest.mark.behaviour("NODE-94")
def test_spread_rule_keeps_one_replica_on_each_matching_node() -> None:
    nodes = [a_full_node("in", labels={"zone": "b"}), a_full_node("out")]
    rule = Rule(model="x", selector={"zone": "b"}, spreads=True)
    only = [idle("in", "x", 12)]
    assert evict(PlacementFleet.build(nodes, only, rules=[rule])).outcome is EvictionOutcome.NONE
    doubled = evict(PlacementFleet.build(nodes, [*only, idle("in", "x", 12, index=1)], rules=[rule]))
    assert [victim.replica.index for victim in doubled.victims] == [1]
    assert evict(PlacementFleet.build(nodes, [idle("out", "x", 12)], rules=[rule])).victims, (
        "it is not meant to be there"
    )


def test_replicas_that_do_not_serve_make_up_no_minimum() -> None:
    nodes = [a_full_node("a"), a_full_node("lost", drained_at=THEN), a_full_node("b", available_vram=0)]
    rows = [idle("a", "x", 12), idle("lost", "x", 12), idle("b", "x", 12, state=ReplicaState.LOADING)]
    rules = [Rule(model="x", selector={}, min_replicas=1)]
    assert evict(PlacementFleet.build(nodes, rows, rules=rules)).victims == ()


@pytest.mark.parametrize(
    "changes", [{"in_flight": 1}, {"state": ReplicaState.LOADING}, {"revision": "old"}, {"model": "m"}]
)
def test_eviction_takes_only_idle_loaded_current_replicas_of_other_models(changes: dict[str, Any]) -> None:
    values: dict[str, Any] = {"revision": "now", "model": "x"} | changes
    row = idle("gpu", values.pop("model"), 12, **values)
    fleet = PlacementFleet.build([a_full_node()], [row], models=[ModelTraits(name="x", run_hash="now")])
    assert evict(fleet).victims == ()


def test_pinned_model_is_not_evicted() -> None:
    models = [ModelTraits(name="x", is_pinned=True)]
    assert (
        evict(PlacementFleet.build([a_full_node()], [idle("gpu", "x", 12)], models=models)).outcome
        is EvictionOutcome.NONE
    )


def test_room_that_is_coming_is_waited_for() -> None:
    ending = idle("gpu", "old", 12, state=ReplicaState.UNLOADING)
    eviction = evict(PlacementFleet.build([a_full_node()], [ending, idle("gpu", "x", 12)]))
    assert eviction.outcome is EvictionOutcome.WAIT
    assert eviction.victims == ()
    assert eviction.waits_for == (ending,)
    assert eviction.sentence == "gpu may have room for m soon: it waits for old to end."


def test_room_that_is_coming_is_counted_and_only_the_rest_is_taken() -> None:
    ending = idle("gpu", "old", 5, state=ReplicaState.UNLOADING)
    eviction = evict(
        PlacementFleet.build([a_full_node()], [ending, idle("gpu", "x", 3), idle("gpu", "y", 12, load_s=99.0)])
    )
    assert names(eviction) == ["x"]
    assert eviction.waits_for == (ending,)


def test_engine_that_cannot_be_stopped_is_not_waited_for() -> None:
    stuck = idle("gpu", "old", 12, state=ReplicaState.UNLOADING, stop_attempts=3)
    assert names(evict(PlacementFleet.build([a_full_node()], [stuck, idle("gpu", "x", 12)]))) == ["x"]


def test_eviction_waits_for_the_next_report_of_a_node_with_old_figures() -> None:
    node = a_full_node()
    eviction = evict(PlacementFleet.build([node], [idle("gpu", "x", 12)]), settling=[node.id])
    assert eviction.outcome is EvictionOutcome.WAIT
    assert eviction.sentence == "gpu may have room for m soon: it waits for its next report."


@pytest.mark.parametrize(
    ("node", "need"),
    [
        (a_full_node("small"), Need(vram_bytes=25 * GIB)),
        (a_node("small", total_ram=64 * GIB, available_ram=GIB), Need(ram_bytes=65 * GIB)),
    ],
)
def test_node_that_is_too_small_for_it_is_not_waited_for(node: Node, need: Need) -> None:
    eviction = evict(
        PlacementFleet.build([node], [idle("small", "x", 12)]),
        PlacementDemand(model="m", need=need),
        settling=[node.id],
    )
    assert eviction.outcome is EvictionOutcome.NONE
    assert "m fits on no node, and nothing can be evicted for it." in eviction.sentence


def test_eviction_frees_ram_and_hands_the_threads_of_the_victims_on() -> None:
    node = a_node("cpu", available_ram=GIB, cpu_threads=4, held_threads=4, slots_reported=2)
    rows = [
        a_replica("cpu", model="x", ram_bytes=4 * GIB, threads=4, last_used_at=THEN - timedelta(hours=1)),
        a_replica("cpu", model="y", ram_bytes=0, threads=0, last_used_at=THEN - timedelta(hours=1)),
    ]
    eviction = evict(PlacementFleet.build([node], rows), PlacementDemand(model="m", need=Need(ram_bytes=4 * GIB)))
    assert names(eviction) == ["x"]
    assert eviction.choice is not None
    assert eviction.choice.threads == 2


def test_eviction_takes_a_surplus_copy_before_the_only_replica_of_a_model() -> None:
    """The only replica of `used` got a request a second ago; `doubled` stays loaded on its other node."""
    nodes = [a_full_node("vm"), a_full_node("mini")]
    rows = [
        idle("vm", "used", 12, ago_s=1, load_s=2.0),
        idle("mini", "doubled", 12, ago_s=30, load_s=20.0),
        idle("mini", "doubled", 12, ago_s=30, load_s=20.0, index=1),
    ]
    eviction = evict(PlacementFleet.build(nodes, rows))
    assert [(victim.replica.model, victim.replica.node_id) for victim in eviction.victims] == [("doubled", "mini")]


def test_eviction_counts_the_last_copy_of_a_model_in_full_when_all_copies_would_go() -> None:
    """Both copies of `doubled` would have to go for the room that ending `used` alone gives."""
    nodes = [a_full_node("vm"), a_full_node("mini")]
    rows = [
        idle("vm", "used", 12, ago_s=300, load_s=10.0),
        idle("mini", "doubled", 4, ago_s=300, load_s=20.0),
        idle("mini", "doubled", 4, ago_s=300, load_s=20.0, index=1),
    ]
    assert names(evict(PlacementFleet.build(nodes, rows))) == ["used"]


@pytest.mark.parametrize("other", [{"state": ReplicaState.UNLOADING}, {"revision": "before"}, {"node": "away"}])
def test_eviction_counts_a_copy_in_full_when_the_other_copy_does_not_last(other: dict[str, Any]) -> None:
    nodes = [a_full_node("vm"), a_full_node("mini"), a_full_node("away", drained_at=THEN)]
    changes = {"revision": "now"} | other
    elsewhere = idle(changes.pop("node", "vm"), "single", 1, ago_s=1, load_s=60.0, **changes)
    rows = [
        elsewhere,
        idle("mini", "single", 12, ago_s=1, load_s=60.0, revision="now"),
        idle("vm", "old", 12, ago_s=1, load_s=10.0),
    ]
    assert names(evict(PlacementFleet.build(nodes, rows, models=[ModelTraits(name="single", run_hash="now")]))) == [
        "old"
    ]


def test_eviction_on_unified_memory_frees_vram_and_ram() -> None:
    mac = a_full_node("mac", available_ram=0, unified_memory=True)
    assert names(evict(PlacementFleet.build([mac], [idle("mac", "x", 12)]))) == ["x"]


def test_replica_without_a_known_size_frees_nothing() -> None:
    row = a_replica("gpu", model="x", last_used_at=THEN)
    assert evict(PlacementFleet.build([a_full_node()], [row])).victims == ()


@pytest.mark.behaviour("PLACE-8")
@patiently
@given(crowded() | fleets_and_demands())
def test_eviction_never_touches_what_is_busy_pinned_or_needed(
    example: tuple[PlacementFleet, PlacementDemand],
) -> None:
    fleet, demand = example
    demand = replace(demand, count=1)
    placement = place_replicas(fleet, demand)
    if placement.choices:
        return
    eviction = make_room(fleet, demand, placement, THEN)
    gone = {victim.replica.id for victim in eviction.victims}
    assert (eviction.outcome is EvictionOutcome.MAKE_ROOM) == bool(gone)
    for victim in (victim.replica for victim in eviction.victims):
        assert eviction.choice is not None
        assert victim.node_id == eviction.choice.node_id
        assert victim.state is ReplicaState.LOADED
        assert victim.in_flight == 0
        assert victim.model != demand.model
        assert fleet.is_current(victim)
        assert not fleet.models[victim.model].is_pinned
    for rule in fleet.rules.values():
        meant = {room.node.id for room in fleet.list_candidates(rule.selector)}
        serving = [
            row
            for row in fleet.by_model.get(rule.model, ())
            if row.state is ReplicaState.LOADED and fleet.is_current(row) and row.node_id in meant
        ]
        left = [row for row in serving if row.id not in gone]
        assert len(left) >= min(len(serving), rule.min_replicas)
        if rule.spreads:
            assert {row.node_id for row in left} == {row.node_id for row in serving}


@pytest.mark.behaviour("PLACE-8")
@patiently
@given(crowded() | fleets_and_demands())
def test_eviction_makes_enough_room_and_takes_no_victim_in_vain(
    example: tuple[PlacementFleet, PlacementDemand],
) -> None:
    fleet, demand = example
    demand = replace(demand, count=1)
    placement = place_replicas(fleet, demand)
    eviction = make_room(fleet, demand, placement, THEN) if not placement.choices else None
    if eviction is None or eviction.outcome is not EvictionOutcome.MAKE_ROOM:
        return
    assert eviction.choice is not None
    ended = [victim.replica for victim in eviction.victims]
    node_id = eviction.choice.node_id
    assert _fits_without(fleet, demand, node_id, [*ended, *eviction.waits_for])
    for kept in ended:
        rest = [row for row in ended if row is not kept]
        assert not _fits_without(fleet, demand, node_id, [*rest, *eviction.waits_for])


def _fits_without(fleet: PlacementFleet, demand: PlacementDemand, node_id: NodeId, ended: list[Replica]) -> bool:
    """By the books: what the ended ones took is free on their node."""
    room = fleet.rooms[node_id]
    for row in ended:
        vram, ram = fleet.compute_freed_memory(row)
        room = room._replace(
            vram=None if room.vram is None else room.vram + vram,
            ram=None if room.ram is None else room.ram + ram + (vram if room.is_unified else 0),
            threads=None if room.threads is None else room.threads + row.threads,
        )
    return find_refusal(PlacementContext(fleet, demand), room) is None


costs = st.floats(1.0, 100.0)
gains = st.tuples(st.integers(0, 9), st.integers(0, 9))


@given(st.lists(st.tuples(costs, gains), max_size=7), gains)
def test_set_is_the_cheapest_of_all_that_suffice(
    given_offers: list[tuple[float, tuple[int, int]]], short: tuple[int, int]
) -> None:
    offers = [
        EvictionOffer(EvictionVictim(a_replica("n", number, model=f"m{number}"), cost), gain)
        for number, (cost, gain) in enumerate(given_offers)
    ]
    enough = [
        sum(offer.victim.cost_s for offer in chosen)
        for size in range(len(offers) + 1)
        for chosen in combinations(offers, size)
        if all(sum(offer.gain[kind] for offer in chosen) >= short[kind] for kind in range(2))
    ]
    found = find_cheapest_set(offers, short, RetentionPolicy(PlacementFleet.build([]), THEN), float("inf"))
    if not enough:
        assert found is None
    else:
        assert found is not None
        assert sum(offer.victim.cost_s for offer in found) == pytest.approx(min(enough))


def test_many_offers_are_searched_greedily_and_suffice() -> None:
    rows = [idle("gpu", f"x{number}", 1, ago_s=60.0 * number) for number in range(40)]
    eviction = evict(PlacementFleet.build([a_full_node()], rows))
    assert len(eviction.victims) == 8
    assert names(eviction) == sorted(f"x{number}" for number in range(32, 40)), "those unused for longest"
