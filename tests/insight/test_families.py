"""The requests' part of `/metrics` as Prometheus reads it."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from corral.adapters.system import SystemIdGenerator
from corral.api.metric_families import FAMILIES, RequestMetrics
from corral.domain.usage import ErrorOrigin
from corral.insight.request_monitor import BreakerStatus, RequestMonitor, RequestMonitorOptions
from tests.insight.records import HandClock, Request, SmallFleet, record


def read(insight: RequestMonitor, spool_lines: int = 0) -> dict[str, Metric]:
    text = RequestMetrics(insight, lambda: spool_lines).render().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def an_insight(fleet: SmallFleet | None = None) -> RequestMonitor:
    return RequestMonitor(RequestMonitorOptions(), fleet or SmallFleet(), HandClock(), SystemIdGenerator())


@pytest.mark.behaviour("GW-182")
def test_every_family_is_described_also_while_nothing_has_happened() -> None:
    found = read(an_insight())
    for family in FAMILIES:
        described = found[re.sub("_total$", "", family.name)]
        assert (described.type, described.documentation) == (family.kind, family.sentence)


@pytest.mark.behaviour("GW-182")
def test_histogram_has_growing_buckets_a_sum_and_a_count() -> None:
    insight = an_insight()
    for total_s in (0.0005, 0.3, 0.3, 1000.0):
        insight.tally.on_requests_ended(record(total_s=total_s, first_byte_s=None))
    samples = read(insight)["corral_request_seconds"].samples
    buckets = [sample.value for sample in samples if sample.name.endswith("_bucket")]
    assert (buckets[0], buckets[-2], buckets[-1]) == (1, 3, 4)
    assert all(low <= high for low, high in pairwise(buckets))
    by_name = {sample.name: sample.value for sample in samples}
    assert by_name["corral_request_seconds_sum"] == pytest.approx(1000.6005)
    assert by_name["corral_request_seconds_count"] == 4


@pytest.mark.behaviour("GW-182")
@given(
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\r\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e"),
        min_size=1,
    )
)
def test_model_name_in_a_metric_label_is_escaped_reversibly(name: str) -> None:
    insight = an_insight()
    insight.tally.on_requests_ended(record(model=name, origin=ErrorOrigin.ENGINE, error_code="engine_lost"))
    found = read(insight)
    assert {sample.labels["model"] for sample in found["corral_requests"].samples} == {name}
    assert {sample.labels["model"] for sample in found["corral_queue_seconds"].samples} == {name}


def test_open_request_metrics_are_read_from_the_fleet_view() -> None:
    fleet = SmallFleet(
        replicas={
            str(n): BreakerStatus(model="chat", state=state) for n, state in enumerate(("closed", "open", "half_open"))
        },
        requests=[Request(("chat", "chat", "0"), is_streaming=True), Request(("chat", "chat", ""))],
    )
    found = {
        sample.name: (sample.labels, sample.value)
        for family in read(an_insight(fleet), spool_lines=7).values()
        for sample in family.samples
    }
    assert found == {
        "corral_requests_open": ({}, 2),
        "corral_streams_open": ({}, 1),
        "corral_queue_waiting": ({"model": "chat"}, 1),
        "corral_breaker_open": ({"model": "chat"}, 2),
        "corral_usage_spool_lines": ({}, 7),
    }
