"""Models in a simulated cluster: whatever goes wrong, rows, processes, files and rules agree in the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.models.cluster import run_models
from tests.simulation.models.plan import brief_plan

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.timeout(600)


# 25: a load was cancelled while its commands were on their way, and two engines started after their rows had gone.
@pytest.mark.seeds(2, found=(25,))
def test_models_keep_their_promises_whatever_goes_wrong(cluster_server: str, seed: int):
    outcome = run_models(cluster_server, seed)
    assert not outcome.violations, outcome.report()


def test_run_with_models_repeats_itself_in_another_process(cluster_server: str):
    module = "tests.simulation.models.cluster"
    command = ["env", "PYTHONHASHSEED=77", sys.executable, "-m", module, cluster_server, "1"]
    other = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert other.stdout.split() == [run_models(cluster_server, 1, brief_plan()).trace.digest()]
