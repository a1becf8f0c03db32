"""`corral config …`: check and show the settings of processes on this machine. Starts nothing.

Without a process, all that are set up here are checked: those with at least one required setting given.
"""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from corral.app.settings import (
    FrontendSettings,
    LoadedSettings,
    ProcessSettings,
    UpSettings,
    WorkerSettings,
    is_configured,
    load_settings,
    redact_settings,
)
from corral.cli import render
from corral.cli.command import JsonOption, make_group
from corral.domain.errors import CorralError

app = make_group("Settings of the processes on this machine: check them and show where each comes from.")
MODELS: tuple[type[ProcessSettings], ...] = (FrontendSettings, WorkerSettings, UpSettings)


class ConfigurableProcess(StrEnum):
    """Names the processes whose settings `corral config` can check and show."""

    FRONTEND = "frontend"
    WORKER = "worker"
    UP = "up"


ProcessArgument = Annotated[
    ConfigurableProcess | None,
    typer.Argument(
        metavar="[frontend|worker|up]", help="Process whose settings to check; without it, all that are set up here."
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="PATH", help="TOML file with settings. [env: CORRAL_CONFIG]")
]


@app.command("check")
def check(*, process: ProcessArgument = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check the settings more strictly than a start does: unknown variables are errors."""
    problems: list[dict[str, Any]] = []
    checked: list[str] = []
    for model in _choose_models(process, config):
        checked.append(model.process)
        try:
            load_settings(model, config=config, is_strict=True)
        except CorralError as error:
            found = error.details.get("problems")
            assert isinstance(found, list)
            problems += [{"process": model.process, **problem} for problem in found]
    problems = _drop_repeats(problems)
    if as_json:
        render.print_json({"checked": checked, "problems": problems})
    elif problems:
        _show_problems(problems)
    else:
        render.print_notice(f"The settings are valid: {', '.join(checked)}.")
    raise typer.Exit(1 if problems else 0)


@app.command("show")
def show(*, process: ProcessArgument = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show every setting and where it comes from. Secrets are masked."""
    shown: dict[str, Any] = {}
    for model in _choose_models(process, config):
        loaded: LoadedSettings[ProcessSettings] = load_settings(model, config=config)
        settings = redact_settings(loaded)
        shown[model.process] = [asdict(setting) for setting in settings]
        for warning in loaded.warnings:
            render.print_notice(f"warning: {warning}")
        if not as_json:
            rows = [[item.key, item.value or render.NONE, item.origin, item.environment] for item in settings]
            render.print_data(
                f"[{model.process}]\n{render.format_table(('SETTING', 'VALUE', 'FROM', 'VARIABLE'), rows)}"
            )
    if as_json:
        render.print_json(shown)


def _choose_models(process: ConfigurableProcess | None, config: Path | None) -> list[type[ProcessSettings]]:
    if process is not None:
        return [model for model in MODELS if model.process == process]
    chosen = [model for model in MODELS if is_configured(model, config=config)]
    for model in MODELS:
        if model not in chosen:
            render.print_notice(f"{model.process}: not set up here")
    return chosen


def _drop_repeats(problems: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the problems without repeats: an unknown variable is found once per process."""
    first: dict[str, dict[str, Any]] = {}
    for problem in problems:
        first.setdefault(problem["message"], problem)
    return list(first.values())


def _show_problems(problems: list[dict[str, Any]]) -> None:
    for problem in problems:
        hint = f" {problem['hint']}" if problem["hint"] else ""
        render.print_notice(f"error: {problem['message']}.{hint}")
