"""`corral serve` and `corral worker`: read the settings, then import and run the process.

The flags of both commands are made from the model of the settings. Each flag names its variable in the help. Typer does
not read the variables itself: the loader does, once, and can then report for every value where it came from.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from corral.app.settings import (
    FrontendSettings,
    LoadedSettings,
    ProcessSettings,
    SettingDoc,
    WorkerSettings,
    describe_settings,
    load_settings,
)
from corral.cli.command import pause_garbage_collection
from corral.domain.errors import INSTALL_HINT, InvalidRequest
from corral.runtime.hidden_modules import hide_modules

# structlog would import rich, and rich attrs, for tracebacks that `app/logs.py` prints plainly: 6 MB of every process.
with hide_modules("rich.console", "rich.pretty"):
    import structlog

# What `corral worker` imports is in no extra, so its hint is another one.
_WORKER_HINT = "Install the worker again: GET /join of a frontend is the script for it."
S = TypeVar("S", bound=ProcessSettings)
# Shorter spellings of flags that people type by hand.
_SHORT_FLAGS = {"--node-type": "--type"}
_METAVAR = {
    "duration": "DURATION",
    "number": "NUMBER",
    "size": "SIZE",
    "path": "PATH",
    "labels": "LABELS",
    "secret": "SECRET",
}


def _import_runner(module: str, function: str, loaded: LoadedSettings[Any], extra: str | None) -> Callable[[Any], int]:
    """Print the warnings of the settings, then import and return the function that runs the process."""
    from corral.app.logs import configure_logging

    settings = loaded.settings
    configure_logging(settings.log_format, settings.log_level)
    log = structlog.get_logger("corral.settings")
    for warning in loaded.warnings:
        log.warning(warning)
    run: Callable[[Any], int] = getattr(_import_module(module, extra), function)
    return run


def _import_module(module: str, extra: str | None) -> Any:
    try:
        with pause_garbage_collection():
            return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "corral":
            raise
        raise InvalidRequest(
            f"{error.name} is not installed, but this command needs it.",
            hint=INSTALL_HINT.format(extra=extra) if extra else _WORKER_HINT,
        ) from error


def _run_frontend(loaded: LoadedSettings[FrontendSettings]) -> int:
    if loaded.settings.processes > 1:
        return _import_runner("corral.app.process_group", "run_processes", loaded, "frontend")(loaded.settings)
    # A frontend shows admins where each of its settings came from.
    return _import_runner("corral.app.frontend", "run_frontend", loaded, "frontend")(loaded)


def _run_worker(loaded: LoadedSettings[WorkerSettings]) -> int:
    return _import_runner("corral.app.worker", "run_worker", loaded, None)(loaded.settings)


def make_settings_command(
    model: type[S], run: Callable[[LoadedSettings[S]], int], *, help_text: str
) -> Callable[..., None]:
    """Return a command that takes every setting of `model` as a flag, and --config."""

    def command(**given: Any) -> None:
        config = given.pop("config")
        raise typer.Exit(run(load_settings(model, flags=given, config=config)))

    command.__name__ = model.process
    command.__doc__ = help_text
    command.__annotations__ = {}
    command.__signature__ = inspect.Signature(list(_iter_parameters(model)))  # type: ignore[attr-defined]
    return command


def _iter_parameters(model: type[ProcessSettings]) -> Iterator[inspect.Parameter]:
    config = typer.Option("--config", metavar="PATH", help="TOML file with settings. [env: CORRAL_CONFIG]")
    yield _make_parameter("config", Annotated[Path | None, config])
    for doc in describe_settings(model):
        yield _make_parameter(doc.key, _make_annotation(doc))
        if doc.file_environment:
            text = f"File that contains the value. [env: {doc.file_environment}]"
            option = typer.Option(f"{doc.flag}-file", metavar="PATH", help=text)
            yield _make_parameter(f"{doc.key}_file", Annotated[str | None, option])


def _make_parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None)


def _make_annotation(doc: SettingDoc) -> Any:
    text = f"{doc.description} [env: {doc.environment}]"
    if doc.required:
        text += " [required]"
    elif doc.default is not None:
        text += f" [default: {doc.default}]"
    if doc.is_switch:
        return Annotated[bool | None, typer.Option(f"{doc.flag}/--no{doc.flag[1:]}", help=text)]
    metavar = _METAVAR.get(doc.kind) or ("|".join(doc.kind.split(" or ")) if " or " in doc.kind else "TEXT")
    flags = [doc.flag, _SHORT_FLAGS[doc.flag]] if doc.flag in _SHORT_FLAGS else [doc.flag]
    return Annotated[str | None, typer.Option(*flags, metavar=metavar, help=text)]


serve = make_settings_command(
    FrontendSettings,
    _run_frontend,
    help_text="Run one frontend, with a PostgreSQL and a NATS that already run.",
)
worker = make_settings_command(
    WorkerSettings,
    _run_worker,
    help_text="Run the worker of this machine and join a cluster.",
)
