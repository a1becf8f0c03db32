"""`corral keys …`: who may use the API."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import Session, a_group, client_command

app = a_group("API keys: who may use the API.")
Key = Annotated[str, typer.Argument(metavar="KEY", help="Id, name or first characters.")]


ScopeOption = Annotated[
    str | None, typer.Option("--scope", metavar="SCOPE", help="admin, operate or infer.", show_default="admin")
]
ModelsOption = Annotated[
    str | None,
    typer.Option("--models", metavar="PATTERN,…", help="Only these models: 'llama-*,qwen'.", show_default="every one"),
]
PerMinute = Annotated[
    int | None, typer.Option("--requests-per-minute", min=1, metavar="N", help="At most so many requests.")
]
TokensPerMinute = Annotated[
    int | None, typer.Option("--tokens-per-minute", min=1, metavar="N", help="At most so many tokens.")
]
TokensPerDay = Annotated[int | None, typer.Option("--tokens-per-day", min=1, metavar="N", help="Of a day in UTC.")]
TokensPerMonth = Annotated[
    int | None, typer.Option("--tokens-per-month", min=1, metavar="N", help="Of a month in UTC.")
]


@client_command(app, "create")
async def create_key(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what the key is for.")],
    *,
    scope: ScopeOption = None,
    models: ModelsOption = None,
    user: Annotated[str | None, typer.Option("--user", metavar="USER", help="Whose it is.")] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="DURATION", help="24h, 90d or never.", show_default="never")
    ] = None,
    requests_per_minute: PerMinute = None,
    tokens_per_minute: TokensPerMinute = None,
    tokens_per_day: TokensPerDay = None,
    tokens_per_month: TokensPerMonth = None,
) -> None:
    """Make an API key. It is shown this once. Limits are for all models together; see `corral keys limit`."""
    from corral.cli.access_views import a_limit, checked, lifetime_s, patterns
    from corral.wire.access import KeyIn

    said: dict[str, Any] = {"name": name, "expires_in_s": lifetime_s(expires)}
    if scope is not None:
        said["scope"] = scope
    if user is not None:
        said["user"] = user
    if models is not None:
        said["models"] = patterns(models)
    numbers = (requests_per_minute, tokens_per_minute, tokens_per_day, tokens_per_month)
    if any(numbers):
        said["limits"] = [a_limit("", numbers)]
    made = await session.client.keys.create(checked(KeyIn, **said))
    if session.as_json:
        render.write_json(made.model_dump(mode="json"))
        return
    render.write(made.key)
    render.say("\nIt is not shown again.")


@client_command(app, "show")
async def show_key(session: Session, key: Key) -> None:
    """Show one API key: what it may, and how much."""
    from corral.cli.access_views import key_in_full, pick_id

    found = await session.client.keys.get(pick_id(await session.client.keys.list(), key))
    if session.as_json:
        render.write_json(found.model_dump(mode="json"))
    else:
        render.write(key_in_full(found, session.now(), colour=render.has_colour(sys.stdout)))


@client_command(app, "change")
async def change_key(
    session: Session,
    key: Key,
    *,
    name: Annotated[str | None, typer.Option("--name", help="Another name.")] = None,
    scope: Annotated[str | None, typer.Option("--scope", metavar="SCOPE", help="admin, operate or infer.")] = None,
    models: Annotated[
        str | None, typer.Option("--models", metavar="PATTERN,…", help="Only these models; 'all' for every one.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="DURATION", help="24h or 90d from now, or never.")
    ] = None,
) -> None:
    """Change what an API key may. Its secret stays, and what is not named stays as it is."""
    from corral.cli.access_views import checked, key_in_full, lifetime_s, patterns, pick_id
    from corral.wire.access import KeyPatch

    said: dict[str, Any] = {}
    if name is not None:
        said["name"] = name
    if scope is not None:
        said["scope"] = scope
    if models is not None:
        said["models"] = None if models == "all" else patterns(models)
    if expires is not None:
        said["expires_in_s"] = lifetime_s(expires)
    change = checked(KeyPatch, **said)
    changed = await session.client.keys.change(pick_id(await session.client.keys.list(), key), change)
    if session.as_json:
        render.write_json(changed.model_dump(mode="json"))
    else:
        render.write(key_in_full(changed, session.now(), colour=render.has_colour(sys.stdout)))


@client_command(app, "limit")
async def limit_key(
    session: Session,
    key: Key,
    *,
    model: Annotated[
        str, typer.Option("--model", metavar="MODEL", help="Of this model.", show_default="all together")
    ] = "",
    requests_per_minute: PerMinute = None,
    tokens_per_minute: TokensPerMinute = None,
    tokens_per_day: TokensPerDay = None,
    tokens_per_month: TokensPerMonth = None,
) -> None:
    """Say how much a key may ask, of one model or of all together, in place of what was said of it before.

    Without a number, the limit is taken away.
    """
    from corral.cli.access_views import a_limit, key_in_full, pick_id
    from corral.wire.access import KeyPatch, LimitIn

    before = await session.client.keys.get(pick_id(await session.client.keys.list(), key))
    limits = [LimitIn(**limit.model_dump()) for limit in before.limits if limit.model != model]
    numbers = (requests_per_minute, tokens_per_minute, tokens_per_day, tokens_per_month)
    if any(numbers):
        limits.append(a_limit(model, numbers))
    changed = await session.client.keys.change(before.id, KeyPatch(limits=limits))
    if session.as_json:
        render.write_json(changed.model_dump(mode="json"))
    else:
        render.write(key_in_full(changed, session.now(), colour=render.has_colour(sys.stdout)))


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
async def rotate_key(
    session: Session,
    key: Key,
    *,
    grace: Annotated[
        str | None,
        typer.Option(
            "--grace", metavar="DURATION", help="The old one works so long: 1h, 7d.", show_default="not at all"
        ),
    ] = None,
) -> None:
    """Replace a key by a new one of the same name. The new one is shown this once."""
    from corral.cli.access_views import lifetime_s, pick_id

    key_id = pick_id(await session.client.keys.list(), key)
    made = await session.client.keys.rotate(key_id, grace_s=lifetime_s(grace, "--grace"))
    if session.as_json:
        render.write_json(made.model_dump(mode="json"))
        return
    render.write(made.key)
    end = f"; the old one works until {render.moment(made.previous_until)}" if made.previous_until else ""
    render.say(f"\nIt is not shown again, and takes the place of the old key {render.clean(made.name)}{end}.")
