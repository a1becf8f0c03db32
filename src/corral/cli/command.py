"""What all client commands share: the options that say whom to talk to, --json, the connection, the event loop.

A command is an async function whose first parameter is a `Session`; the rest are its own options. Registered here,
it gets --url, --key, --key-file and --json in addition, so that no command can forget or misspell one.
"""

from __future__ import annotations

import gc
import inspect
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from corral.domain.errors import Unavailable

if TYPE_CHECKING:
    from corral.client import CorralClient

UrlOption = Annotated[str | None, typer.Option("--url", metavar="URL", help="Address of a frontend. [env: CORRAL_URL]")]
KeyOption = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Admin key. [env: CORRAL_KEY]")]
KeyFileOption = Annotated[
    Path | None, typer.Option("--key-file", metavar="PATH", help="File with the admin key. [env: CORRAL_KEY_FILE]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
# Long names: a command's own `key` must not collide with these.
_SHARED: dict[str, Any] = {
    "target_url": UrlOption,
    "target_key": KeyOption,
    "target_key_file": KeyFileOption,
    "as_json": JsonOption,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One command's connection."""

    client: CorralClient
    as_json: bool

    def now(self) -> datetime:
        from corral.adapters.system import SystemClock

        return SystemClock().wall()


def a_group(help_text: str) -> typer.Typer:
    """A noun with its verbs, in our plain style."""
    return typer.Typer(
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


@contextmanager
def pause_collection() -> Iterator[None]:
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
def skip_certificates() -> Iterator[None]:
    """Keep aiohttp from reading the CA certificates while it is imported.

    It reads them twice, for two default contexts, also when the address is http://. That is an eighth of what a command
    costs. `client/http.py` makes its own context for https://, afterwards and with the certificates of the system.
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


def client_command(
    app: typer.Typer, name: str
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., Awaitable[None]]]:
    """Register an async function as a command of `app`."""

    def register(work: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        app.command(name)(with_session(work))
        return work

    return register


def with_session(work: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """The same as a plain function with the shared options added."""

    # The event loop is imported when a command runs: help and completion do without it.
    def command(**given: Any) -> None:
        flags = {name: given.pop(f"target_{name}") for name in ("url", "key", "key_file")}
        as_json = given.pop("as_json")
        import asyncio

        asyncio.run(_connected(work, flags, given, as_json=as_json))

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
        for name, annotation in _SHARED.items()
    ]
    command.__name__ = work.__name__
    command.__doc__ = work.__doc__
    command.__annotations__ = {}
    command.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    return command


async def _connected(
    work: Callable[..., Awaitable[None]], flags: dict[str, Any], given: dict[str, Any], *, as_json: bool
) -> None:
    # Late: `corral --help` and a mistyped option must not wait for an HTTP library.
    with pause_collection(), skip_certificates():
        from corral.adapters.system import SystemClock, SystemIds
        from corral.cli.target import advice, find_target
        from corral.client import CorralClient

    target = find_target(flags)
    async with CorralClient(target.url, target.key, clock=SystemClock(), ids=SystemIds()) as client:
        try:
            await work(Session(client=client, as_json=as_json), **given)
        except Unavailable as error:
            if error.slug == "unreachable":
                raise Unavailable(error.message, hint=advice(target), code=error.slug) from error
            raise
