"""`corral settings …`: commands that show the settings of running frontends and change the live ones.

`corral config` reads what a start on this machine would read; these commands ask the cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_group, register_command
from corral.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from corral.wire.cluster import SettingOut

app = make_group("Settings of the running frontends: show them, and change the live ones.")
Changes = Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", help="One or more, such as request_wait=90s.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="One or more names of live settings.")]


@register_command(app, "list")
async def list_settings(
    session: CommandSession,
    *,
    live: Annotated[
        bool, typer.Option("--live", help="Only settings that can be changed while frontends run.")
    ] = False,
) -> None:
    """List the settings of the frontend that answers, and where each comes from. Secrets are masked."""
    found = await session.client.cluster.get_settings()
    _show(session, [setting for setting in found.settings if setting.is_live or not live])


@register_command(app, "set")
async def set_settings(session: CommandSession, changes: Changes) -> None:
    """Change live settings of all frontends. All changes are made, or none."""
    await _change(session, _parse_pairs(changes))


@register_command(app, "reset")
async def reset_settings(session: CommandSession, names: Names) -> None:
    """Reset live settings of all frontends to their defaults."""
    await _change(session, dict.fromkeys(names))


async def _change(session: CommandSession, changes: Mapping[str, str | None]) -> None:
    changed = await session.client.cluster.change_settings(changes)
    _show(session, [setting for setting in changed.settings if setting.name in changes])


def _parse_pairs(changes: Sequence[str]) -> dict[str, str]:
    """Return the values by name. An empty value is left to the frontend, which says what the setting takes."""
    values: dict[str, str] = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not name or not equals:
            raise InvalidRequest(
                f"{change!r} is not a change of a setting.",
                hint="Write NAME=VALUE, such as request_wait=90s. `corral settings reset NAME` restores the default.",
            )
        if name in values:
            raise InvalidRequest(f"The setting {name} is named twice.", hint="Give each setting one value.")
        values[name] = value
    return values


def _show(session: CommandSession, settings: Sequence[SettingOut]) -> None:
    if session.as_json:
        render.print_json([setting.model_dump(mode="json") for setting in settings])
        return
    rows = [
        [setting.name, setting.value or render.NONE, setting.source, render.format_yes_no(setting.is_live)]
        for setting in settings
    ]
    render.print_data(
        render.format_table(("SETTING", "VALUE", "FROM", "LIVE"), rows, colour=render.has_colour(sys.stdout))
    )
