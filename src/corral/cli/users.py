"""`corral users …`: people, what they may, and how they come in."""

from __future__ import annotations

import sys
from getpass import getpass
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import Session, a_group, client_command
from corral.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from corral.wire.users import UserPatch

app = a_group("Users: people, what they may, and how they come in.")
User = Annotated[str, typer.Argument(metavar="USER", help="Name or id.")]
PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]


@client_command(app, "create")
async def create_user(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits and . _ @ + -")],
    *,
    admin: Annotated[bool, typer.Option("--admin", help="The same as --scope admin.")] = False,
    scope: Annotated[str, typer.Option("--scope", metavar="SCOPE", help="admin, operate or infer.")] = "infer",
    no_password: Annotated[
        bool, typer.Option("--no-password", help="They hold keys, or come in by a provider.")
    ] = False,
    password_stdin: PasswordStdin = False,
) -> None:
    """Make a user. Asks for the password on a terminal."""
    from corral.cli.access_views import checked
    from corral.wire.users import UserIn

    said = {"name": name, "scope": "admin" if admin else scope}
    # Before anybody types a password for nothing.
    checked(UserIn, **said)
    if not no_password:
        said["password"] = _password(is_piped=password_stdin)
    made = await session.client.users.create(checked(UserIn, **said))
    if session.as_json:
        render.write_json(made.model_dump(mode="json"))
    else:
        render.say(f"User {render.clean(made.name)} may {made.scope}.")


@client_command(app, "list")
async def list_users(session: Session) -> None:
    """List the users."""
    from corral.cli.access_views import user_list

    users = await session.client.users.list()
    if session.as_json:
        render.write_json([user.model_dump(mode="json") for user in users])
    elif users:
        render.write(user_list(users, session.now(), colour=render.has_colour(sys.stdout)))
    else:
        render.say("There are no users. `corral users create --admin NAME` makes one.")


@client_command(app, "disable")
async def disable_user(session: Session, user: User) -> None:
    """Disable a user. Their keys and sessions stop at once, and stay for when they are enabled again."""
    from corral.wire.users import UserPatch

    await _change(session, user, UserPatch(disabled=True), "is disabled, with every key and session")


@client_command(app, "enable")
async def enable_user(session: Session, user: User) -> None:
    """Enable a user again."""
    from corral.wire.users import UserPatch

    await _change(session, user, UserPatch(disabled=False), "is enabled")


@client_command(app, "scope")
async def set_scope(
    session: Session,
    user: User,
    scope: Annotated[str, typer.Argument(metavar="SCOPE", help="admin, operate or infer.")],
) -> None:
    """Say what a user may. Their keys may no more than that."""
    from corral.cli.access_views import checked
    from corral.wire.users import UserPatch

    await _change(session, user, checked(UserPatch, scope=scope), f"may {scope}")


@client_command(app, "passwd")
async def set_password(session: Session, user: User, *, password_stdin: PasswordStdin = False) -> None:
    """Set the password of a user. It ends the sessions of the old one."""
    from corral.cli.access_views import checked
    from corral.wire.users import UserPatch

    change = checked(UserPatch, password=_password(is_piped=password_stdin))
    await _change(session, user, change, "has a new password; open sessions have ended")


@client_command(app, "delete")
async def delete_user(session: Session, user: User) -> None:
    """Delete a user with their keys and sessions. What they have used stays in the record."""
    gone = await session.client.users.delete(await _id_of(session, user))
    if session.as_json:
        render.write_json(gone.model_dump(mode="json"))
    else:
        render.say(f"User {render.clean(gone.name)} is gone, with every key and session.")


async def _change(session: Session, user: str, change: UserPatch, sentence: str) -> None:
    changed = await session.client.users.change(await _id_of(session, user), change)
    if session.as_json:
        render.write_json(changed.model_dump(mode="json"))
    else:
        render.say(f"User {render.clean(changed.name)} {sentence}.")


async def _id_of(session: Session, said: str) -> str:
    users = await session.client.users.list()
    return next((user.id for user in users if said.lower() in (user.id, user.name)), said)


def _password(*, is_piped: bool) -> str:
    if is_piped:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise InvalidRequest("There is nobody to ask for a password.", hint="Pipe it in with --password-stdin.")
    with render.end_at_once():
        password = getpass("Password (not shown): ", sys.stderr)
        again = getpass("Once more: ", sys.stderr)
    if again != password:
        raise InvalidRequest("The two passwords differ.")
    return password
