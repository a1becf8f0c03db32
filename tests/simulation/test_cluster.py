"""The simulated cluster: whatever goes wrong, what Corral promises holds at every moment and at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.cluster import run_cluster

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
@pytest.mark.behaviour("SIM-20")
def test_the_promises_hold_whatever_goes_wrong(cluster_server: str, seed: int):
    outcome = run_cluster(cluster_server, seed)
    assert not outcome.violations, outcome.report()
