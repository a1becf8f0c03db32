"""Sizes that keep a file, a function and a package readable in one sitting."""

from __future__ import annotations

import ast

import pytest

from tools.source import ROOT, Module, files, modules

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 6
MODULES_MAX = 15
CODE = ("src", "tests", "tools")

# package: how many modules it may have, and why
LARGE_PACKAGES = {
    "src/corral/cli": (
        40,
        "one file for each noun of the command line (backends and models have two), beside the shapes that they share",
    ),
    "src/corral/serving": (17, "one file for each part of a request on its way"),
    "src/corral/wire": (20, "one file for each noun of the API, as it is sent"),
    "src/corral/store": (28, "one file for each noun of the registry, beside the tables and transactions"),
    "src/corral/embedded": (20, "one file for each part of `corral up`; none of them is used by anything else"),
    "src/corral/worker": (20, "one file for each part of being a node; the work itself is in packages of its own"),
    "src/corral/worker/hardware": (
        20,
        "one file for each vendor and each kind of reading, each with its own recordings",
    ),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _all_code() -> list[Module]:
    return [module for folder in CODE for module in modules(folder)]


def _functions(module: Module) -> list[tuple[str, Function]]:
    return [
        (f"{module.path}::{node.name}", node)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_no_file_is_longer_than_600_lines() -> None:
    paths = [path for folder in CODE for path in files(".py", under=folder)]
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert {path: count for path, count in lines.items() if count > FILE_LINES_MAX} == {}


def test_no_function_is_longer_than_70_lines() -> None:
    lengths = {
        name: (node.end_lineno or node.lineno) - node.lineno + 1
        for module in _all_code()
        for name, node in _functions(module)
    }
    assert {name: length for name, length in lengths.items() if length > FUNCTION_LINES_MAX} == {}


def test_no_function_takes_more_than_six_parameters() -> None:
    """Commands of the command line are let off: their parameters are their flags."""
    too_many = {
        name: count
        for folder in ("src", "tools")
        for module in modules(folder)
        if not module.path.startswith("src/corral/cli/")
        for name, node in _functions(module)
        if (count := _parameters(node)) > PARAMETERS_MAX
    }
    assert too_many == {}


def _parameters(function: Function) -> int:
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def test_no_package_has_more_modules_than_it_may() -> None:
    counts: dict[str, int] = {}
    for path in files(".py", under="src"):
        package = path.parent.relative_to(ROOT).as_posix()
        counts[package] = counts.get(package, 0) + (path.name != "__init__.py")
    allowed = {package: LARGE_PACKAGES.get(package, (MODULES_MAX, ""))[0] for package in counts}
    assert {package: count for package, count in counts.items() if count > allowed[package]} == {}


@pytest.mark.parametrize("package", sorted(LARGE_PACKAGES))
def test_an_exception_for_a_package_is_still_needed(package: str) -> None:
    count = len([path for path in (ROOT / package).glob("*.py") if path.name != "__init__.py"])
    assert count > MODULES_MAX, f"{package} has {count} modules and needs no exception"
