"""The table of lessons: every row names tests, every test that it names exists; some lessons are seen in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tools.source import ROOT, SourceModule, iter_modules

PAGE = ROOT / "docs/explanation/lessons.md"
_TEST = re.compile(r"`(tests/[\w/]+\.py::test_\w+)`")
_COLUMNS = 3
# Subjects by which a worker is told to change its backends.
_CHANGES = {"BACKEND_INSTALL", "BACKEND_UPGRADE", "BACKEND_DELETE", "BACKEND_ROLLBACK"}


def _rows(text: str) -> Iterator[tuple[str, ...]]:
    """The cells of every row of every table, without headings and rulers."""
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        for line in lines[2:]:
            yield tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|")))


def _tests() -> set[str]:
    return {
        f"{module.path}::{node.name}"
        for module in iter_modules("tests")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_lesson_says_what_went_wrong_what_prevents_it_and_which_test_shows_it() -> None:
    rows = list(_rows(PAGE.read_text(encoding="utf-8")))
    assert rows
    incomplete = [row for row in rows if len(row) != _COLUMNS or not all(row) or not _TEST.search(row[-1])]
    assert incomplete == []


def test_every_test_that_a_lesson_names_exists() -> None:
    named = set(_TEST.findall(PAGE.read_text(encoding="utf-8")))
    assert named - _tests() == set()


def test_last_column_of_a_lesson_names_only_tests() -> None:
    """A name with a mistake in its form would otherwise not be looked for."""
    left = {_TEST.sub("", row[-1]).replace("<br>", "").strip() for row in _rows(PAGE.read_text(encoding="utf-8"))}
    assert left == {""}


def _subjects(module: SourceModule) -> set[str]:
    """Names of the registry of subjects that a module takes from it, one by one or through the module."""
    taken: set[str] = set()
    for node in ast.walk(module.tree):
        match node:
            case ast.ImportFrom(module="corral.bus.subjects", names=names):
                taken |= {one.name for one in names}
            case ast.Attribute(value=ast.Name(id="subjects"), attr=name):
                taken.add(name)
    return taken


def test_backend_commands_are_sent_to_workers_from_one_module_only() -> None:
    """Two ways to send the same command had two opinions of its failures."""
    own = ("src/corral/bus/", "src/corral/worker/")
    senders = {
        module.path
        for module in iter_modules("src/corral")
        if not module.path.startswith(own) and _CHANGES & _subjects(module)
    }
    assert senders == {"src/corral/operations/command_sender.py"}
