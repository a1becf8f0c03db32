"""The last hour in memory: gaps where nothing was known, and a bound on what it takes."""

from __future__ import annotations

import pytest

from corral.insight import history
from corral.insight.history import CLUSTER_NAMES, KEPT_S, MOMENTS, NODE_NAMES, NODES_MAX, STEP_S, MetricsHistory
from corral.store.history import HistoryMoment


def test_history_returns_moments_in_order_since_the_given_time_and_unknown_as_gaps() -> None:
    kept = MetricsHistory()
    for number in range(20):
        kept.add(1000 + number * STEP_S, {"tokens_per_s": number / 10, "vram_used": None}, {})
    past = kept.read_cluster(since=1000 + 17 * STEP_S)
    assert past.at == [1085.0, 1090.0, 1095.0]
    assert past.series["tokens_per_s"] == [1.7, 1.8, 1.9]
    assert past.series["vram_used"] == past.series["waiting"] == [None] * 3
    assert set(past.series) == set(CLUSTER_NAMES)


def test_hour_is_kept_and_no_more() -> None:
    kept = MetricsHistory()
    for number in range(MOMENTS * 2 + 7):
        kept.add(number * 4.5, {"waiting": number}, {"n": {"in_flight": number}})
    past, node = kept.read_cluster(since=0.0), kept.read_node("n", since=0.0)
    assert len(past.at) == MOMENTS
    assert past.at[-1] - past.at[0] >= history.KEPT_S - 4.5
    assert past.at == sorted(past.at)
    assert past.series["waiting"] == node.series["in_flight"]
    assert past.series["waiting"][-1] == MOMENTS * 2 + 6


def test_node_history_has_gaps_without_data_and_is_dropped_with_the_node() -> None:
    kept = MetricsHistory()
    kept.add(0.0, {}, {"a": {"ram_used": 1.0}})
    kept.add(5.0, {}, {"a": {"ram_used": 2.0}, "b": {"ram_used": 24 * 1024.0**3}})
    kept.add(10.0, {}, None)
    kept.add(15.0, {}, {"b": {}})
    assert kept.read_node("b", since=0.0).series["ram_used"] == [
        None,
        pytest.approx(24 * 1024.0**3, rel=1e-6),
        None,
        None,
    ]
    assert kept.read_node("a", since=0.0).series == {name: [None] * 4 for name in NODE_NAMES}


def test_node_history_is_bounded_in_nodes() -> None:
    kept = MetricsHistory()
    for _ in range(2):
        kept.add(0.0, {}, {f"n{number}": {"in_flight": 1} for number in range(NODES_MAX + 100)})
    assert len(kept._nodes) == NODES_MAX
    assert kept.read_node("n0", since=0.0).series["in_flight"] == [1.0, 1.0]
    assert kept.read_node(f"n{NODES_MAX + 1}", since=0.0).series["in_flight"] == [None, None]


def test_restored_moments_stand_before_own_ones_and_are_forgotten_after_an_hour() -> None:
    kept = MetricsHistory()
    kept.restore(
        [
            HistoryMoment(at=at, cluster={"waiting": at}, names=NODE_NAMES, nodes={"a": [1.0, at, None, None, None]})
            for at in (100.0, 160.0, 220.0)
        ]
    )
    kept.add(200.0, {"waiting": 1.0}, {"a": {"ram_used": 2.0}})
    past = kept.read_cluster(since=110.0)
    assert (past.at, past.series["waiting"]) == ([160.0, 200.0], [160.0, 1.0])
    assert kept.read_node("a", since=0.0).series["ram_used"] == [100.0, 160.0, 2.0]
    assert kept.read_node("b", since=0.0).series["ram_used"] == [None, None, None]
    kept.add(221.0 + KEPT_S, {}, {})
    assert kept.read_cluster(since=0.0).at == [200.0, 221.0 + KEPT_S]


def test_summary_is_the_mean_of_what_was_known_and_the_last_of_each_node() -> None:
    kept = MetricsHistory()
    assert kept.summarise(0.0) is None
    kept.add(5.0, {"waiting": 1.0, "in_flight": None}, {"a": {"ram_used": 1.0}})
    kept.add(10.0, {"waiting": 3.0, "in_flight": None}, {"a": {"ram_used": 7.0}})
    moment = kept.summarise(0.0)
    assert moment is not None
    assert (moment.cluster["waiting"], moment.cluster["in_flight"]) == (2.0, None)
    assert moment.get_node_values("a")["ram_used"] == 7.0
    assert kept.summarise(11.0) is None
