"""The options of the folder: how many seeds, which one, and what a failure says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAILS_ON_THREE = """
def test_a_made_up_failure(seed):
    assert seed != 3
"""
FOUND_THREE = """
import pytest

@pytest.mark.seeds(1, found=(3,))
def test_a_made_up_failure(seed):
    assert seed != 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "simulation" / "conftest.py").read_text())
    (tmp_path / "test_made_up.py").write_text(FAILS_ON_THREE)
    return tmp_path


def _pytest(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={folder}", str(folder)]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout


def test_failing_seed_says_how_to_replay_it(folder: Path):
    shown = _pytest(folder, "--seeds=5")
    assert "1 failed, 4 passed" in shown
    assert "test_made_up.py::test_a_made_up_failure' --seed=3" in shown


def test_seed_that_found_a_defect_runs_with_any_number_of_seeds(folder: Path):
    (folder / "test_made_up.py").write_text(FOUND_THREE)
    assert "1 failed, 1 passed" in _pytest(folder)
    assert "1 failed, 2 passed" in _pytest(folder, "--seeds=2")
    assert "1 failed, 4 passed" in _pytest(folder, "--seeds=5")


def test_simulation_runs_a_single_seed(folder: Path):
    assert "1 failed" in _pytest(folder, "--seed=3")
    assert "1 passed" in _pytest(folder, "--seed=4")
