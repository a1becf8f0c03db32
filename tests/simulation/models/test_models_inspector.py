"""The simulator is worth its time only if it sees what is wrong: each break of the product has to be noticed."""

from __future__ import annotations

import pytest

from tests.simulation.deliberate_defects import Break
from tests.simulation.models.breaks import BREAKS
from tests.simulation.models.cluster import run_models

SEEDS = 5
pytestmark = pytest.mark.timeout(600)


@pytest.mark.breaks(BREAKS)
def test_product_with_broken_models_is_caught(cluster_server: str, monkeypatch: pytest.MonkeyPatch, broken: Break):
    broken.apply(monkeypatch)
    seen: list[str] = []
    for seed in range(broken.first_seed, broken.first_seed + SEEDS):
        seen = run_models(cluster_server, seed, broken.plan(), ends_at=broken.sentences).violations
        if any(sentence in each for each in seen for sentence in broken.sentences):
            return
    raise AssertionError(f"nobody noticed; the last seed had {seen}")
