"""`corral login` and `corral logout`: remember one cluster and the key for it."""

from __future__ import annotations

import asyncio
import sys
from getpass import getpass
from typing import Annotated

import typer

from corral.cli import render
from corral.cli.credentials import Login, credentials_path, remove_login, store_login
from corral.domain.errors import CorralError, InvalidRequest


def login(
    *,
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of a frontend: http://host:8080.")],
    key_stdin: Annotated[bool, typer.Option("--key-stdin", help="Read the key from standard input.")] = False,
) -> None:
    """Check an admin key and keep it for later commands. Asks for the key on a terminal."""
    from corral.app.settings import ClientSettings, load

    settings = load(ClientSettings, flags={"url": url}).settings
    assert settings.url is not None
    said = settings.key.get_secret_value() if settings.key else None
    key = sys.stdin.readline() if key_stdin else said or _ask()
    if not key.strip():
        raise InvalidRequest("The key is empty.", hint="`corral keys create NAME` makes one.")
    checked = Login(url=settings.url, key=key.strip())
    answered_by = asyncio.run(_verify(checked))
    try:
        path = store_login(checked)
    except OSError as error:
        raise InvalidRequest(
            f"The login cannot be stored in {credentials_path()} ({error.strerror}).",
            hint="Set XDG_CONFIG_HOME to a directory of yours, or use CORRAL_URL and CORRAL_KEY_FILE instead.",
        ) from error
    render.say(f"Logged in to {checked.url} ({answered_by}). Stored in {path}.")


def _ask() -> str:
    if not sys.stdin.isatty():
        raise InvalidRequest(
            "There is no key to log in with.", hint="Pipe it in with --key-stdin, or set CORRAL_KEY_FILE."
        )
    return getpass("Admin key (not shown): ", sys.stderr)


async def _verify(candidate: Login) -> str:
    from corral.adapters.system import SystemClock, SystemIds
    from corral.client import CorralClient

    async with CorralClient(candidate.url, candidate.key, clock=SystemClock(), ids=SystemIds()) as client:
        try:
            return f"frontend {render.clean((await client.cluster()).answered_by)}"
        except CorralError as error:
            if error.slug != "not_allowed":
                raise
        # A key that may only ask models cannot see the cluster, and is good for `corral chat`.
        me = await client.users.me()
        return f"as {render.clean(me.name)}, who may {me.scope}"


def logout() -> None:
    """Forget the stored key. The key itself stays valid: `corral keys revoke` ends it."""
    if remove_login():
        render.say(f"Forgotten: {credentials_path()} is removed.")
    else:
        render.say("Nobody was logged in.")
