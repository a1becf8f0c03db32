"""Labels and selectors: what is let in, what the machine gives itself, whom a selector means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.errors import InvalidRequest
from corral.policy.labels import (
    KEY_LENGTH_MAX,
    LABELS_MAX,
    VALUE_LENGTH_MAX,
    check_label,
    check_labels,
    make_automatic_labels,
    matches_labels,
    parse_selector,
)

GIB = 1024**3
keys = st.from_regex(r"[a-z0-9]([a-z0-9._/-]{0,8}[a-z0-9])?", fullmatch=True)
values = st.text(alphabet="abc019.-", max_size=6)
maps = st.dictionaries(keys, values, max_size=6)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.behaviour("NODE-38")
@pytest.mark.parametrize(
    ("gib", "word"),
    [(25, "24GB"), (80, "80GB+"), (141, "80GB+"), (48, "48GB"), (24, "24GB"), (16, "16GB"), (8, "8GB"), (6, "6GB")],
)
def test_vram_becomes_the_bucket_below_it(gib: int, word: str) -> None:
    labels = make_automatic_labels(name="n", slots=2, gpu_vendor="nvidia", total_vram=gib * GIB)
    assert labels == {"node.name": "n", "node.replica-slots": "2", "gpu.vendor": "nvidia", "gpu.vram": word}


@pytest.mark.behaviour("NODE-38")
@given(slots=st.integers(-5, 5))
def test_replica_slots_are_always_a_label_and_at_least_one(slots: int) -> None:
    labels = make_automatic_labels(name="n", slots=slots, gpu_vendor=None, total_vram=None)
    assert labels == {"node.name": "n", "node.replica-slots": str(max(1, slots))}


@pytest.mark.behaviour("NODE-39")
def test_every_pair_of_a_selector_must_be_there_and_more_labels_do_not_matter() -> None:
    selector = {"gpu.vendor": "nvidia", "zone": "b"}
    assert not matches_labels(selector, {"gpu.vendor": "nvidia"})
    assert not matches_labels(selector, {"gpu.vendor": "nvidia", "zone": "c"})
    assert matches_labels(selector, {"gpu.vendor": "nvidia", "zone": "b", "rack": "7"})


@given(selector=maps, labels=maps)
def test_selector_matches_exactly_when_its_pairs_are_among_the_labels(
    selector: dict[str, str], labels: dict[str, str]
) -> None:
    assert matches_labels(selector, labels) == (selector.items() <= labels.items())
    assert matches_labels({}, labels)
    assert matches_labels(labels, labels)


@pytest.mark.behaviour("NODE-42")
@pytest.mark.parametrize(
    "raw", ["{bad json", '{"gpu.vendor": "nvidia"}', "zone", "=b", ",", " , ", "a b=c", [], None, 7]
)
def test_unreadable_selector_is_refused_and_never_means_every_node(raw: object) -> None:
    with pytest.raises(InvalidRequest):
        parse_selector(raw)


@pytest.mark.behaviour("NODE-42")
@given(raw=json_like)
def test_selector_parser_reads_or_refuses_any_json(raw: object) -> None:
    try:
        selector = parse_selector(raw)
    except InvalidRequest:
        return
    if selector == {}:
        assert raw == {} or (isinstance(raw, str) and not raw.strip())
    if isinstance(raw, dict):
        assert selector == raw


@given(text=st.text(alphabet='ab=,. -{}"', max_size=12))
def test_selector_parser_reads_or_refuses_any_text_and_only_an_empty_one_means_every_node(text: str) -> None:
    try:
        selector = parse_selector(text)
    except InvalidRequest:
        return
    assert bool(selector) == bool(text.strip())


@given(selector=st.dictionaries(keys, st.text(alphabet="abc019.-", min_size=1, max_size=6), max_size=5))
def test_selector_written_as_text_reads_back_the_same(selector: dict[str, str]) -> None:
    assert parse_selector(",".join(f"{key}={value}" for key, value in selector.items())) == selector


@given(key=st.text(max_size=140), value=st.text(max_size=260))
def test_allowed_label_is_short_and_printable(key: str, value: str) -> None:
    try:
        check_label(key, value)
    except InvalidRequest:
        return
    assert 1 <= len(key) <= KEY_LENGTH_MAX
    assert key.isascii()
    assert len(value) <= VALUE_LENGTH_MAX
    assert "\x00" not in value
    assert "\n" not in value


def test_too_many_labels_are_refused() -> None:
    check_labels({f"k{n}": "" for n in range(LABELS_MAX)})
    with pytest.raises(InvalidRequest):
        check_labels({f"k{n}": "" for n in range(LABELS_MAX + 1)})
