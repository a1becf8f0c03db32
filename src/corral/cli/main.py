"""The list of commands, and the one place where errors become exit codes.

0 done   1 refused or failed   2 wrong usage, or a fault of ours   130 interrupted
"""

from __future__ import annotations

import platform
import sys
import traceback
from collections.abc import Sequence
from itertools import takewhile
from types import TracebackType
from typing import Annotated, Any, ClassVar

import typer
from typer.main import get_command

from corral import __version__
from corral.cli import render
from corral.cli.command import JsonOption
from corral.cli.lazy import Entry, LazyGroup
from corral.domain.errors import CorralError, InvalidRequest

DONE, REFUSED, WRONG, INTERRUPTED = 0, 1, 2, 130
_LOCAL = "A cluster on this machine"
_NOUNS = "A cluster, from anywhere"
_PROCESSES = "Its processes"


def _entry(section: str, module: str, attribute: str, sentence: str) -> Entry:
    return Entry(section=section, module=f"corral.cli.{module}", attribute=attribute, sentence=sentence)


COMMANDS: dict[str, Entry] = {
    "up": _entry(
        _LOCAL, "cluster", "up", "Start everything on this machine: PostgreSQL, NATS, a frontend and a worker."
    ),
    "status": _entry(_LOCAL, "cluster", "status", "Show what runs on this machine."),
    "try": _entry(_LOCAL, "try_", "try_it", "Have a small model answer a question: the shortest way to see it work."),
    "down": _entry(
        _LOCAL, "cluster", "down", "Stop what `corral up` started on this machine, and wait until it has stopped."
    ),
    "open": _entry(_NOUNS, "open", "open_page", "Open the web page, already logged in."),
    "run": _entry(_NOUNS, "run", "run", "Ask a model one thing."),
    "chat": _entry(_NOUNS, "chat", "chat", "Talk with a model."),
    "nodes": _entry(_NOUNS, "nodes", "app", "The machines of the cluster."),
    "backends": _entry(_NOUNS, "backends", "app", "Engines: what there is, what is installed where, and changing it."),
    "models": _entry(_NOUNS, "models", "app", "Models: what there is to run, what runs where, and changing it."),
    "rules": _entry(_NOUNS, "rules", "app", "Rules: where a model may run, and how many replicas it is to have."),
    "apply": _entry(
        _NOUNS,
        "fleet",
        "apply",
        "Make the fleet what a file says: models, rules, nodes, galleries. All of it, or nothing.",
    ),
    "export": _entry(
        _NOUNS,
        "fleet",
        "export",
        "Write the fleet as a file: models, rules, nodes, galleries. Applying it changes nothing.",
    ),
    "operations": _entry(_NOUNS, "operations", "app", "What is under way, and what has ended."),
    "tokens": _entry(_NOUNS, "tokens", "app", "Join tokens: what a machine needs to join."),
    "keys": _entry(_NOUNS, "keys", "app", "API keys: who may use the API."),
    "users": _entry(_NOUNS, "users", "app", "Users: people, what they may, and how they come in."),
    "usage": _entry(_NOUNS, "usage", "usage", "Show who has used how much of what: requests, errors and tokens."),
    "cluster": _entry(_NOUNS, "overview", "cluster", "Show the frontends, the leader, PostgreSQL and NATS."),
    "top": _entry(_NOUNS, "top", "top", "Watch models, replicas, requests and tokens as they go."),
    "explain": _entry(_NOUNS, "explain", "explain", "Show which replica would answer a request now, and why."),
    "login": _entry(_NOUNS, "login", "login", "Check an admin key and keep it for later commands."),
    "logout": _entry(_NOUNS, "login", "logout", "Forget the stored key."),
    "serve": _entry(
        _PROCESSES, "processes", "serve", "Run one frontend, on a PostgreSQL and a NATS that are there already."
    ),
    "worker": _entry(_PROCESSES, "processes", "worker", "Run the worker of this machine and join a cluster."),
    "config": _entry(_PROCESSES, "config", "app", "Settings: check them and show where each comes from."),
    "version": _entry(_PROCESSES, "main", "version", "Print the version."),
}

# Typer brings its own copy of click in some versions; the base of its errors is found through one of them.
_UsageFault: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class _Commands(LazyGroup):
    entries: ClassVar[dict[str, Entry]] = COMMANDS


app = typer.Typer(
    cls=_Commands,
    help="Corral turns a handful of unequal machines into one inference service.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(*, value: bool) -> None:
    if value:
        render.write(f"corral {__version__}")
        raise typer.Exit(DONE)


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=lambda value: _print_version(value=value), is_eager=True
        ),
    ] = False,
) -> None:
    del version


def version(*, as_json: JsonOption = False) -> None:
    """Print the version."""
    if as_json:
        render.write_json({"version": __version__, "python": platform.python_version()})
    else:
        render.write(f"corral {__version__}")


def run(arguments: Sequence[str] | None = None) -> int:
    """One command line, from its words to its exit code."""
    command = get_command(app)
    as_json = _wants_json(sys.argv[1:] if arguments is None else arguments)
    try:
        result = command.main(args=arguments, prog_name="corral", standalone_mode=False)
    except CorralError as error:
        render.show_error(error, as_json=as_json)
        # Without a class of its own it is a fault of ours, or an answer that makes no sense.
        return WRONG if type(error) is CorralError else REFUSED
    except typer.Abort:
        render.say("\nStopped.")
        return INTERRUPTED
    except _UsageFault as fault:
        _show_usage(fault, as_json=as_json)
        return WRONG
    except BrokenPipeError:
        return DONE
    return result if isinstance(result, int) else DONE


def _wants_json(words: Sequence[str]) -> bool:
    """Whether the words of a command line have --json among its options. Known also when nothing else is right."""
    return "--json" in takewhile(lambda word: word != "--", words)


def _show_usage(fault: Any, *, as_json: bool) -> None:
    if type(fault).__name__ == "NoArgsIsHelpError":
        render.say(fault.format_message())
        return
    context = getattr(fault, "ctx", None)
    path = context.command_path if context is not None else "corral"
    message, hint = fault.format_message(), f"{path} --help"
    render.show_error(InvalidRequest(message, hint=hint, code="wrong_usage"), as_json=as_json)


def show_fault(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The hook for what nobody caught: a fault of ours, told as such, with what a report needs."""
    if issubclass(kind, KeyboardInterrupt):
        raise SystemExit(INTERRUPTED)
    render.say("".join(traceback.format_exception(kind, error, trace)).rstrip())
    render.show_refusal(
        f"{kind.__name__}: {error}", "This is a fault in Corral. Please report it with the lines above."
    )
    raise SystemExit(WRONG)


def prepare_streams() -> None:
    """A terminal that cannot show a character shows a question mark; it is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
