"""`corral tokens …`: what a machine needs to join."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from corral.cli import render
from corral.cli.command import Session, a_group, client_command

app = a_group("Join tokens: what a machine needs to join.")


@client_command(app, "create")
async def create_token(
    session: Session,
    *,
    name: Annotated[str, typer.Option("--name", help="What the token is for.")] = "join token",
    uses: Annotated[
        int, typer.Option("--uses", min=0, max=100_000, help="How many machines may join; 0 for any number.")
    ] = 1,
    expires: Annotated[str, typer.Option("--expires", metavar="DURATION", help="30m, 24h, 7d or never.")] = "24h",
    approve: Annotated[bool, typer.Option("--approve", help="Approve machines that join with it at once.")] = False,
) -> None:
    """Make a join token. It is shown this once, with the command that uses it."""
    from corral.cli.access_views import join_fields, lifetime_s, write_join
    from corral.wire.access import TokenIn

    token = TokenIn(name=name, max_uses=uses or None, expires_in_s=lifetime_s(expires), approves=approve)
    join = await session.client.tokens.join_commands()
    if join.problem:
        render.say(f"warning: {join.problem}\n\nhint: {join.hint}\n")
    made = await session.client.tokens.create(token)
    if session.as_json:
        render.write_json(made.model_dump(mode="json") | join_fields(join, made.token))
        return
    render.write(made.token)
    render.say(f"\n{write_join(join, made.token)}\n")
    if not approve:
        render.say("Then let it in: corral nodes approve NODE")


@client_command(app, "list")
async def list_tokens(session: Session) -> None:
    """List the join tokens."""
    from corral.cli.access_views import token_list

    tokens = await session.client.tokens.list()
    if session.as_json:
        render.write_json([token.model_dump(mode="json") for token in tokens])
    elif tokens:
        render.write(token_list(tokens, session.now(), colour=render.has_colour(sys.stdout)))
    else:
        render.say("There are no join tokens. `corral tokens create` makes one.")


@client_command(app, "revoke")
async def revoke_token(
    session: Session, token: Annotated[str, typer.Argument(metavar="TOKEN", help="Id, name or first characters.")]
) -> None:
    """Revoke a join token. Machines that have joined with it stay."""
    from corral.cli.access_views import pick_id

    revoked = await session.client.tokens.revoke(pick_id(await session.client.tokens.list(), token))
    if session.as_json:
        render.write_json(revoked.model_dump(mode="json"))
    else:
        render.say(f"Token {render.clean(revoked.name)} ({revoked.prefix}…) is revoked.")
