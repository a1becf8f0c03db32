"""Lists the commands, and maps errors to exit codes.

0 success   1 refused or failed   2 wrong usage, or a bug in Corral   130 interrupted

The root group knows its commands by name and imports only the one that is used: `corral --help` and `corral nodes list`
must not wait for what only `corral serve` needs. The table therefore holds each command's sentence too; a test compares
it with the command's own.
"""

from __future__ import annotations

import platform
import sys
import traceback
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import takewhile
from types import TracebackType
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command

from corral import __version__
from corral.cli import render
from corral.cli.command import JsonOption, make_group, pause_garbage_collection
from corral.domain.errors import CorralError, InvalidRequest

DONE, REFUSED, WRONG, INTERRUPTED = 0, 1, 2, 130
_LOCAL = "A cluster on this machine"
_NOUNS = "A cluster, from anywhere"
_PROCESSES = "Processes of a cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyCommand:
    """Describes a CLI command that is imported only when it is used: its section, module, attribute and sentence."""

    section: str
    module: str
    attribute: str
    sentence: str


def load_command(name: str, entry: LazyCommand) -> Any:
    """Import and return the command of an entry: a group of commands, or a single one."""
    # Garbage collection was paused in `__main__`; it runs from here on.
    with pause_garbage_collection():
        found = getattr(import_module(entry.module), entry.attribute)
    if isinstance(found, typer.Typer):
        command = get_command(found)
    else:
        alone = make_group("")
        alone.command(name, no_args_is_help=False)(found)
        command = get_command(alone)
    command.name = name
    return command


class LazyCommandTable(MutableMapping[str, Any]):
    """Maps names of CLI commands to commands, and imports a command when it is looked up.

    Stands in for click's dictionary.
    """

    def __init__(self, entries: dict[str, LazyCommand]) -> None:
        self.entries = entries
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = load_command(name, self.entries[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class LazyGroup(TyperGroup):
    """Group of CLI commands that lists its commands by section without importing any.

    A subclass sets `entries`.
    """

    entries: ClassVar[dict[str, LazyCommand]]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = LazyCommandTable(self.entries)

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(self.entries)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        del ctx
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            sections.setdefault(entry.section, []).append((name, entry.sentence))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def _make_entry(section: str, module: str, attribute: str, sentence: str) -> LazyCommand:
    return LazyCommand(section=section, module=f"corral.cli.{module}", attribute=attribute, sentence=sentence)


COMMANDS: dict[str, LazyCommand] = {
    "up": _make_entry(
        _LOCAL,
        "cluster",
        "up",
        "Start everything on this machine: PostgreSQL, NATS, a frontend, a worker and an agent worker.",
    ),
    "status": _make_entry(_LOCAL, "cluster", "status", "Show the state of the cluster on this machine."),
    "try": _make_entry(_LOCAL, "run", "try_it", "Send a prompt to a small model, the quickest way to see Corral work."),
    "down": _make_entry(
        _LOCAL,
        "cluster",
        "down",
        "Stop the cluster that `corral up` started on this machine, and wait until it has stopped.",
    ),
    "open": _make_entry(_NOUNS, "open", "open_page", "Open the web page, already signed in."),
    "run": _make_entry(_NOUNS, "run", "run", "Send one prompt to a model."),
    "chat": _make_entry(_NOUNS, "run", "chat", "Chat with a model."),
    "nodes": _make_entry(
        _NOUNS, "nodes", "app", "Nodes, the machines of the cluster: list, approve, drain, label and remove them."
    ),
    "backends": _make_entry(
        _NOUNS, "backends", "app", "Backends, the engines that run models: search, install, upgrade and remove them."
    ),
    "models": _make_entry(_NOUNS, "models", "app", "Models: search, install, configure, load and unload them."),
    "fine-tune": _make_entry(
        _NOUNS, "fine_tune", "app", "Train a model on examples: datasets, jobs, checkpoints and exports."
    ),
    "quantize": _make_entry(
        _NOUNS, "quantize", "app", "Make a model smaller: start, list, cancel and download quantisations."
    ),
    "rules": _make_entry(_NOUNS, "rules", "app", "Rules: where a model may run, and how many replicas it has."),
    "apply": _make_entry(
        _NOUNS,
        "fleet",
        "apply",
        "Apply a file to the fleet: models, rules, nodes, galleries, agents, tasks. All changes are made, or none.",
    ),
    "export": _make_entry(
        _NOUNS,
        "fleet",
        "export",
        "Export the fleet as a file: models, rules, nodes, galleries, agents, tasks. Applying it changes nothing.",
    ),
    "operations": _make_entry(
        _NOUNS, "operations", "app", "Operations: list, watch, cancel and retry them, and show their history."
    ),
    "agents": _make_entry(
        _NOUNS, "agents", "app", "Agents, models with instructions and tools: create them, and chat with them."
    ),
    "skills": _make_entry(
        _NOUNS,
        "skills",
        "app",
        "Skills, instructions that agents read when a task needs them: write, import and sync them.",
    ),
    "runs": _make_entry(
        _NOUNS,
        "runs",
        "app",
        "Runs of agents, tasks and batches: list, watch and cancel them, and approve their tool calls.",
    ),
    "tasks": _make_entry(
        _NOUNS,
        "tasks",
        "app",
        "Tasks, templates of prompts: create them, and run them by hand or by a cron pattern.",
    ),
    "batches": _make_entry(
        _NOUNS,
        "batches",
        "app",
        "Batches, files of requests that are answered in the background: create, cancel and download them.",
    ),
    "collections": _make_entry(_NOUNS, "collections", "app", "Collections of documents: create, fill and search them."),
    "jobs": _make_entry(_NOUNS, "jobs", "app", "Jobs, the executions of tasks: list, watch, cancel and delete them."),
    "tokens": _make_entry(
        _NOUNS,
        "access",
        "tokens_app",
        "Join tokens, with which machines join the cluster: create, list and revoke them.",
    ),
    "keys": _make_entry(_NOUNS, "access", "keys_app", "API keys: create, change, rotate and revoke them."),
    "users": _make_entry(
        _NOUNS, "access", "users_app", "Users: create, list, disable and delete them, and set scopes and passwords."
    ),
    "secrets": _make_entry(
        _NOUNS, "secrets", "app", "Secrets, such as tokens of other services: set, list and delete them."
    ),
    "settings": _make_entry(
        _NOUNS, "overview", "settings_app", "Settings of the running frontends: show them, and change the live ones."
    ),
    "usage": _make_entry(
        _NOUNS, "usage", "usage", "Show usage: requests, errors and tokens by key, model, user, call, node or time."
    ),
    "cluster": _make_entry(_NOUNS, "overview", "cluster", "Show the frontends, the leader, PostgreSQL and NATS."),
    "top": _make_entry(_NOUNS, "top", "top", "Watch models, replicas, requests and tokens live."),
    "explain": _make_entry(_NOUNS, "overview", "explain", "Show which replica would serve a request now, and why."),
    "mcp": _make_entry(
        _NOUNS, "mcp", "app", "MCP servers, sources of tools: declare them, and list the tools of a model."
    ),
    "mcp-server": _make_entry(
        _NOUNS, "mcp_server", "serve_mcp", "Serve the cluster as MCP tools on standard input and output."
    ),
    "login": _make_entry(_NOUNS, "target", "login", "Check an API key and store it for later commands."),
    "logout": _make_entry(_NOUNS, "target", "logout", "Delete the stored key."),
    "serve": _make_entry(
        _PROCESSES, "processes", "serve", "Run one frontend, with a PostgreSQL and a NATS that already run."
    ),
    "worker": _make_entry(_PROCESSES, "processes", "worker", "Run the worker of this machine and join a cluster."),
    "config": _make_entry(
        _PROCESSES,
        "config",
        "app",
        "Settings of the processes on this machine: check them and show where each comes from.",
    ),
    "version": _make_entry(_PROCESSES, "main", "version", "Print the version."),
}

# Typer brings its own copy of click in some versions; the base of its errors is found through one of them.
_UsageFault: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class _RootGroup(LazyGroup):
    """The root group of `corral`, with the table of all commands."""

    entries: ClassVar[dict[str, LazyCommand]] = COMMANDS


app = typer.Typer(
    cls=_RootGroup,
    help="Corral turns a handful of unequal machines into one inference service.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(*, value: bool) -> None:
    if value:
        render.print_data(f"corral {__version__}")
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
        render.print_json({"version": __version__, "python": platform.python_version()})
    else:
        render.print_data(f"corral {__version__}")


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    command = get_command(app)
    as_json = _has_json_option(sys.argv[1:] if arguments is None else arguments)
    try:
        result = command.main(args=arguments, prog_name="corral", standalone_mode=False)
    except CorralError as error:
        render.show_error(error, as_json=as_json)
        # An error of the base class is a bug in Corral, or a response that makes no sense.
        return WRONG if type(error) is CorralError else REFUSED
    except typer.Abort:
        render.print_notice("\nStopped.")
        return INTERRUPTED
    except _UsageFault as fault:
        _show_usage(fault, as_json=as_json)
        return WRONG
    except BrokenPipeError:
        return DONE
    return result if isinstance(result, int) else DONE


def _has_json_option(words: Sequence[str]) -> bool:
    """Return whether --json is among the options of a command line, also if the command line is otherwise wrong."""
    return "--json" in takewhile(lambda word: word != "--", words)


def _show_usage(fault: Any, *, as_json: bool) -> None:
    if type(fault).__name__ == "NoArgsIsHelpError":
        render.print_notice(fault.format_message())
        return
    context = getattr(fault, "ctx", None)
    path = context.command_path if context is not None else "corral"
    message, hint = fault.format_message(), f"{path} --help"
    render.show_error(InvalidRequest(message, hint=hint, code="wrong_usage"), as_json=as_json)


def on_uncaught_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an uncaught exception as a bug in Corral, with its traceback. Used as `sys.excepthook`."""
    if issubclass(kind, KeyboardInterrupt):
        raise SystemExit(INTERRUPTED)
    render.print_notice("".join(traceback.format_exception(kind, error, trace)).rstrip())
    render.show_refusal(f"{kind.__name__}: {error}", "This is a bug in Corral. Please report it with the lines above.")
    raise SystemExit(WRONG)


def prepare_streams() -> None:
    """Have output streams print a question mark for a character that the terminal cannot show."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
