"""Commands about the cluster as a whole: `corral cluster`, `corral explain MODEL` and `corral settings …`.

`corral config` reads what a start on this machine would read; `corral settings` asks the running frontends.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import CommandSession, add_session, make_group, register_command
from corral.cli.completion import complete_model_names
from corral.domain.errors import InvalidRequest
from corral.domain.state_words import NODE_WORDS, find_word

if TYPE_CHECKING:
    from datetime import datetime

    from corral.wire.cluster import ClusterOut, DependencyOut, RouteCandidateOut, RoutingExplanationOut, SettingOut

_EXPLAIN_HEADERS = ("REPLICA", "NODE", "EXPECTED", "BUSY", "RESPONSE", "BREAKER")


async def _show_cluster(session: CommandSession) -> None:
    """Show the frontends, the leader, PostgreSQL and NATS."""
    found = await session.client.cluster.get()
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
    else:
        render.print_data(_format_cluster(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    for sentence in found.degraded:
        render.print_notice(f"degraded: {render.clean_text(sentence)}")


cluster = add_session(_show_cluster)


def _format_cluster(found: ClusterOut, now: datetime, *, colour: bool) -> str:
    leader = found.leader
    since = f", for {render.format_age(leader.acquired_at, now)}" if leader.acquired_at else ""
    counts: dict[str, int] = {}
    for node in found.nodes:
        counts[node.status] = counts.get(node.status, 0) + 1
    summary = (
        ", ".join(f"{count} {find_word(NODE_WORDS, status)}" for status, count in sorted(counts.items())) or "none"
    )
    facts = render.format_facts(
        {
            "Version": found.version,
            "Leader": f"{leader.holder} (term {leader.term}{since})" if leader.holder else f"none (term {leader.term})",
            "PostgreSQL": _format_dependency(found.postgres),
            "NATS": _format_dependency(found.nats),
            "Nodes": summary,
            "This frontend": found.answered_by,
        }
    )
    rows = [
        [
            frontend.id,
            f"{frontend.host}:{frontend.port}",
            "up" if frontend.alive else "lost",
            "leader" if frontend.leader else render.NONE,
            frontend.version,
            render.format_age(frontend.started_at, now),
            f"{render.format_age(frontend.seen_at, now)} ago",
        ]
        for frontend in found.frontends
    ]
    headers = ("FRONTEND", "ADDRESS", "STATE", "ROLE", "VERSION", "AGE", "SEEN")
    return f"{facts}\n{render.format_table(headers, rows, colour=colour)}"


def _format_dependency(dependency: DependencyOut) -> str:
    return f"{dependency.state}: {dependency.detail}" if dependency.detail else dependency.state


async def _explain(
    session: CommandSession,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name or alias.", autocompletion=complete_model_names)],
) -> None:
    """Show which replica would serve a request now, and why. No request is sent."""
    found = await session.client.cluster.explain_routing(model)
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
        return
    text = _format_explanation(found, colour=render.has_colour(sys.stdout))
    if text:
        render.print_data(text)
    render.print_notice(render.clean_text(found.message))


explain = add_session(_explain)


def _format_explanation(found: RoutingExplanationOut, *, colour: bool) -> str:
    parts = []
    if found.candidates:
        parts.append(render.format_table(_EXPLAIN_HEADERS, map(_make_candidate_row, found.candidates), colour=colour))
    if found.left_out:
        rows = [[one.replica_id, one.node, one.sentence.removeprefix(f"{one.node}: ")] for one in found.left_out]
        parts.append(render.format_table(("LEFT OUT", "NODE", "BECAUSE"), rows, colour=colour))
    return "\n".join(parts)


def _make_candidate_row(one: RouteCandidateOut) -> list[str]:
    return [
        one.replica_id + (" (next)" if one.is_picked else ""),
        one.node,
        "none now" if one.expected_s is None else f"{one.expected_s:.3g}s",
        f"{one.in_flight}/{one.capacity}",
        f"{one.seconds:.3g}s" + ("" if one.is_learnt else " (assumed)"),
        one.breaker,
    ]


settings_app = make_group("Settings of the running frontends: show them, and change the live ones.")
Changes = Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", help="One or more, such as request_wait=90s.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="One or more names of live settings.")]


@register_command(settings_app, "list")
async def list_settings(
    session: CommandSession,
    *,
    live: Annotated[
        bool, typer.Option("--live", help="Only settings that can be changed while frontends run.")
    ] = False,
) -> None:
    """List the settings of the frontend that answers, and where each comes from. Secrets are masked."""
    found = await session.client.cluster.get_settings()
    _show_settings(session, [setting for setting in found.settings if setting.is_live or not live])


@register_command(settings_app, "set")
async def set_settings(session: CommandSession, changes: Changes) -> None:
    """Change live settings of all frontends. All changes are made, or none."""
    await _change_settings(session, _parse_pairs(changes))


@register_command(settings_app, "reset")
async def reset_settings(session: CommandSession, names: Names) -> None:
    """Reset live settings of all frontends to their defaults."""
    await _change_settings(session, dict.fromkeys(names))


async def _change_settings(session: CommandSession, changes: Mapping[str, str | None]) -> None:
    changed = await session.client.cluster.change_settings(changes)
    _show_settings(session, [setting for setting in changed.settings if setting.name in changes])


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


def _show_settings(session: CommandSession, settings: Sequence[SettingOut]) -> None:
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
