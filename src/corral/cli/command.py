"""Gives all client commands the options --url, --key, --key-file and --json, a connection and an event loop.

A command is an async function whose first parameter is a `CommandSession`; the rest are its own options. Registered
here, the command gets the shared options in addition, so that no command can forget or misspell one.
"""

from __future__ import annotations

import gc
import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from corral.domain.errors import Unavailable

if TYPE_CHECKING:
    from corral.client import CorralClient
    from corral.runtime.tasks import TaskSet

UrlOption = Annotated[str | None, typer.Option("--url", metavar="URL", help="Address of a frontend. [env: CORRAL_URL]")]
KeyOption = Annotated[str | None, typer.Option("--key", metavar="KEY", help="API key. [env: CORRAL_KEY]")]
KeyFileOption = Annotated[
    Path | None, typer.Option("--key-file", metavar="PATH", help="File with the API key. [env: CORRAL_KEY_FILE]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
# Long names: a command's own `key` must not collide with these.
_SHARED_OPTIONS: dict[str, Any] = {
    "target_url": UrlOption,
    "target_key": KeyOption,
    "target_key_file": KeyFileOption,
    "as_json": JsonOption,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSession:
    """Connection to a cluster and output form of one command of the command line."""

    client: CorralClient
    as_json: bool

    def read_time(self) -> datetime:
        from corral.adapters.system import SystemClock

        return SystemClock().wall()


class ListingGroup(TyperGroup):
    """Group of CLI commands that runs its command `list` when none is named: `pending --json` lists as JSON."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names_none = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        # While a shell completes, nothing is added: it offers the commands of the group.
        if names_none and not ctx.resilient_parsing:
            args = ["list", *args]
        return super().parse_args(ctx, args)


def make_group(help_text: str, *, lists_by_default: bool = False) -> typer.Typer:
    """Make a command group for one noun. With `lists_by_default`, the group alone runs its command `list`."""
    return typer.Typer(
        cls=ListingGroup if lists_by_default else None,
        help=help_text,
        no_args_is_help=not lists_by_default,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def parse_pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Return the pairs of a repeatable option NAME=VALUE."""
    pairs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or not separator:
            # The text may hold a secret, so it is not repeated.
            raise typer.BadParameter(f"one {option} is not like NAME=VALUE")
        pairs[name] = value
    return pairs


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Keep the garbage collector from looking through the objects that imports make: they live as long as the process.

    Looking through them again and again is a sixth of the start, and later on a part of every collection.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def skip_certificate_loading() -> Iterator[None]:
    """Keep aiohttp from reading the CA certificates while it is imported.

    It reads them twice, for two default contexts, also when the address is http://. That is an eighth of what a command
    costs. `client/transport.py` makes its own context for https://, afterwards and with the certificates of the system.
    """
    previous = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = os.devnull
    try:
        yield
    finally:
        if previous is None:
            del os.environ["SSL_CERT_FILE"]
        else:
            os.environ["SSL_CERT_FILE"] = previous


def register_command(
    app: typer.Typer, name: str, *, is_hidden: bool = False
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., Awaitable[None]]]:
    """Register an async function as a command of `app`. A hidden one works and is in no help text."""

    def register(work: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        app.command(name, hidden=is_hidden)(add_session(work))
        return work

    return register


def add_session(work: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Return a plain function for Typer that runs the command with a session and has the shared options added."""

    # The event loop is imported when a command runs: help and completion do without it.
    def command(**given: Any) -> None:
        flags = {name: given.pop(f"target_{name}") for name in ("url", "key", "key_file")}
        as_json = given.pop("as_json")
        import asyncio

        asyncio.run(_run_with_session(work, flags, given, as_json=as_json))

    hints = get_type_hints(work, include_extras=True)
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
        for parameter in list(inspect.signature(work).parameters.values())[1:]
    ]
    shared = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=annotation,
            default=False if name == "as_json" else None,
        )
        for name, annotation in _SHARED_OPTIONS.items()
    ]
    command.__name__ = work.__name__
    command.__doc__ = work.__doc__
    command.__annotations__ = {}
    command.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    return command


async def _run_with_session(
    work: Callable[..., Awaitable[None]], flags: dict[str, Any], given: dict[str, Any], *, as_json: bool
) -> None:
    # Imported here, so that `corral --help` and a mistyped option do not wait for an HTTP library.
    with pause_garbage_collection(), skip_certificate_loading():
        from corral.adapters.system import SystemClock, SystemIdGenerator
        from corral.cli.target import describe_advice, find_target
        from corral.client import CorralClient

    target = find_target(flags)
    async with CorralClient(target.url, target.key, clock=SystemClock(), ids=SystemIdGenerator()) as client:
        try:
            await work(CommandSession(client=client, as_json=as_json), **given)
        except Unavailable as error:
            if error.slug == "unreachable":
                raise Unavailable(error.message, hint=describe_advice(target), code=error.slug) from error
            raise


def make_tasks(owner: str) -> TaskSet:
    """Return a task group that logs tasks that crash. A traceback has no values of variables in it: by default
    structlog shows them, and among those of a command is its API key."""
    import structlog

    from corral.runtime.tasks import TaskSet

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
        ],
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    return TaskSet(owner)
