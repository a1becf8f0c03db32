"""Changes the product on purpose and looks whether a test notices: `python -m tools.mutants [--count 200] [--seed 1]`.

A mutant is one comparison, condition or arithmetic operator that was replaced by its opposite or neighbour. A seeded
sample of them is drawn from the decisions, the store and the request path. Each is written into a copy of the tree, and
the test modules that import the changed file run there until one fails. A mutant that no test notices survives; read
each survivor: it is a missing test, or a change that makes no difference. The working tree is never changed.
"""

from __future__ import annotations

import argparse
import ast
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.source import ROOT, iter_modules
from tools.touched_tests import ALWAYS, select_tests

FOLDERS = ("src/corral/policy", "src/corral/store", "src/corral/gateway")
SKIPPED = "/migrations/"
# Whatever takes this long with a mutant hangs, and a hang is noticed.
RUN_LIMIT_S = 600.0
COPIED = ("src", "tests", "tools", "bench", "docs", "pyproject.toml")

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
}


@dataclass(frozen=True)
class Mutant:
    """Describes one change of a source file: the characters from `start` to `end` become `replacement`."""

    path: str
    line: int
    start: int
    end: int
    original: str
    replacement: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.replacement + text[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.original!r} became {self.replacement!r}"


def list_mutants(path: str, text: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of the text."""
    lines = _LineIndex(text)
    found = [
        Mutant(path, node.lineno, start, end, text[start:end], replacement)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.expr)
        for start, end, replacement in _list_changes(node, text, lines)
    ]
    return sorted(found, key=lambda mutant: (mutant.start, mutant.end))


def _list_changes(node: ast.expr, text: str, lines: _LineIndex) -> Iterator[tuple[int, int, str]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and (new := _COMPARISONS.get(type(node.ops[0]))):
        yield *_find_operator(text, lines.end(node.left), lines.start(node.comparators[0])), new
    elif isinstance(node, ast.BinOp) and (sign := _ARITHMETIC.get(type(node.op))) and _is_number_like(node):
        yield *_find_operator(text, lines.end(node.left), lines.start(node.right)), sign
    elif isinstance(node, ast.BoolOp):
        new = "or" if isinstance(node.op, ast.And) else "and"
        yield *_find_operator(text, lines.end(node.values[0]), lines.start(node.values[1])), new
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        start = lines.start(node)
        yield start, start + len("not "), ""
    elif isinstance(node, ast.IfExp):
        start, end = lines.start(node.test), lines.end(node.test)
        yield start, end, f"(not ({text[start:end]}))"


def _is_number_like(node: ast.BinOp) -> bool:
    """Whether the operands may be numbers: texts, lists and f-strings know `+` only, and fail at once without it."""
    texts = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict)
    return not any(
        isinstance(side, texts) or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in (node.left, node.right)
    )


def _find_operator(text: str, start: int, end: int) -> tuple[int, int]:
    """Return where the operator stands between two operands, without brackets, blanks and line ends around it."""
    between = text[start:end]
    operator = between.strip("() \n\t\\")
    at = start + between.index(operator)
    return at, at + len(operator)


class _LineIndex:
    """Turns the positions of a syntax tree (line, byte of the line) into positions in the text."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def start(self, node: ast.expr) -> int:
        return self._find(node.lineno, node.col_offset)

    def end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None, "a parsed expression has an end"
        assert node.end_col_offset is not None, "a parsed expression has an end"
        return self._find(node.end_lineno, node.end_col_offset)

    def _find(self, line: int, column: int) -> int:
        encoded = self._lines[line - 1].encode()
        return self._starts[line - 1] + len(encoded[:column].decode())


def draw_sample(count: int, seed: int) -> list[Mutant]:
    """Draw mutants at random, the same ones for the same tree and seed. Those that are no Python are left out."""
    every = [
        mutant
        for folder in FOLDERS
        for module in iter_modules(folder)
        if SKIPPED not in module.path
        for mutant in list_mutants(module.path, (ROOT / module.path).read_text(encoding="utf-8"))
    ]
    random.Random(seed).shuffle(every)
    usable = (mutant for mutant in every if _is_python(mutant))
    return [mutant for _, mutant in zip(range(count), usable, strict=False)]


def _is_python(mutant: Mutant) -> bool:
    try:
        ast.parse(mutant.apply((ROOT / mutant.path).read_text(encoding="utf-8")))
    except SyntaxError:
        return False
    return True


def find_tests(mutant: Mutant) -> list[str]:
    """Return the test modules that import the changed file; the tidy tests judge style and notice nothing."""
    return [test for test in select_tests([mutant.path], iter_modules("tests")) if test != ALWAYS]


def is_caught(mutant: Mutant, tree: Path) -> bool:
    """Run the nearest tests on a copy of the tree with the mutant in it."""
    tests = find_tests(mutant)
    if not tests:
        return False
    file = tree / mutant.path
    original = file.read_text(encoding="utf-8")
    file.write_text(mutant.apply(original), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-n", "2", *tests]
    try:
        return subprocess.run(command, cwd=tree, capture_output=True, timeout=RUN_LIMIT_S, check=False).returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(original, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Run the sample and print each survivor; the exit code is 1 if a smaller share than required was caught."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="how many mutants to draw")
    parser.add_argument("--seed", type=int, default=1, help="which sample to draw")
    parser.add_argument("--share", type=float, default=0.9, help="the share that has to be caught")
    options = parser.parse_args(arguments)
    sample, survivors = draw_sample(options.count, options.seed), []
    with tempfile.TemporaryDirectory(prefix="corral-mutants-") as folder:
        tree = Path(folder)
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, tree / name)
        for number, mutant in enumerate(sample, start=1):
            caught = is_caught(mutant, tree)
            print(f"{number}/{len(sample)} {'caught' if caught else 'SURVIVED'} {mutant}", flush=True)
            survivors += [] if caught else [mutant]
    print(f"{len(sample) - len(survivors)} of {len(sample)} mutants were caught")
    return 0 if len(sample) - len(survivors) >= options.share * len(sample) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
