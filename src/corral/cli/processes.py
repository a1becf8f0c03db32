"""`corral serve` and `corral worker`: settings from flags, then the process itself, imported only here and now."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import structlog

from corral.app.settings import FrontendSettings, Loaded, WorkerSettings
from corral.cli.command import pause_collection
from corral.cli.flags import settings_command
from corral.domain.errors import INSTALL_HINT, InvalidRequest

# A worker has no extras.
_WORKER_HINT = "Install the worker again: GET /join of a frontend is the script for it."


def _begin(module: str, function: str, loaded: Loaded[Any], extra: str | None) -> Callable[[Any], int]:
    """What runs the process. Its warnings are told before it is imported."""
    from corral.app.logs import configure_logging

    settings = loaded.settings
    configure_logging(settings.log_format, settings.log_level)
    log = structlog.get_logger("corral.settings")
    for warning in loaded.warnings:
        log.warning(warning)
    run: Callable[[Any], int] = getattr(_import(module, extra), function)
    return run


def _import(module: str, extra: str | None) -> Any:
    try:
        with pause_collection():
            return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "corral":
            raise
        raise InvalidRequest(
            f"{error.name} is not installed, and this command needs it.",
            hint=INSTALL_HINT.format(extra=extra) if extra else _WORKER_HINT,
        ) from error


def _run_frontend(loaded: Loaded[FrontendSettings]) -> int:
    if loaded.settings.processes > 1:
        return _begin("corral.app.listening.processes", "run_processes", loaded, "frontend")(loaded.settings)
    # A frontend tells admins where each of its settings came from.
    return _begin("corral.app.frontend", "run_frontend", loaded, "frontend")(loaded)


def _run_worker(loaded: Loaded[WorkerSettings]) -> int:
    return _begin("corral.app.worker", "run_worker", loaded, None)(loaded.settings)


serve = settings_command(
    FrontendSettings,
    _run_frontend,
    help_text="Run one frontend, on a PostgreSQL and a NATS that are there already.",
)
worker = settings_command(
    WorkerSettings,
    _run_worker,
    help_text="Run the worker of this machine and join a cluster.",
)
