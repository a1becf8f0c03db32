"""Counting requests: once each, whatever goes meanwhile, within bounds."""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.usage import ErrorOrigin
from corral.insight import tally as tallying
from corral.insight.tally import OTHER, REQUEST_BOUNDS, Histogram, RequestTally, compute_quantile
from tests.insight.records import record


def counted(tally: RequestTally) -> int:
    return sum(row.requests for row in tally.compute_totals().values())


@pytest.mark.behaviour("GW-180")
def test_request_is_counted_with_its_times_its_tokens_and_its_status() -> None:
    tally = RequestTally()
    tally.on_requests_ended(record())
    ((model, call), row) = next(iter(tally.compute_totals().items()))
    assert (model, call) == ("chat", "chat")
    assert row.statuses[2] == 1
    assert row.request.sum == pytest.approx(2.1)
    assert row.first_byte.sum == pytest.approx(0.1)
    assert row.queue.sum == pytest.approx(0.01)
    # Two seconds between 201 events.
    assert row.inter_token.sum == pytest.approx(0.01)
    assert (row.prompt_tokens, row.cached_tokens, row.completion_tokens) == (30, 20, 200)


@pytest.mark.behaviour("GW-180")
def test_tally_does_not_count_missing_measurements_as_zero() -> None:
    tally = RequestTally()
    tally.on_requests_ended(
        record(is_stream=False, events=0, first_byte_s=None, prompt_tokens=None, completion_tokens=None)
    )
    row = tally.compute_totals()["chat", "chat"]
    assert sum(row.request.counts) == 1
    assert sum(row.first_byte.counts) == 0
    assert sum(row.inter_token.counts) == 0


@pytest.mark.behaviour("GW-180")
def test_request_that_was_turned_away_does_not_make_answers_look_fast() -> None:
    tally = RequestTally()
    turned_away = {"attempts": 0, "replica_id": "", "first_byte_s": None, "total_s": 0.0}
    tally.on_requests_ended(record(status=429, origin=ErrorOrigin.CLIENT, error_code="limit_reached", **turned_away))
    row = tally.compute_totals()["chat", "chat"]
    assert (row.statuses[4], sum(row.request.counts), sum(row.queue.counts)) == (1, 0, 0)
    assert tally.count_errors() == {("client", "limit_reached"): 1}


def test_answer_that_was_cut_is_an_error_although_its_status_is_200() -> None:
    tally = RequestTally()
    tally.on_requests_ended(record(origin=ErrorOrigin.ENGINE, error_code="engine_lost"))
    tally.on_requests_ended(record(status=499, origin=ErrorOrigin.CLIENT, error_code="client_left"))
    row = tally.compute_totals()["chat", "chat"]
    assert row.errors == 1
    assert tally.count_errors() == {("engine", "engine_lost"): 1, ("client", "client_left"): 1}


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "a", "b", "c"]), st.sampled_from(["", "r1", "r2", "r3"]))
        | st.tuples(st.frozensets(st.sampled_from("abc")), st.frozensets(st.sampled_from(["r1", "r2", "r3"])))
    )
)
def test_tally_counts_each_request_once_when_models_and_replicas_go(steps: list[tuple[Any, Any]]) -> None:
    tally, recorded = RequestTally(), 0
    there: frozenset[str] = frozenset("abc")
    for step in steps:
        if isinstance(step[0], str):
            recorded += 1
            tally.on_requests_ended(record(model=step[0], replica_id=step[1]))
        else:
            there, replica_ids = step
            tally.forget(there, replica_ids)
            assert {model for model, _ in tally.compute_totals()} <= {*there, OTHER}
            assert {place.replica_id for place, _ in tally.iter_rows()} <= {*replica_ids, ""}
        assert counted(tally) == recorded
    assert sum(sum(row.request.counts) for row in tally.compute_totals().values()) == recorded


def test_names_and_codes_without_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallying, "ROWS_MAX", 5)
    monkeypatch.setattr(tallying, "CODES_MAX", 5)
    tally = RequestTally()
    for number in range(50):
        tally.on_requests_ended(record(model=f"m{number}", origin=ErrorOrigin.ENGINE, error_code=f"code-{number}"))
    # The one for all others comes on top.
    assert len(tally.compute_totals()) == len(tally.count_errors()) == 6
    assert counted(tally) == sum(tally.count_errors().values()) == 50
    assert tally.compute_totals()[OTHER, "chat"].requests == 45


@given(st.lists(st.floats(min_value=0, max_value=250), min_size=1, max_size=60), st.sampled_from([0.5, 0.95]))
def test_quantile_is_in_the_bucket_of_the_value_that_it_stands_for(values: list[float], share: float) -> None:
    histogram = Histogram(REQUEST_BOUNDS)
    histogram.observe([*values])
    found = compute_quantile(histogram.bounds, histogram.counts, share)
    exact = sorted(values)[ceil(share * len(values)) - 1]
    assert found is not None
    bounds = (-1.0, 0.0, *REQUEST_BOUNDS)
    low, high = next(pair for pair in pairwise(bounds) if pair[0] < exact <= pair[1])
    assert low <= found <= max(high, REQUEST_BOUNDS[0])


@pytest.mark.parametrize(("value", "bucket"), [(0.0, 0), (0.001, 0), (0.0011, 1), (300.0, 16), (301.0, 17)])
def test_end_of_a_bucket_belongs_to_it(value: float, bucket: int) -> None:
    histogram = Histogram(REQUEST_BOUNDS)
    histogram.observe([value])
    assert histogram.counts.index(1) == bucket


def test_empty_histogram_has_no_quantile() -> None:
    assert compute_quantile(REQUEST_BOUNDS, [0] * (len(REQUEST_BOUNDS) + 1), 0.5) is None
