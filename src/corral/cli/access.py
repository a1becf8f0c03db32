"""`corral keys …`, `corral tokens …` and `corral users …`: commands for API keys, join tokens and users.

The files on this machine that hold a key, `admin.key` of `corral up` and the stored login, follow a rotation.
Guarantee: commands that replace these keys run one after another, so a file holds the secret of the last rotation on
this machine, and a secret that was replaced meanwhile is not written. Limit: a rotation on another machine or on the
page cannot write here; `corral keys recover` makes a key then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.cluster import recover
from corral.cli.command import CommandSession, make_group, register_command
from corral.cli.target import ClusterTarget, StoredLogin, get_credentials_path, list_known_targets, store_login
from corral.domain.errors import Conflict, CorralError, InvalidRequest, NotAuthenticated

if TYPE_CHECKING:
    from corral.wire.access import CreatedKeyOut, UserPatch

keys_app = make_group("API keys: create, change, rotate and revoke them.")
tokens_app = make_group("Join tokens, with which machines join the cluster: create, list and revoke them.")
users_app = make_group("Users: create, list, disable and delete them, and set scopes and passwords.")
UserArgument = Annotated[str, typer.Argument(metavar="USER", help="Name or id of the user.")]
PasswordStdinOption = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]


keys_app.command("recover")(recover)
RECOVERY_HINT = (
    "`corral keys recover` makes a new one, on the machine of `corral up` or with the address of the database."
)
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="Id, name or first characters of the key.")]


ScopeOption = Annotated[
    str | None,
    typer.Option(
        "--scope", metavar="SCOPE", help="What the key may do: admin, operate or infer.", show_default="infer"
    ),
]
ModelsOption = Annotated[
    str | None,
    typer.Option(
        "--models", metavar="PATTERN,…", help="Only these models, such as 'llama-*,qwen'.", show_default="all models"
    ),
]
PerMinute = Annotated[int | None, typer.Option("--requests-per-minute", min=1, metavar="N", help="Limit of requests.")]
TokensPerMinute = Annotated[
    int | None, typer.Option("--tokens-per-minute", min=1, metavar="N", help="Limit of tokens.")
]
TokensPerDay = Annotated[
    int | None, typer.Option("--tokens-per-day", min=1, metavar="N", help="Limit for each day (UTC).")
]
TokensPerMonth = Annotated[
    int | None, typer.Option("--tokens-per-month", min=1, metavar="N", help="Limit for each month (UTC).")
]


@register_command(keys_app, "create")
async def create_key(
    session: CommandSession,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the key: who or what uses it.")],
    *,
    scope: ScopeOption = None,
    is_admin: Annotated[
        bool, typer.Option("--admin", help="Same as --scope admin: the key may do everything.")
    ] = False,
    models: ModelsOption = None,
    user: Annotated[str | None, typer.Option("--user", metavar="USER", help="User that the key belongs to.")] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires", metavar="DURATION", help="Lifetime of the key: 24h, 90d or never.", show_default="never"
        ),
    ] = None,
    requests_per_minute: PerMinute = None,
    tokens_per_minute: TokensPerMinute = None,
    tokens_per_day: TokensPerDay = None,
    tokens_per_month: TokensPerMonth = None,
) -> None:
    """Create an API key for inference, or for more with --scope or --admin. The key is shown only once.

    Limits count all models together; `corral keys limit` sets limits for one model.
    """
    from corral.cli.access_views import describe_created_key, make_checked, make_limit, parse_lifetime_s, parse_patterns
    from corral.wire.access import KeyIn

    fields: dict[str, Any] = {"name": name, "expires_in_s": parse_lifetime_s(expires)}
    if is_admin and scope not in (None, "admin"):
        raise InvalidRequest(f"--admin and --scope {scope} contradict each other.", hint="Give only one of them.")
    if is_admin or scope is not None:
        fields["scope"] = "admin" if is_admin else scope
    if user is not None:
        fields["user"] = user
    if models is not None:
        fields["models"] = parse_patterns(models)
    numbers = (requests_per_minute, tokens_per_minute, tokens_per_day, tokens_per_month)
    if any(numbers):
        fields["limits"] = [make_limit("", numbers)]
    made = await session.client.keys.create(make_checked(KeyIn, **fields))
    if session.as_json:
        render.print_json(made.model_dump(mode="json"))
        return
    render.print_data(made.key)
    render.print_notice(f"\n{describe_created_key(made, session.read_time())}")


@register_command(keys_app, "show")
async def show_key(session: CommandSession, key: KeyArgument) -> None:
    """Show one API key with its scope, models and limits."""
    from corral.cli.access_views import format_key, pick_id

    found = await session.client.keys.get(pick_id(await session.client.keys.list(), key))
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
    else:
        render.print_data(format_key(found, session.read_time(), colour=render.has_colour(sys.stdout)))


@register_command(keys_app, "change")
async def change_key(
    session: CommandSession,
    key: KeyArgument,
    *,
    name: Annotated[str | None, typer.Option("--name", help="New name of the key.")] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", metavar="SCOPE", help="What the key may do: admin, operate or infer.")
    ] = None,
    models: Annotated[
        str | None, typer.Option("--models", metavar="PATTERN,…", help="Only these models; 'all' for all models.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="DURATION", help="New lifetime from now: 24h, 90d or never.")
    ] = None,
) -> None:
    """Change the name, scope, models or lifetime of an API key. Its secret stays the same."""
    from corral.cli.access_views import format_key, make_checked, parse_lifetime_s, parse_patterns, pick_id
    from corral.wire.access import KeyPatch

    fields: dict[str, Any] = {}
    if name is not None:
        fields["name"] = name
    if scope is not None:
        fields["scope"] = scope
    if models is not None:
        fields["models"] = None if models == "all" else parse_patterns(models)
    if expires is not None:
        fields["expires_in_s"] = parse_lifetime_s(expires)
    change = make_checked(KeyPatch, **fields)
    changed = await session.client.keys.change(pick_id(await session.client.keys.list(), key), change)
    if session.as_json:
        render.print_json(changed.model_dump(mode="json"))
    else:
        render.print_data(format_key(changed, session.read_time(), colour=render.has_colour(sys.stdout)))


@register_command(keys_app, "limit")
async def limit_key(
    session: CommandSession,
    key: KeyArgument,
    *,
    model: Annotated[
        str,
        typer.Option("--model", metavar="MODEL", help="Limit for this model only.", show_default="all models together"),
    ] = "",
    requests_per_minute: PerMinute = None,
    tokens_per_minute: TokensPerMinute = None,
    tokens_per_day: TokensPerDay = None,
    tokens_per_month: TokensPerMonth = None,
) -> None:
    """Set the limits of an API key for one model or for all together, and replace its previous limits there.

    Without a number, the limit is removed.
    """
    from corral.cli.access_views import format_key, make_limit, pick_id
    from corral.wire.access import KeyPatch, LimitIn

    previous = await session.client.keys.get(pick_id(await session.client.keys.list(), key))
    limits = [LimitIn(**limit.model_dump()) for limit in previous.limits if limit.model != model]
    numbers = (requests_per_minute, tokens_per_minute, tokens_per_day, tokens_per_month)
    if any(numbers):
        limits.append(make_limit(model, numbers))
    changed = await session.client.keys.change(previous.id, KeyPatch(limits=limits))
    if session.as_json:
        render.print_json(changed.model_dump(mode="json"))
    else:
        render.print_data(format_key(changed, session.read_time(), colour=render.has_colour(sys.stdout)))


@register_command(keys_app, "list")
async def list_keys(session: CommandSession) -> None:
    """List the API keys."""
    from corral.cli.access_views import format_key_list

    keys = await session.client.keys.list()
    if session.as_json:
        render.print_json([key.model_dump(mode="json") for key in keys])
    elif keys:
        render.print_data(format_key_list(keys, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("There are no API keys.")


@register_command(keys_app, "revoke")
async def revoke_key(
    session: CommandSession,
    key: KeyArgument,
    *,
    is_sure: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation before revoking the key in use.")
    ] = False,
    is_last: Annotated[
        bool,
        typer.Option(
            "--last", help="Revoke it even if it is the last working admin key; does not ask for confirmation."
        ),
    ] = False,
) -> None:
    """Revoke an API key at once. Asks for confirmation if it is the key in use or the last admin key."""
    from corral.cli.access_views import pick_id

    key_id = pick_id(await session.client.keys.list(), key)
    if not (is_sure or is_last) and (await session.client.users.get_me()).key_id == key_id:
        _require_confirmation("This is the key that you are using. Further commands with it will be refused.", "--yes")
    try:
        revoked = await session.client.keys.revoke(key_id, last=is_last)
    except Conflict as error:
        if error.slug != "last_key":
            raise
        _require_confirmation(f"This is the last working admin key. {RECOVERY_HINT}", "--last")
        revoked = await session.client.keys.revoke(key_id, last=True)
    if session.as_json:
        render.print_json(revoked.model_dump(mode="json"))
    else:
        render.print_notice(f"Key {render.clean_text(revoked.name)} ({revoked.prefix}…) was revoked.")


def _require_confirmation(sentence: str, flag: str) -> None:
    """Ask for confirmation on a terminal and end the command on a no; without a terminal, require the flag."""
    if not sys.stdin.isatty():
        raise Conflict(sentence, hint=f"Add {flag} to revoke it anyway.", code="not_confirmed")
    if not render.confirm(f"{sentence} Revoke it?"):
        raise typer.Exit(1)


@register_command(keys_app, "rotate")
async def rotate_key(
    session: CommandSession,
    key: KeyArgument,
    *,
    grace: Annotated[
        str | None,
        typer.Option(
            "--grace",
            metavar="DURATION",
            help="How long the old secret still works: 1h, 7d.",
            show_default="not at all",
        ),
    ] = None,
) -> None:
    """Replace the secret of an API key. The new secret is shown only once, and replaces the stored one."""
    from corral.cli.access_views import parse_lifetime_s

    grace_s = parse_lifetime_s(grace, "--grace")
    with hold_key_files() as has_waited:
        try:
            made, sentences = await _rotate_and_store(session, key, grace_s)
        except NotAuthenticated as error:
            if not has_waited:
                raise
            raise Conflict(
                "Another command has just replaced the key that this one uses; nothing was changed.",
                hint="Run it again: it reads the new key.",
                code="key_replaced",
            ) from error
    if session.as_json:
        render.print_json(made.model_dump(mode="json"))
    else:
        render.print_data(made.key)
    for sentence in sentences:
        render.print_notice(sentence)
    if session.as_json:
        return
    end = f"; the old one works until {render.format_time(made.previous_until)}" if made.previous_until else ""
    render.print_notice(f"\nThis key is not shown again. It replaces the old key {render.clean_text(made.name)}{end}.")


async def _rotate_and_store(
    session: CommandSession, key: str, grace_s: float | None
) -> tuple[CreatedKeyOut, list[str]]:
    """Rotate the key and write its secret to the files that held it; return the key with a sentence for each file."""
    from corral.cli.access_views import pick_id

    key_id = pick_id(await session.client.keys.list(), key)
    files = await find_key_files(key_id)
    made = await session.client.keys.rotate(key_id, grace_s=grace_s)
    for file in files:
        await check_still_works(file, made.key)
    # Written before the secret is printed: printing fails if the pipe is closed, and the old key no longer works.
    return made, [_write_key(file, made.key) for file in files]


def _write_key(file: KeyFile, key: str) -> str:
    """Write a key to a file and return a sentence that says which key the file holds now."""
    try:
        file.write(key)
    except OSError as error:
        return f"{file.path} still holds the old key ({error.strerror}): put the new one there."
    return f"{file.path} holds the new key."


@register_command(tokens_app, "create")
async def create_token(
    session: CommandSession,
    *,
    name: Annotated[str, typer.Option("--name", help="Name of the token: what it is for.")] = "join token",
    uses: Annotated[
        int, typer.Option("--uses", min=0, max=100_000, help="How many machines may join with it; 0 for any number.")
    ] = 1,
    expires: Annotated[
        str, typer.Option("--expires", metavar="DURATION", help="Lifetime of the token: 30m, 24h, 7d or never.")
    ] = "24h",
    approve: Annotated[
        bool, typer.Option("--approve", help="Approve machines that join with it automatically.")
    ] = False,
) -> None:
    """Create a join token. It is shown only once, with the command for the machine."""
    from corral.cli.access_views import format_join, make_join_fields, parse_lifetime_s
    from corral.wire.access import TokenIn

    token = TokenIn(name=name, max_uses=uses or None, expires_in_s=parse_lifetime_s(expires), approves=approve)
    join = await session.client.tokens.get_join_commands()
    if join.problem:
        render.print_notice(f"warning: {join.problem}\n\nhint: {join.hint}\n")
    made = await session.client.tokens.create(token)
    if session.as_json:
        render.print_json(made.model_dump(mode="json") | make_join_fields(join, made.token))
        return
    render.print_data(made.token)
    render.print_notice(f"\n{format_join(join, made.token)}\n")
    if not approve:
        render.print_notice("Then approve the machine: corral nodes approve NODE")


@register_command(tokens_app, "list")
async def list_tokens(session: CommandSession) -> None:
    """List the join tokens."""
    from corral.cli.access_views import format_token_list

    tokens = await session.client.tokens.list()
    if session.as_json:
        render.print_json([token.model_dump(mode="json") for token in tokens])
    elif tokens:
        render.print_data(format_token_list(tokens, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("There are no join tokens. `corral tokens create` creates one.")


@register_command(tokens_app, "revoke")
async def revoke_token(
    session: CommandSession,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Id, name or first characters.")],
) -> None:
    """Revoke a join token. Machines that have joined with it stay."""
    from corral.cli.access_views import pick_id

    revoked = await session.client.tokens.revoke(pick_id(await session.client.tokens.list(), token))
    if session.as_json:
        render.print_json(revoked.model_dump(mode="json"))
    else:
        render.print_notice(f"Token {render.clean_text(revoked.name)} ({revoked.prefix}…) is revoked.")


@register_command(users_app, "create")
async def create_user(
    session: CommandSession,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name: letters, digits and . _ @ + -")],
    *,
    admin: Annotated[bool, typer.Option("--admin", help="Same as --scope admin.")] = False,
    scope: Annotated[
        str, typer.Option("--scope", metavar="SCOPE", help="What the user may do: admin, operate or infer.")
    ] = "infer",
    no_password: Annotated[
        bool,
        typer.Option(
            "--no-password", help="Set no password: the user has API keys only, or signs in through a provider."
        ),
    ] = False,
    password_stdin: PasswordStdinOption = False,
) -> None:
    """Create a user. Asks for the password on a terminal."""
    from corral.cli.access_views import make_checked
    from corral.wire.access import UserIn

    fields = {"name": name, "scope": "admin" if admin else scope}
    # Check the name before asking for a password, so that it is not typed in vain.
    make_checked(UserIn, **fields)
    if not no_password:
        fields["password"] = _read_password(is_piped=password_stdin)
    made = await session.client.users.create(make_checked(UserIn, **fields))
    if session.as_json:
        render.print_json(made.model_dump(mode="json"))
    else:
        render.print_notice(f"Created user {render.clean_text(made.name)} with scope {made.scope}.")


@register_command(users_app, "list")
async def list_users(session: CommandSession) -> None:
    """List the users."""
    from corral.cli.access_views import format_user_list

    users = await session.client.users.list()
    if session.as_json:
        render.print_json([user.model_dump(mode="json") for user in users])
    elif users:
        render.print_data(format_user_list(users, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("There are no users. `corral users create --admin NAME` creates one.")


@register_command(users_app, "disable")
async def disable_user(session: CommandSession, user: UserArgument) -> None:
    """Disable a user. Their keys and sessions stop working at once, and work again when the user is enabled."""
    from corral.wire.access import UserPatch

    await _change_user(session, user, UserPatch(disabled=True), "is disabled, with all keys and sessions")


@register_command(users_app, "enable")
async def enable_user(session: CommandSession, user: UserArgument) -> None:
    """Enable a user again."""
    from corral.wire.access import UserPatch

    await _change_user(session, user, UserPatch(disabled=False), "is enabled")


@register_command(users_app, "scope")
async def set_scope(
    session: CommandSession,
    user: UserArgument,
    scope: Annotated[str, typer.Argument(metavar="SCOPE", help="What the user may do: admin, operate or infer.")],
) -> None:
    """Set the scope of a user. It also limits what their keys may do."""
    from corral.cli.access_views import make_checked
    from corral.wire.access import UserPatch

    await _change_user(session, user, make_checked(UserPatch, scope=scope), f"has scope {scope} now")


@register_command(users_app, "passwd")
async def set_password(
    session: CommandSession, user: UserArgument, *, password_stdin: PasswordStdinOption = False
) -> None:
    """Set the password of a user. Sessions that were opened with the old password end."""
    from corral.cli.access_views import make_checked
    from corral.wire.access import UserPatch

    change = make_checked(UserPatch, password=_read_password(is_piped=password_stdin))
    await _change_user(session, user, change, "has a new password; open sessions have ended")


@register_command(users_app, "delete")
async def delete_user(session: CommandSession, user: UserArgument) -> None:
    """Delete a user with their keys and sessions. The record of their usage stays."""
    deleted = await session.client.users.delete(await _find_user_id(session, user))
    if session.as_json:
        render.print_json(deleted.model_dump(mode="json"))
    else:
        render.print_notice(f"User {render.clean_text(deleted.name)} was deleted, with all keys and sessions.")


async def _change_user(session: CommandSession, user: str, change: UserPatch, sentence: str) -> None:
    changed = await session.client.users.change(await _find_user_id(session, user), change)
    if session.as_json:
        render.print_json(changed.model_dump(mode="json"))
    else:
        render.print_notice(f"User {render.clean_text(changed.name)} {sentence}.")


async def _find_user_id(session: CommandSession, text: str) -> str:
    users = await session.client.users.list()
    return next((user.id for user in users if text.lower() in (user.id, user.name)), text)


def _read_password(*, is_piped: bool) -> str:
    if is_piped:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise InvalidRequest(
            "A password is needed, and standard input is not a terminal.", hint="Pipe it in with --password-stdin."
        )
    with render.allow_interrupt():
        password = getpass("Password (not shown): ", sys.stderr)
        repeated = getpass("Repeat the password: ", sys.stderr)
    if repeated != password:
        raise InvalidRequest("The two passwords differ.")
    return password


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """A file on this machine in which the command line finds an API key, with the cluster of the key.

    It also says how to write another key there.
    """

    path: Path
    url: str
    write: Callable[[str], object]


@contextmanager
def hold_key_files() -> Iterator[bool]:
    """Keep other commands from replacing a stored key until the block ends; yields whether one had to be waited for.

    Take this before the files are read: the key in them may be replaced while this waits.
    """
    from corral.embedded.private_files import hold_file_lock

    has_waited = False

    def on_wait(path: Path) -> None:
        nonlocal has_waited
        has_waited = True
        render.print_notice(f"Waiting for another command that replaces the key in {path}.")

    with ExitStack() as stack:
        # In one order for all commands: two that wait for each other would never end.
        for target in sorted(list_known_targets(), key=_get_path):
            stack.enter_context(hold_file_lock(_get_path(target), on_wait))
        yield has_waited


async def find_key_files(key_id: str) -> list[KeyFile]:
    """Return the files on this machine that hold the secret of this key. Call this before the key is rotated."""
    return [_make_key_file(target) for target in list_known_targets() if await _has_key(target, key_id)]


async def check_still_works(file: KeyFile, secret: str) -> None:
    """Raise `Conflict` if the cluster of the file refuses this new secret: it was replaced since."""
    try:
        await _find_key_id(file.url, secret)
    except NotAuthenticated as error:
        raise Conflict(
            f"This key was rotated or revoked meanwhile; {file.path} was not changed.",
            hint="Their secret is the one that works. `corral keys recover` makes another admin key on the machine of "
            "`corral up`.",
            code="key_replaced",
        ) from error
    except CorralError:
        return  # The cluster did not answer, which says nothing about the secret.


async def _has_key(target: ClusterTarget, key_id: str) -> bool:
    """Return whether the target uses the key with this id, according to the cluster of the target."""
    if target.key is None:
        return False
    try:
        return await _find_key_id(target.url, target.key) == key_id
    except CorralError:
        return False


async def _find_key_id(url: str, secret: str) -> str | None:
    """Return the id of the key that this secret belongs to; raise `NotAuthenticated` if the cluster refuses it."""
    from corral.adapters.system import SystemClock, SystemIdGenerator
    from corral.client import CorralClient

    async with CorralClient(url, secret, clock=SystemClock(), ids=SystemIdGenerator()) as client:
        return (await client.users.get_me()).key_id


def _get_path(target: ClusterTarget) -> Path:
    return target.key_file or get_credentials_path()


def _make_key_file(target: ClusterTarget) -> KeyFile:
    path, url = _get_path(target), target.url
    if target.key_file is None:
        return KeyFile(path=path, url=url, write=lambda key: store_login(StoredLogin(url=url, key=key)))

    def write(key: str) -> None:
        from corral.embedded.private_files import write_private

        write_private(path, f"{key}\n")

    return KeyFile(path=path, url=url, write=write)
