"""Deliberate changes of the product: which ones there are, and that a test of the product notices one."""

from __future__ import annotations

import pytest

from tools.mutants import draw_sample, list_mutants


@pytest.mark.parametrize(
    ("text", "mutated"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = a is not None", ["x = a is None"]),
        ("x = (a) not in (b)", ["x = (a) in (b)"]),
        ("x = a - 1", ["x = a + 1"]),
        ("x = 'é' + name", []),
        ("x = f(é) * 2", ["x = f(é) / 2"]),
        ("x = not a", ["x = a"]),
        ("x = a and b and c", ["x = a or b and c"]),
        ("x = a if b else c", ["x = a if (not (b)) else c"]),
        ("x = (a\n     == b)", ["x = (a\n     != b)"]),
    ],
)
def test_each_operator_is_replaced_where_it_stands(text: str, mutated: list[str]) -> None:
    assert [mutant.apply(text) for mutant in list_mutants("one.py", text)] == mutated


def test_sample_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    assert draw_sample(20, seed=3) == draw_sample(20, seed=3) != draw_sample(20, seed=4)
