"""The simulator is worth its time only if it sees what is wrong: each break of the product has to be noticed."""

from __future__ import annotations

import pytest

from tests.simulation.deliberate_defects import Break
from tests.simulation.operations.breaks import BREAKS
from tests.simulation.operations.cluster import run_operations

SEEDS = 6
pytestmark = pytest.mark.timeout(600)


@pytest.mark.breaks(BREAKS)
def test_broken_product_is_caught(cluster_server: str, monkeypatch: pytest.MonkeyPatch, broken: Break):
    broken.apply(monkeypatch)
    seen: list[str] = []
    for seed in range(broken.first_seed, broken.first_seed + SEEDS):
        seen = run_operations(cluster_server, seed, broken.plan()).violations
        if any(sentence in each for each in seen for sentence in broken.sentences):
            return
    raise AssertionError(f"nobody noticed; the last seed had {seen}")
