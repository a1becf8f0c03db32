"""What a frontend and a command import at their start: unused libraries cost time and memory in every process."""

from __future__ import annotations

import subprocess
import sys

import pytest


def _list_imported(statement: str, names: set[str]) -> list[str]:
    look = f"import sys\n{statement}\nprint(*sorted({names!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    return done.stdout.split()


# Libraries and parts of Corral that a frontend uses at a certain request, at its first start, or never. What it uses
# and cannot leave out is not on this list: FastAPI imports pydantic.v1 and OpenTelemetry, and
# `sqlalchemy.ext.asyncio` imports SQLAlchemy's ORM (6 MB), because the package has no part without it.
_UNUSED_BY_IDLE_FRONTEND = {
    *("aiohttp", "alembic", "attr", "botocore", "httpx", "huggingface_hub", "jinja2", "jsonschema", "mako", "markdown"),
    *("mcp", "psutil", "pydantic_ai", "pygments", "rich.console", "rich.pretty"),
    *("corral.adapters.traces", "corral.client", "corral.embedded", "corral.mcp_server", "corral.runner"),
    *("corral.app.worker", "corral.worker.membership", "corral.policy.template_language"),
}


def test_frontend_starts_without_modules_that_it_uses_later_or_never() -> None:
    statement = "import corral.cli.main, corral.cli.processes, corral.app.frontend"
    assert _list_imported(statement, _UNUSED_BY_IDLE_FRONTEND) == []


@pytest.mark.parametrize(
    "module",
    ["app.frontend", "app.worker", "app.up", "cli.main", "cli.nodes", "cli.mcp_server", "mcp_server.catalog"],
)
def test_mcp_library_is_imported_at_its_first_use_only(module: str) -> None:
    assert _list_imported(f"import corral.{module}", {"mcp"}) == []
    assert _list_imported("import corral.mcp_server.server", {"mcp"}) == ["mcp"]


@pytest.mark.parametrize(
    ("library", "dependency"),
    [
        ("nats.aio.client", "aiohttp"),
        ("structlog", "rich.console"),
        ("structlog", "rich.pretty"),
        ("alembic.command", "mako.ext.pygmentplugin"),
    ],
    ids=["nats-py", "structlog's console", "structlog's tracebacks", "alembic"],
)
def test_library_imports_its_optional_dependency_unless_it_is_hidden(library: str, dependency: str) -> None:
    # If this fails, the library has become lazy itself: import it plainly, without `hide_modules`.
    assert _list_imported(f"import {library}", {dependency}) == [dependency]


def test_hidden_module_can_be_imported_afterwards() -> None:
    assert _list_imported("import corral.adapters.nats.nats_py\nimport aiohttp", {"aiohttp"}) == ["aiohttp"]


def test_module_that_was_imported_before_stays_visible() -> None:
    statement = "import aiohttp\nimport corral.adapters.nats.nats_py\nfrom nats.aio import transport"
    assert _list_imported(f"{statement}\nassert transport.aiohttp is aiohttp", {"aiohttp"}) == ["aiohttp"]


def test_migration_imports_no_lexers() -> None:
    # The migration itself fails at once, without a connection; its imports have run by then.
    statement = "from contextlib import suppress\nfrom corral.store.migrate import _upgrade\n"
    statement += "with suppress(Exception): _upgrade(None)"
    assert _list_imported(statement, {"alembic.command", "pygments"}) == ["alembic.command"]
