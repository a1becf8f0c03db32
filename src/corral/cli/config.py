"""`corral config …`: are the settings right, what are they, and where did each come from. Starts nothing.

Without a process, all that are set up here are looked at: those of which at least one required setting is given.
"""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from corral.app.settings import (
    FrontendSettings,
    Loaded,
    ProcessSettings,
    UpSettings,
    WorkerSettings,
    is_set_up,
    load,
    redacted,
)
from corral.cli import render
from corral.cli.command import JsonOption, a_group
from corral.domain.errors import CorralError

app = a_group("Settings: check them and show where each comes from.")
MODELS: tuple[type[ProcessSettings], ...] = (FrontendSettings, WorkerSettings, UpSettings)


class Process(StrEnum):
    FRONTEND = "frontend"
    WORKER = "worker"
    UP = "up"


ProcessArgument = Annotated[
    Process | None, typer.Argument(metavar="[frontend|worker|up]", help="Whose settings; without it, all set up here.")
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="PATH", help="TOML file with settings. [env: CORRAL_CONFIG]")
]


@app.command("check")
def check(*, process: ProcessArgument = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check the settings as a start would, and more strictly: unknown variables are errors here."""
    problems: list[dict[str, Any]] = []
    checked: list[str] = []
    for model in _chosen(process, config):
        checked.append(model.process)
        try:
            load(model, config=config, is_strict=True)
        except CorralError as error:
            found = error.details.get("problems")
            assert isinstance(found, list)
            problems += [{"process": model.process, **problem} for problem in found]
    problems = _without_repeats(problems)
    if as_json:
        render.write_json({"checked": checked, "problems": problems})
    elif problems:
        _show_problems(problems)
    else:
        render.say(f"All is well: {', '.join(checked)}.")
    raise typer.Exit(1 if problems else 0)


@app.command("show")
def show(*, process: ProcessArgument = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show every setting with where it came from; secrets are masked."""
    shown: dict[str, Any] = {}
    for model in _chosen(process, config):
        loaded: Loaded[ProcessSettings] = load(model, config=config)
        settings = redacted(loaded)
        shown[model.process] = [asdict(setting) for setting in settings]
        for warning in loaded.warnings:
            render.say(f"warning: {warning}")
        if not as_json:
            rows = [[item.key, item.value or render.NONE, item.origin, item.environment] for item in settings]
            render.write(f"[{model.process}]\n{render.table(('SETTING', 'VALUE', 'FROM', 'VARIABLE'), rows)}")
    if as_json:
        render.write_json(shown)


def _chosen(process: Process | None, config: Path | None) -> list[type[ProcessSettings]]:
    if process is not None:
        return [model for model in MODELS if model.process == process]
    chosen = [model for model in MODELS if is_set_up(model, config=config)]
    for model in MODELS:
        if model not in chosen:
            render.say(f"{model.process}: not set up here")
    return chosen


def _without_repeats(problems: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A variable that nobody knows is found once per process; it is one mistake."""
    first: dict[str, dict[str, Any]] = {}
    for problem in problems:
        first.setdefault(problem["message"], problem)
    return list(first.values())


def _show_problems(problems: list[dict[str, Any]]) -> None:
    for problem in problems:
        hint = f" {problem['hint']}" if problem["hint"] else ""
        render.say(f"error: {problem['message']}.{hint}")
