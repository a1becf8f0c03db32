"""`corral keys …`: who may use the API."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from corral.cli import render
from corral.cli.command import Session, a_group, client_command

app = a_group("API keys: who may use the API.")
Key = Annotated[str, typer.Argument(metavar="KEY", help="Id, name or first characters.")]


@client_command(app, "create")
async def create_key(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what the key is for.")],
    *,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="DURATION", help="24h, 90d or never.", show_default="never")
    ] = None,
) -> None:
    """Make an API key. It is shown this once."""
    from corral.cli.access_views import lifetime_s
    from corral.wire.access import KeyIn

    made = await session.client.keys.create(KeyIn(name=name, expires_in_s=lifetime_s(expires)))
    if session.as_json:
        render.write_json(made.model_dump(mode="json"))
        return
    render.write(made.key)
    render.say("\nIt is not shown again.")


@client_command(app, "list")
async def list_keys(session: Session) -> None:
    """List the API keys."""
    from corral.cli.access_views import key_list

    keys = await session.client.keys.list()
    if session.as_json:
        render.write_json([key.model_dump(mode="json") for key in keys])
    elif keys:
        render.write(key_list(keys, session.now(), colour=render.has_colour(sys.stdout)))
    else:
        render.say("There are no keys.")


@client_command(app, "revoke")
async def revoke_key(session: Session, key: Key) -> None:
    """Revoke an API key. It stops working at once."""
    from corral.cli.access_views import pick_id

    revoked = await session.client.keys.revoke(pick_id(await session.client.keys.list(), key))
    if session.as_json:
        render.write_json(revoked.model_dump(mode="json"))
    else:
        render.say(f"Key {render.clean(revoked.name)} ({revoked.prefix}…) is revoked.")


@client_command(app, "rotate")
async def rotate_key(session: Session, key: Key) -> None:
    """Replace a key by a new one of the same name. The new one is shown this once."""
    from corral.cli.access_views import pick_id

    made = await session.client.keys.rotate(pick_id(await session.client.keys.list(), key))
    if session.as_json:
        render.write_json(made.model_dump(mode="json"))
        return
    render.write(made.key)
    render.say(f"\nIt is not shown again, and takes the place of the old key {render.clean(made.name)}.")
