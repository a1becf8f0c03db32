"""What is installed is exactly what was locked, from wherever the user's own index is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.lock import SOURCES, WORKER, find_addresses
from tools.source import ROOT

RUN, DEV = "requirements/run.txt", "requirements/dev.txt"
_PINNED = re.compile(r"[a-z0-9][a-z0-9._-]*(\[[a-z0-9,_-]+\])?==\S+( ; .+)?")


def _entries(path: Path) -> list[str]:
    """One entry for each requirement, its continued lines joined."""
    joined = path.read_text(encoding="utf-8").replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_every_requirement_is_pinned_by_version_and_hash(name: str) -> None:
    entries = _entries(ROOT / name)
    loose = [
        entry
        for entry in entries
        if not _PINNED.fullmatch(entry.partition("--hash=")[0].strip()) or "--hash=sha256:" not in entry
    ]
    assert entries
    assert loose == []


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_no_requirement_file_names_an_address(name: str) -> None:
    assert find_addresses((ROOT / name).read_text(encoding="utf-8")) == []


def test_address_in_a_requirement_file_is_noticed() -> None:
    assert find_addresses("--index-url https://index.example/simple\nuv==1.0\n")
    assert find_addresses("thing @ file:///somewhere/thing.whl\n")


def test_development_requirements_do_not_contradict_runtime_requirements() -> None:
    """One environment holds both."""
    versions = [
        {entry.split("==")[0]: entry.split()[0] for entry in _entries(ROOT / name) if " ; " not in entry}
        for name in (RUN, DEV)
    ]
    run, dev = versions
    assert {name: (run[name], dev[name]) for name in run.keys() & dev.keys() if run[name] != dev[name]} == {}


def test_worker_requirements_are_a_part_of_what_runs_with_the_same_versions() -> None:
    # Without the markers, which say less where more extras need a package.
    run, worker = ({entry.split()[0] for entry in _entries(ROOT / name)} for name in (RUN, WORKER))
    assert worker
    assert worker - run == set()
