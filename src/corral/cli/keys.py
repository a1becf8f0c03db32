"""`corral keys …`: who may use the API."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import Session, a_group, client_command
from corral.cli.recover import recover
from corral.domain.errors import Conflict, InvalidRequest

app = a_group("API keys: who may use the API.")
app.command("recover")(recover)
WAY_BACK = "The way back is `corral keys recover`, on the machine of `corral up` or with the address of the database."
Key = Annotated[str, typer.Argument(metavar="KEY", help="Id, name or first characters.")]


ScopeOption = Annotated[
    str | None, typer.Option("--scope", metavar="SCOPE", help="admin, operate or infer.", show_default="infer")
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
    is_admin: Annotated[bool, typer.Option("--admin", help="The same as --scope admin: it may do everything.")] = False,
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
    """Make an API key for asking models, or with --scope or --admin for more. It is shown this once.

    Limits are for all models together; see `corral keys limit`.
    """
    from corral.cli.access_views import a_limit, checked, lifetime_s, made_key, patterns
    from corral.wire.access import KeyIn

    said: dict[str, Any] = {"name": name, "expires_in_s": lifetime_s(expires)}
    if is_admin and scope not in (None, "admin"):
        raise InvalidRequest(f"--admin and --scope {scope} contradict each other.", hint="Give one of them.")
    if is_admin or scope is not None:
        said["scope"] = "admin" if is_admin else scope
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
    render.say(f"\n{made_key(made, session.now())}")


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
async def revoke_key(
    session: Session,
    key: Key,
    *,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before revoking the key in use.")] = False,
    is_last: Annotated[bool, typer.Option("--last", help="Also if no other admin key works; does not ask.")] = False,
) -> None:
    """Revoke an API key. It stops working at once. Asks before the key in use and the last admin key are revoked."""
    from corral.cli.access_views import pick_id

    key_id = pick_id(await session.client.keys.list(), key)
    if not (is_sure or is_last) and (await session.client.users.me()).key_id == key_id:
        _insist("This is the key that you are using: afterwards it is refused.", "--yes")
    try:
        revoked = await session.client.keys.revoke(key_id, last=is_last)
    except Conflict as error:
        if error.slug != "last_key":
            raise
        _insist(f"This is the last admin key that works. {WAY_BACK}", "--last")
        revoked = await session.client.keys.revoke(key_id, last=True)
    if session.as_json:
        render.write_json(revoked.model_dump(mode="json"))
    else:
        render.say(f"Key {render.clean(revoked.name)} ({revoked.prefix}…) is revoked.")


def _insist(sentence: str, flag: str) -> None:
    """Go on only after a yes on a terminal; without a terminal the flag has to be given."""
    if not sys.stdin.isatty():
        raise Conflict(sentence, hint=f"Add {flag} if that is meant.", code="not_confirmed")
    if not render.ask(f"{sentence} Revoke it?"):
        raise typer.Exit(1)


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
    """Replace the secret of a key. The new one is shown this once, and written to where this machine keeps the key."""
    from corral.cli.access_views import lifetime_s, pick_id
    from corral.cli.target import find_key_files

    key_id = pick_id(await session.client.keys.list(), key)
    files = await find_key_files(key_id)
    made = await session.client.keys.rotate(key_id, grace_s=lifetime_s(grace, "--grace"))
    if session.as_json:
        render.write_json(made.model_dump(mode="json"))
    else:
        render.write(made.key)
    for file in files:
        try:
            file.write(made.key)
        except OSError as error:
            render.say(f"{file.path} still holds the old key ({error.strerror}): put the new one there.")
        else:
            render.say(f"{file.path} holds the new key.")
    if session.as_json:
        return
    end = f"; the old one works until {render.moment(made.previous_until)}" if made.previous_until else ""
    render.say(f"\nIt is not shown again, and takes the place of the old key {render.clean(made.name)}{end}.")
