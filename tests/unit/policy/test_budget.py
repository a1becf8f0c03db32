"""VRAM budgets: what people may write, and that a budget never grants more than the card."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corral.domain.errors import InvalidRequest
from corral.policy.budget import NO_CAP, VramBudget, parse_budget, parse_stored_budget

GIB = 1024**3
sizes = st.integers(min_value=0, max_value=2**62)
units = st.sampled_from(["", "%", "b", "B", "k", "KB", "MiB", "GB", "gib", "TB", "PiB", "q", "xx", "%%"])
numbers = st.one_of(
    st.integers(min_value=0, max_value=10**20).map(str),
    st.decimals(min_value=0, max_value=1000, allow_nan=False, places=4).map(str),
)
budgets = st.one_of(st.text(max_size=20), st.builds("{}{}".format, numbers, units))


@pytest.mark.behaviour("NODE-25")
def test_share_is_taken_of_the_whole_card() -> None:
    assert parse_budget("80%").compute_ceiling(10 * GIB) == 8 * GIB
    assert parse_budget("0.8").compute_ceiling(10 * GIB) == 8 * GIB
    assert parse_budget("1").compute_ceiling(10 * GIB) == 10 * GIB


@pytest.mark.behaviour("NODE-25")
def test_budget_above_the_whole_card_is_refused_with_a_hint() -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_budget("150%")
    assert refused.value.slug == "bad_budget"
    assert refused.value.hint


@pytest.mark.behaviour("NODE-25")
def test_size_above_the_card_is_clamped_to_the_card() -> None:
    assert parse_budget("64GB").compute_ceiling(24 * 10**9) == 24 * 10**9
    assert parse_budget("12GB").compute_ceiling(24 * 10**9) == 12 * 10**9
    assert parse_budget("12GiB").compute_ceiling(24 * GIB) == 12 * GIB


@pytest.mark.behaviour("NODE-25")
@pytest.mark.parametrize("text", ["", "  ", "0", "0%", "0GB"])
def test_empty_and_zero_are_no_cap(text: str) -> None:
    assert parse_budget(text) == NO_CAP


@pytest.mark.parametrize("text", ["1.5", "-1", "80 %%", "12XB", "NaN", "1e9", "٣", "1_000", "0x10"])
def test_invalid_vram_budget_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_budget(text)


@example(text="100%", total=2**62 - 1, available=2**62)
@given(text=budgets, total=st.none() | sizes, available=st.none() | sizes)
def test_budget_parser_reads_or_refuses_any_text_and_never_grants_more_than_the_card(
    text: str, total: int | None, available: int | None
) -> None:
    try:
        budget = parse_budget(text)
    except InvalidRequest:
        assert parse_stored_budget(text) == NO_CAP
        return
    ceiling = budget.compute_ceiling(total)
    if ceiling is not None:
        assert ceiling >= 0
        assert total is None or ceiling <= total
    capped = budget.cap(available, total)
    assert (capped is None) == (available is None)
    if capped is not None and available is not None:
        assert 0 <= capped <= available
        assert ceiling is None or capped <= ceiling


@given(total=sizes, low=st.integers(1, 100), high=st.integers(1, 100))
def test_larger_share_never_grants_less(total: int, low: int, high: int) -> None:
    low, high = sorted((low, high))
    small, large = parse_budget(f"{low}%").compute_ceiling(total), parse_budget(f"{high}%").compute_ceiling(total)
    assert small is not None
    assert large is not None
    assert small <= large


def test_share_of_an_unknown_card_is_no_cap_but_a_size_is() -> None:
    assert VramBudget(fraction=0.5).cap(7, None) == 7
    assert VramBudget(size_bytes=5).cap(7, None) == 5
