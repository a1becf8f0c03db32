"""`corral secrets …`: commands for secrets, values such as tokens of other services that are stored under a name.

A value comes from a hidden prompt or from standard input, never from an argument: other users of the machine can read
those, and shells remember them.
"""

from __future__ import annotations

import sys
from getpass import getpass
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_group, register_command
from corral.cli.completion import complete_secret_names
from corral.domain.errors import InvalidRequest
from corral.domain.secret import VALUE_BYTES_MAX, check_secret_name, check_secret_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from corral.wire.secrets import SecretOut

app = make_group("Secrets, such as tokens of other services: set, list and delete them.")
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the secret.", autocompletion=complete_secret_names)
]
ClusterOption = Annotated[
    bool, typer.Option("--cluster", help="The secrets of the whole cluster, which admins keep, instead of your own.")
]


@register_command(app, "list")
async def list_secrets(session: CommandSession, *, cluster: ClusterOption = False) -> None:
    """List the names of your secrets, and when each was set and used. Values are never shown."""
    found = await session.client.secrets.list(is_cluster=cluster)
    if session.as_json:
        render.print_json([secret.model_dump(mode="json") for secret in found])
    elif found:
        render.print_data(_format_list(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        kind, flag = ("cluster secrets", " --cluster") if cluster else ("secrets", "")
        render.print_notice(f"There are no {kind}. `corral secrets set{flag} NAME` stores one.")


@register_command(app, "set")
async def set_secret(session: CommandSession, name: NameArgument, *, cluster: ClusterOption = False) -> None:
    """Store a value under a name, and replace the previous one. Asks for the value, or reads it from standard input.

    One line break at the end of standard input is not part of the value.
    """
    # Checked before asking, so that no value is typed in vain.
    check_secret_name(name)
    value = _read_value(name)
    check_secret_value(value)
    stored = await session.client.secrets.put(name, value, is_cluster=cluster)
    if session.as_json:
        render.print_json(stored.model_dump(mode="json"))
        return
    kind = "cluster secret" if cluster else "secret"
    render.print_notice(f"Stored {kind} {stored.name}. Configurations refer to it as {stored.reference}.")


@register_command(app, "delete")
async def delete_secret(session: CommandSession, name: NameArgument, *, cluster: ClusterOption = False) -> None:
    """Delete a secret. What refers to it fails from now on."""
    check_secret_name(name)
    await session.client.secrets.delete(name, is_cluster=cluster)
    if session.as_json:
        render.print_json({"name": name, "deleted": True})
    else:
        render.print_notice(f"Deleted {'cluster secret' if cluster else 'secret'} {name}.")


def _read_value(name: str) -> str:
    if sys.stdin.isatty():
        with render.allow_interrupt():
            return getpass(f"Value of {name} (not shown): ", sys.stderr)
    try:
        # Two more than the longest value with its line break, so that a longer one is noticed and not read to its end.
        piped = sys.stdin.read(VALUE_BYTES_MAX + 3)
    except UnicodeDecodeError:
        raise InvalidRequest(
            "Standard input is not text.", hint="Encode binary data with Base64.", code="bad_secret_value"
        ) from None
    return piped.removesuffix("\n").removesuffix("\r")


def _format_list(found: Sequence[SecretOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            secret.name,
            secret.reference,
            f"{render.format_age(secret.updated_at, now)} ago by {secret.changed_by}",
            f"{render.format_age(secret.last_used_at, now)} ago" if secret.last_used_at else "never",
        ]
        for secret in found
    ]
    return render.format_table(("NAME", "REFERENCE", "SET", "LAST USED"), rows, colour=colour)
