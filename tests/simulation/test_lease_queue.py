"""The proof that the simulator is worth its trouble: it finds a known bug on the real database, and only that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.simulation.lease_queue import run_queue

ROOT = Path(__file__).parents[2]


def test_job_without_a_fence_is_finished_twice_on_some_seed(postgres: str):
    assert any(run_queue(postgres, seed, fenced=False).most_finishes > 1 for seed in range(50))


def test_job_with_a_fence_is_finished_once(postgres: str, seed: int):
    assert run_queue(postgres, seed, fenced=True).most_finishes == 1


def test_run_on_the_real_database_repeats_itself(postgres: str, seed: int):
    assert run_queue(postgres, seed, fenced=True).digest == run_queue(postgres, seed, fenced=True).digest


def test_run_on_the_real_database_repeats_itself_in_another_process(postgres: str):
    command = ["env", "PYTHONHASHSEED=77", sys.executable, "-m", "tests.simulation.lease_queue", postgres, "0", "1"]
    other = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert other.stdout.split() == [run_queue(postgres, seed, fenced=True).digest for seed in range(2)]
