"""Which version is newer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from corral.policy.catalog import is_newer, is_prerelease, make_version_key

numbers = st.integers(0, 99)
releases = st.lists(numbers, min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
before = st.one_of(st.just(""), st.tuples(st.sampled_from(["a", "b", "rc"]), numbers).map(lambda p: f"{p[0]}{p[1]}"))
after = st.one_of(st.just(""), numbers.map(lambda number: f".post{number}"))
unfinished = st.one_of(st.just(""), numbers.map(lambda number: f".dev{number}"))
pythonic = st.tuples(releases, before, after, unfinished).map("".join)
anything = st.text(st.sampled_from("0123456789.abcrv-_+ devpost"), max_size=20)


@given(pythonic, pythonic)
def test_order_agrees_with_that_of_python(one: str, other: str) -> None:
    ours = (make_version_key(one) > make_version_key(other)) - (make_version_key(one) < make_version_key(other))
    theirs = (Version(one) > Version(other)) - (Version(one) < Version(other))
    assert ours == theirs


@given(pythonic)
def test_build_before_a_release_is_known_as_such(one: str) -> None:
    assert is_prerelease(one) == Version(one).is_prerelease


@given(st.lists(anything, max_size=6))
def test_version_order_is_total_for_any_texts(texts: list[str]) -> None:
    backwards = list(reversed(texts))
    keys = [make_version_key(text) for text in sorted(texts, key=make_version_key)]
    assert keys == [make_version_key(text) for text in sorted(backwards, key=make_version_key)]


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("1.10", "1.9"),
        ("2026.10.11549", "2026.9.11063"),
        ("b4568", "b4567"),
        ("b10000", "b9999"),
        ("v1.2.1", "1.2"),
        ("1.0", "latest"),
        ("latest", ""),
        ("1.0", "1.0-rc.1"),
        ("1.0-cu124", "1.0"),
        ("1.0.1", "1.0-cu124"),
    ],
)
def test_newer_version_compares_greater(newer: str, older: str) -> None:
    assert is_newer(newer, older)
    assert not is_newer(older, newer)


@pytest.mark.parametrize("spelling", ["1.0", "v1.0.0", "1", " 1.0 ", "V1"])
def test_spellings_of_one_version_are_the_same(spelling: str) -> None:
    assert make_version_key(spelling) == make_version_key("1.0")
