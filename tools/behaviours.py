"""Lists behaviours: each promise of `docs/behaviours/*.toml` with the tests that show it.

Guarantee: a promise without a test, a test that names an unknown promise, a promise that is written down twice and one
that takes a retired id (`docs/behaviours/retired.toml`) are refused. Limit: whether the test really shows the promise
is for the reviewer to judge. Tests are found by reading their syntax, so nothing has to be imported and nothing runs.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.markdown import format_page, format_table
from tools.source import ROOT, DocsProblem, SourceModule, get_literal_text, iter_modules

MARK = "pytest.mark.behaviour"
RETIRED = "retired.toml"
TITLES = {
    "api": "API",
    "backends_api": "Backends API",
    "bus": "The bus",
    "cli": "Command line",
    "mcp": "MCP tools",
    "page": "Web page",
    "placing": "Placement and scaling",
    "runtime": "Leader and migrations",
    "up": "`corral up`",
    "worker": "The worker",
}
_CHECKLISTS = (
    "Ids that begin with `NODE-` and `OPS-` keep the numbers of the project's checklists for nodes and for operations;"
    " the other areas are numbered by themselves."
)


@dataclass(slots=True)
class Behaviour:
    """A promise of the behaviour list, with the tests that show it."""

    id: str
    area: str
    sentence: str
    tests: list[str] = field(default_factory=list)


def render(root: Path = ROOT) -> str:
    areas: dict[str, list[Behaviour]] = defaultdict(list)
    for behaviour in collect(root):
        areas[behaviour.area].append(behaviour)
    blocks = [
        "What Corral promises its users, and the tests that check each promise. `make test` runs all of them.",
        _CHECKLISTS,
    ]
    for area, members in sorted(areas.items()):
        rows = [(f"`{one.id}`", one.sentence, "<br>".join(f"`{test}`" for test in one.tests)) for one in members]
        blocks += [
            f"## {TITLES.get(area, area.replace('-', ' ').capitalize())}",
            format_table(["id", "what holds", "shown by"], rows),
        ]
    return format_page("Behaviours", *blocks)


def collect(root: Path = ROOT) -> list[Behaviour]:
    """Return every behaviour with its tests, or raise `DocsProblem` with one sentence for each thing that is wrong."""
    known, problems = _read_promises(root)
    for test, behaviour_id in _marks(root):
        if behaviour_id in known:
            known[behaviour_id].tests.append(test)
        else:
            problems.append(f"{test} names the behaviour {behaviour_id}, which no file of docs/behaviours has.")
    problems += [f"{one.id} ({one.area}) has no test." for one in known.values() if not one.tests]
    if problems:
        raise DocsProblem(*problems)
    for one in known.values():
        one.tests = sorted(set(one.tests))
    return sorted(known.values(), key=lambda one: (one.area, _natural(one.id)))


def _read_promises(root: Path) -> tuple[dict[str, Behaviour], list[str]]:
    known: dict[str, Behaviour] = {}
    retired: list[str] = []
    problems = []
    for path in sorted((root / "docs/behaviours").glob("*.toml")):
        try:
            entries = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            problems.append(f"docs/behaviours/{path.name} cannot be read: {error}.")
            continue
        if path.name == RETIRED:
            retired += entries.get("retired", [])
            continue
        for behaviour_id, sentence in entries.items():
            if not isinstance(sentence, str):
                problems.append(f"docs/behaviours/{path.name}: {behaviour_id} is not a sentence.")
            elif behaviour_id in known:
                problems.append(f"{behaviour_id} is in {known[behaviour_id].area} and again in {path.stem}.")
            else:
                known[behaviour_id] = Behaviour(behaviour_id, path.stem, sentence)
    problems += [
        f"{behaviour_id} is retired (docs/behaviours/{RETIRED}): give the promise a new id."
        for behaviour_id in retired
        if behaviour_id in known
    ]
    problems += [f"{behaviour_id} is retired twice." for behaviour_id, n in Counter(retired).items() if n > 1]
    return known, problems


def _natural(text: str) -> tuple[str, int]:
    prefix, number = re.fullmatch(r"(.*?)(\d*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    return prefix, int(number or 0)


def _marks(root: Path) -> Iterator[tuple[str, str]]:
    """Yield pairs of a test and the id that it is marked with."""
    for module in iter_modules("tests", root):
        yield from _MarkReader(module).read()


class _MarkReader:
    """Finds the behaviour marks of one test file."""

    def __init__(self, module: SourceModule) -> None:
        self._module = module
        self._names = {MARK} | {
            target.id
            for node in module.tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.value) == MARK
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def read(self) -> Iterator[tuple[str, str]]:
        yield from self._body(self._module.tree.body, self._module.path)

    def _body(self, statements: list[ast.stmt], owner: str) -> Iterator[tuple[str, str]]:
        for statement in statements:
            match statement:
                case ast.ClassDef(name=name, body=body, decorator_list=decorators):
                    inner = f"{owner}::{name}"
                    yield from self._in(decorators, inner)
                    yield from self._body(body, inner)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield from self._in([statement], f"{owner}::{name}")
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr="pytestmark")]):
                    yield from self._in([statement], f"{owner}::{name}")
                case _:
                    yield from self._in([statement], owner)

    def _in(self, nodes: Sequence[ast.AST], owner: str) -> Iterator[tuple[str, str]]:
        for node in nodes:
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and ast.unparse(call.func) in self._names:
                    yield from self._ids(call, owner)

    def _ids(self, call: ast.Call, owner: str) -> Iterator[tuple[str, str]]:
        for argument in call.args:
            text = get_literal_text(argument)
            if text is None:
                raise DocsProblem(f"{owner} names its behaviour by an expression; write the id itself.")
            yield owner, text
