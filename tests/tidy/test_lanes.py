"""The run of all tests: lanes are summed up, and a test that hangs is named instead of holding up the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import test_lanes
from tools.source import ROOT
from tools.test_lanes import Suite, main

HANGS_IN_A_FIXTURE = """
import threading
import pytest

@pytest.fixture
def program():
    yield
    threading.Event().wait()

@pytest.mark.timeout(1)
def test_of_a_program(program):
    threading.Event().wait()
"""


def _make_suite(folder: Path, name: str, body: str) -> Suite:
    file = folder / f"test_{name}.py"
    file.write_text(body)
    return Suite(name, ("-p", "no:randomly", "-p", "no:cacheprovider", "--rootdir", str(folder), str(file)))


@pytest.fixture
def lanes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = _make_suite(tmp_path, "one", "def test_a(): pass\ndef test_b(): pass\n")
    two = _make_suite(tmp_path, "two", "def test_c(): assert False\n")
    monkeypatch.setattr(test_lanes, "LANES", ((one,), (two,)))


def test_run_of_lanes_fails_and_counts_every_test_once_when_one_suite_fails(
    lanes: None, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 1
    printed = capfd.readouterr().out
    assert printed.splitlines()[-1] == "2 passed, 1 failed, 0 skipped"
    assert "two        | FAILED (exit code 1): 1 failed" in printed


def test_run_of_lanes_names_the_failed_tests_of_every_suite_in_its_last_lines(
    lanes: None, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 1
    *_, failure, summary, _ = capfd.readouterr().out.splitlines()
    assert failure.startswith("two        | FAILED ")
    assert "::test_c" in failure
    assert summary == "two        | FAILED (exit code 1): 1 failed"


def test_run_of_lanes_is_green_when_the_selected_tests_are_and_a_suite_has_none(lanes: None) -> None:
    assert main(["-k", "test_a"]) == 0


def test_run_of_lanes_fails_when_no_test_was_selected(lanes: None) -> None:
    assert main(["-k", "nothing_is_called_so"]) == 1


def test_test_that_hangs_after_its_timeout_is_named_and_ends_its_process(tmp_path: Path) -> None:
    suite = _make_suite(tmp_path, "hangs", HANGS_IN_A_FIXTURE)
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.watchdog", "-n", "1", "-o", "timeout=1"]
    ended = subprocess.run([*command, *suite.arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "crashed while running" in ended.stdout
    assert "test_of_a_program" in ended.stdout
    assert "in program" in ended.stderr
