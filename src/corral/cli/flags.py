"""Commands whose flags are the settings of a process: one loop over the model makes them all.

Each flag names its variable in the help. Typer does not read the variables itself: the loader does, once, and can
then say of every value where it came from.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from corral.app.settings import Loaded, ProcessSettings, SettingDoc, document, load

S = TypeVar("S", bound=ProcessSettings)
_METAVAR = {
    "duration": "DURATION",
    "number": "NUMBER",
    "size": "SIZE",
    "path": "PATH",
    "labels": "LABELS",
    "secret": "SECRET",
}


def settings_command(model: type[S], run: Callable[[Loaded[S]], int], *, help_text: str) -> Callable[..., None]:
    """A command that takes every setting of `model` as a flag, and --config."""

    def command(**given: Any) -> None:
        config = given.pop("config")
        raise typer.Exit(run(load(model, flags=given, config=config)))

    command.__name__ = model.process
    command.__doc__ = help_text
    command.__annotations__ = {}
    command.__signature__ = inspect.Signature(list(_parameters(model)))  # type: ignore[attr-defined]
    return command


def _parameters(model: type[ProcessSettings]) -> Iterator[inspect.Parameter]:
    config = typer.Option("--config", metavar="PATH", help="TOML file with settings. [env: CORRAL_CONFIG]")
    yield _parameter("config", Annotated[Path | None, config])
    for doc in document(model):
        yield _parameter(doc.key, _annotation(doc))
        if doc.file_environment:
            text = f"File that holds it. [env: {doc.file_environment}]"
            option = typer.Option(f"{doc.flag}-file", metavar="PATH", help=text)
            yield _parameter(f"{doc.key}_file", Annotated[str | None, option])


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None)


def _annotation(doc: SettingDoc) -> Any:
    text = f"{doc.description} [env: {doc.environment}]"
    if doc.required:
        text += " [required]"
    elif doc.default is not None:
        text += f" [default: {doc.default}]"
    if doc.is_switch:
        return Annotated[bool | None, typer.Option(f"{doc.flag}/--no{doc.flag[1:]}", help=text)]
    metavar = _METAVAR.get(doc.kind) or ("|".join(doc.kind.split(" or ")) if " or " in doc.kind else "TEXT")
    return Annotated[str | None, typer.Option(doc.flag, metavar=metavar, help=text)]
