"""Rules about the source that no linter of ours knows."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

import pytest

from tools.source import ROOT, SourceModule, iter_modules, list_files

BLIND = frozenset({"Exception", "BaseException"})
# The only file that may catch everything and go on.
GUARD = "src/corral/runtime/attempt.py"
# Programs that run in an engine's own environment: they cannot import the guard.
LAUNCHERS = "src/corral/engines/launchers/"
# Waiting for the real world is done in one place. The simulator is about sleeping itself, and the stand-in programs
# are no tests: they live until they are stopped.
MAY_SLEEP = ("tests/support/polling.py", "tests/simulation/", "tests/embedded/programs/")
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def _handlers(module: SourceModule) -> Iterator[tuple[str, ast.ExceptHandler]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler):
            yield f"{module.path}:{node.lineno}", node


def _caught(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(kind) for kind in kinds}


def _raises_again(handler: ast.ExceptHandler) -> bool:
    """Its last statement is a bare `raise`: whatever came goes on."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_blind_except_stands_only_in_the_guard() -> None:
    blind = [
        place
        for module in iter_modules("src")
        if module.path != GUARD and not module.path.startswith(LAUNCHERS)
        for place, handler in _handlers(module)
        if _caught(handler) & BLIND and not _raises_again(handler)
    ]
    assert blind == []


def test_except_exception_stands_only_in_cleanup_that_raises_again() -> None:
    """`except BaseException: …; raise` is cleanup; `except Exception` belongs to the guard even then."""
    caught = [
        place
        for module in iter_modules("src")
        if module.path != GUARD and not module.path.startswith(LAUNCHERS)
        for place, handler in _handlers(module)
        if "Exception" in _caught(handler)
    ]
    assert caught == []


def test_cancellation_is_never_swallowed() -> None:
    """A handler that names CancelledError raises, whatever else it does."""
    swallowed = [
        place
        for module in iter_modules("src")
        for place, handler in _handlers(module)
        if {"asyncio.CancelledError", "CancelledError"} & _caught(handler)
        and not any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    ]
    assert swallowed == []


def test_http_session_keeps_no_cookies_unless_it_serves_one_party() -> None:
    """A session of aiohttp keeps cookies by default, and sends those of one user with the requests of the next."""
    keeping = [
        module.path
        for module in iter_modules("src")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("ClientSession")
        and "aiohttp.DummyCookieJar()" not in {ast.unparse(keyword.value) for keyword in node.keywords}
    ]
    # The person of a command line, and the engines of this worker.
    assert sorted(keeping) == ["src/corral/client/transport.py", "src/corral/worker/processes/engine_health.py"]


@pytest.mark.parametrize("package", ["domain", "policy", "bus"])
def test_nouns_and_decisions_need_the_standard_library_only(package: str) -> None:
    """Two exceptions: the codec of the bus decodes with pydantic, and templates of users are parsed by Jinja."""
    foreign = {
        (module.path, name)
        for module in iter_modules(f"src/corral/{package}")
        for name in _imported(module)
        if name not in sys.stdlib_module_names | {"corral"}
    }
    known = {("src/corral/bus/codec.py", "pydantic"), ("src/corral/policy/template_language.py", "jinja2")}
    assert foreign - known == set()


def _imported(module: SourceModule) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def test_no_test_waits_for_a_child_that_it_may_have_left_running() -> None:
    """`with subprocess.Popen(…)` waits without a limit when its block raises; `start_child` kills it first."""
    waiting = [
        f"{module.path}:{node.lineno}"
        for module in iter_modules("tests")
        if module.path != "tests/support/children.py"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.context_expr, ast.Call) and ast.unparse(item.context_expr.func).endswith("Popen")
    ]
    assert waiting == []


def test_no_test_sleeps() -> None:
    sleeping = [
        f"{module.path}:{call.lineno}"
        for module in iter_modules("tests")
        if not module.path.startswith(MAY_SLEEP)
        for call in ast.walk(module.tree)
        if isinstance(call, ast.Call) and _is_real_sleep(module, call) and _is_a_wait(call)
    ]
    assert sleeping == []


def _is_real_sleep(module: SourceModule, call: ast.Call) -> bool:
    """Whether the call sleeps in real time, also through a `SystemClock` that has a name in this module."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "sleep"):
        return False
    function = ast.unparse(call.func)
    if function in ("time.sleep", "asyncio.sleep", "SystemClock().sleep"):
        return True
    clocks = {
        ast.unparse(target)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "SystemClock()"
        for target in node.targets
    }
    return function in {f"{clock}.sleep" for clock in clocks}


def _is_a_wait(call: ast.Call) -> bool:
    """`asyncio.sleep(0)` lets others run and waits for nothing."""
    return not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)


def test_every_package_says_what_it_is_for() -> None:
    folders = {path.parent for path in list_files(".py", under="src/corral")}
    # Alembic loads its scripts by path, and launchers are programs; they are no packages.
    packages = {folder for folder in folders if not {"migrations", "launchers"} & set(folder.parts)}
    silent = [
        folder.relative_to(ROOT).as_posix()
        for folder in sorted(packages)
        if not (folder / "__init__.py").exists()
        or not ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [module.path for module in iter_modules("src") if not ast.get_docstring(module.tree)]
    assert silent == []


@pytest.mark.parametrize("folder", ["src", "tools"])
def test_source_holds_no_todo(folder: str) -> None:
    left = [
        f"{path.relative_to(ROOT).as_posix()}:{number}"
        for path in list_files(".py", under=folder)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if LEFTOVER.search(line)
    ]
    assert left == []


def test_every_silenced_warning_says_why() -> None:
    """`# noqa: S311` alone tells the next reader nothing."""
    silent = [
        f"{path.relative_to(ROOT).as_posix()}:{number}"
        for folder in ("src", "tools")
        for path in list_files(".py", under=folder)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(r"# noqa(: [A-Z0-9, ]+)?\s*$", line)
    ]
    assert silent == []
