"""Sizes that keep a file and a function readable in one sitting."""

from __future__ import annotations

import ast

from tools.source import ROOT, SourceModule, iter_modules, list_files

FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 6
CODE = ("src", "tests", "tools")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _all_code() -> list[SourceModule]:
    return [module for folder in CODE for module in iter_modules(folder)]


def _functions(module: SourceModule) -> list[tuple[str, Function]]:
    return [
        (f"{module.path}::{node.name}", node)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_no_file_is_longer_than_700_lines() -> None:
    paths = [path for folder in CODE for path in list_files(".py", under=folder)]
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
        for module in iter_modules(folder)
        if not module.path.startswith("src/corral/cli/")
        for name, node in _functions(module)
        if (count := _parameters(node)) > PARAMETERS_MAX
    }
    assert too_many == {}


def _parameters(function: Function) -> int:
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])
