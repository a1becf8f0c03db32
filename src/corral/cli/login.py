"""`corral login` and `corral logout`: store the address and the key of one cluster, or delete them."""

from __future__ import annotations

import asyncio
import sys
from getpass import getpass
from typing import Annotated

import typer

from corral.cli import render
from corral.cli.target import StoredLogin, get_credentials_path, remove_login, store_login
from corral.domain.errors import CorralError, InvalidRequest


def login(
    *,
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of a frontend: http://host:8080.")],
    key_stdin: Annotated[bool, typer.Option("--key-stdin", help="Read the key from standard input.")] = False,
) -> None:
    """Check an API key and store it for later commands. Asks for the key on a terminal."""
    from corral.app.settings import ClientSettings, load_settings

    settings = load_settings(ClientSettings, flags={"url": url}).settings
    assert settings.url is not None
    given_key = settings.key.get_secret_value() if settings.key else None
    key = sys.stdin.readline() if key_stdin else given_key or _read_key()
    if not key.strip():
        raise InvalidRequest("The key is empty.", hint="`corral keys create NAME` creates one.")
    checked = StoredLogin(url=settings.url, key=key.strip())
    answered_by = asyncio.run(_verify(checked))
    try:
        path = store_login(checked)
    except OSError as error:
        raise InvalidRequest(
            f"The login cannot be stored in {get_credentials_path()} ({error.strerror}).",
            hint="Set XDG_CONFIG_HOME to a directory of yours, or use CORRAL_URL and CORRAL_KEY_FILE instead.",
        ) from error
    render.print_notice(f"Logged in to {checked.url} ({answered_by}). Stored in {path}.")


def _read_key() -> str:
    if not sys.stdin.isatty():
        raise InvalidRequest(
            "A key is needed, and standard input is not a terminal.",
            hint="Pipe it in with --key-stdin, or set CORRAL_KEY_FILE.",
        )
    return getpass("Admin key (not shown): ", sys.stderr)


async def _verify(candidate: StoredLogin) -> str:
    from corral.adapters.system import SystemClock, SystemIdGenerator
    from corral.client import CorralClient

    async with CorralClient(candidate.url, candidate.key, clock=SystemClock(), ids=SystemIdGenerator()) as client:
        try:
            return f"frontend {render.clean_text((await client.cluster.get()).answered_by)}"
        except CorralError as error:
            if error.slug != "not_allowed":
                raise
        # A key for inference only cannot see the cluster, but is enough for `corral chat`.
        me = await client.users.get_me()
        return f"as {render.clean_text(me.name)}, with scope {me.scope}"


def logout() -> None:
    """Delete the stored key. The key itself stays valid; `corral keys revoke` revokes it."""
    if remove_login():
        render.print_notice(f"Logged out: {get_credentials_path()} was deleted.")
    else:
        render.print_notice("You are not logged in.")
