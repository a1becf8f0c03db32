"""What a frontend and a command import at their start: unused libraries cost time and memory in every process."""

from __future__ import annotations

import subprocess
import sys

import pytest


def _list_imported(statement: str, names: set[str]) -> list[str]:
    look = f"import sys\n{statement}\nprint(*sorted({names!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_frontend_starts_without_libraries_that_it_uses_later_or_never() -> None:
    unused = {"aiohttp", "alembic", "botocore", "psutil", "rich.console"}
    assert _list_imported("import corral.cli.main, corral.cli.processes, corral.app.frontend", unused) == []


@pytest.mark.parametrize(
    ("library", "dependency"),
    [("nats.aio.client", "aiohttp"), ("structlog", "rich.console")],
    ids=["nats-py", "structlog"],
)
def test_library_imports_its_optional_dependency_unless_it_is_hidden(library: str, dependency: str) -> None:
    # If this fails, the library has become lazy itself: import it plainly, without `hide_module`.
    assert _list_imported(f"import {library}", {dependency}) == [dependency]


def test_hidden_module_can_be_imported_afterwards() -> None:
    assert _list_imported("import corral.adapters.nats.nats_py\nimport aiohttp", {"aiohttp"}) == ["aiohttp"]


def test_module_that_was_imported_before_stays_visible() -> None:
    statement = "import aiohttp\nimport corral.adapters.nats.nats_py\nfrom nats.aio import transport"
    assert _list_imported(f"{statement}\nassert transport.aiohttp is aiohttp", {"aiohttp"}) == ["aiohttp"]
