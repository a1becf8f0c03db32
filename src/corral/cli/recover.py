"""`corral keys recover`: a new admin key for whoever can reach the registry, when no other admin key is at hand.

What proves the right to it is access to the home of `corral up`, or to the database: both allow everything anyway.
Guarantee: no key is made while the one in the home works. A cluster that does not run gets its key at the next start.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.cluster import DEFAULT_HOME, HomeOption
from corral.cli.command import JsonOption
from corral.domain.access import ADMIN_KEY_PREFIX
from corral.domain.errors import Conflict, InvalidRequest

if TYPE_CHECKING:
    from corral.embedded.home import Home

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar="CORRAL_DATABASE_URL",
        metavar="URL",
        help="Registry of a cluster that `corral up` does not run here; the key is printed.",
    ),
]


def recover(*, home: HomeOption = None, database_url: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Make a new admin key, on the machine of `corral up` or with the address of the database. Needs no key."""
    from corral.app.recovery import make_admin_key
    from corral.embedded.files import read_secret
    from corral.embedded.home import find_holder, locate_home

    if database_url is not None:
        key = asyncio.run(make_admin_key(database_url, None))
        if as_json:
            render.write_json({"key": key})
        else:
            render.write(key)
            render.say("\nThis is an admin key. It is not shown again.")
        return
    found = locate_home(home or DEFAULT_HOME)
    _check_owner(found)
    current = read_secret(found.admin_key)
    if find_holder(found) is None:
        _write(found, ADMIN_KEY_PREFIX + secrets.token_urlsafe(32))
        _say_written(found, "It works as soon as `corral up` has started.", as_json=as_json)
        return
    address = read_secret(found.database_url)
    if address is None:
        raise Conflict(
            f"{found.database_url} is missing, so the database of the running cluster cannot be found.",
            hint="`corral down`, then run this again, then `corral up`.",
            code="database_unknown",
        )
    _write(found, asyncio.run(make_admin_key(address, current)))
    _say_written(found, "It works now.", as_json=as_json)
    render.say("`corral keys list` shows the older ones; revoke those that nobody is to use any more.")


def _say_written(home: Home, sentence: str, *, as_json: bool) -> None:
    if as_json:
        render.write_json({"key_file": str(home.admin_key)})
    else:
        render.say(f"A new admin key is in {home.admin_key}. {sentence}")


def _check_owner(home: Home) -> None:
    from corral.embedded.home import open_home

    if not home.secrets.is_dir():
        raise InvalidRequest(
            f"There is no cluster of `corral up` in {home.root}.",
            hint="Name its folder with --home, or the registry of another cluster with --database-url.",
            code="no_cluster",
        )
    # Refuses a folder of another user, which a new file would make unusable for them.
    open_home(home.root)


def _write(home: Home, key: str) -> None:
    from corral.embedded.files import write_private

    write_private(home.admin_key, f"{key}\n")
