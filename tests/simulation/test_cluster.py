"""The simulated cluster: whatever goes wrong, what Corral promises holds at every moment and at the end."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation.cluster import run_cluster
from tests.simulation.plan import Fault, Kind, Plan, plan_of

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_promises_hold_whatever_goes_wrong(cluster_server: str, seed: int):
    outcome = run_cluster(cluster_server, seed)
    assert not outcome.violations, outcome.report()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(3))
def test_frontend_that_slept_longer_than_events_are_kept_reads_the_state_again(cluster_server: str, number: int):
    sleep = Fault(start_s=60.0, length_s=120.0, kind=Kind.FRONTEND_FREEZE, target=number, strength=0.5)
    plan = Plan(
        frontends=2,
        workers=3,
        watchers=2,
        feed_interval_s=4.0,
        outbox_retention_s=15.0,
        faults_end_s=182.0,
        quiet_s=20.0,
        faults=(sleep,),
    )
    outcome = run_cluster(cluster_server, number, plan)
    assert not outcome.violations, outcome.report()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [0, 1])
def test_run_of_the_cluster_repeats_itself(cluster_server: str, number: int):
    first = run_cluster(cluster_server, number, _storm(number))
    assert first.trace.digest() == run_cluster(cluster_server, number, _storm(number)).trace.digest()


@pytest.mark.timeout(600)
def test_run_of_the_cluster_repeats_itself_in_another_process(cluster_server: str):
    command = ["env", "PYTHONHASHSEED=77", sys.executable, "-m", "tests.simulation.cluster", cluster_server, "4"]
    other = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert other.stdout.split() == [run_cluster(cluster_server, 4).trace.digest()]


def _storm(seed: int) -> Plan:
    """Return the faults of a seed in half the time and without the quiet: enough for a comparison."""
    plan = plan_of(seed)
    halved = tuple(replace(each, start_s=each.start_s / 2, length_s=each.length_s / 2) for each in plan.faults)
    return replace(plan, faults=halved, faults_end_s=plan.faults_end_s / 2, quiet_s=5.0)
