"""Selects the tests that a change touches, for `make test SINCE=main`: the nearest tests of every changed file.

A changed test is run. A changed module of the product or of the tests' own helpers selects the test modules that import
it, directly or through helpers in `tests/`; it does not follow imports inside the product, where nearly everything
reaches everything. A changed page selects the tests of the page. The tidy tests are always run. So a green run is a
hint and not a proof: `make test` runs everything.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from tools.source import ROOT, SourceModule, iter_modules

ALWAYS = "tests/tidy"
PAGE_TESTS = "tests/page"
PAGE_SOURCES = ("ui/", "src/corral/api/page/")


def list_changed(revision: str) -> list[str]:
    """Return the files that differ from the common base with a revision, and those that git does not track yet."""
    changed = _run_git("diff", "--name-only", "--merge-base", revision).splitlines()
    return sorted({*changed, *_run_git("ls-files", "--others", "--exclude-standard").splitlines()})


def select_tests(changed: Iterable[str], modules: Iterable[SourceModule]) -> list[str]:
    """Return what pytest has to run for these changed files: test modules and folders, in order."""
    imports = {module.path: set(_list_imports(module)) for module in modules}
    selected = {ALWAYS}
    for path in changed:
        if path.startswith(PAGE_SOURCES):
            selected.add(PAGE_TESTS)
        if path.endswith(".py"):
            selected.update(_find_near_tests(path, imports))
    return sorted(selected)


def _find_near_tests(path: str, imports: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield the test modules that are or import the file. A conftest.py selects its folder."""
    reached, waiting = {path}, [path]
    while waiting:
        name = _get_module_name(waiting.pop())
        for importer, imported in imports.items():
            if importer not in reached and name in imported:
                reached.add(importer)
                waiting.append(importer)
    for found in reached:
        if found.startswith("tests/"):
            file = PurePosixPath(found)
            if file.name == "conftest.py":
                yield file.parent.as_posix()
            elif file.name.startswith("test_") and found in imports:
                yield found


def _list_imports(module: SourceModule) -> Iterator[str]:
    """Yield each dotted name that the module imports: `from a import b` is both `a` and `a.b`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def _get_module_name(path: str) -> str:
    return ".".join(PurePosixPath(path).with_suffix("").parts).removeprefix("src.").removesuffix(".__init__")


def list_touched_tests(revision: str) -> list[str]:
    """Return what pytest has to run for all that has changed since a revision."""
    return select_tests(list_changed(revision), iter_modules("tests"))


def _run_git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout
