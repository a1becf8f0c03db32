"""Operations in a simulated cluster: whatever goes wrong, each ends once, with a reason, and tells the truth."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.operations.cluster import run_operations

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.timeout(600)


@pytest.mark.seeds(8)
def test_operations_keep_their_promises_whatever_goes_wrong(cluster_server: str, seed: int):
    outcome = run_operations(cluster_server, seed)
    assert not outcome.violations, outcome.report()


def test_run_with_operations_repeats_itself_in_another_process(cluster_server: str):
    module = "tests.simulation.operations.cluster"
    command = ["env", "PYTHONHASHSEED=77", sys.executable, "-m", module, cluster_server, "3"]
    other = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert other.stdout.split() == [run_operations(cluster_server, 3).trace.digest()]
