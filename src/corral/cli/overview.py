"""`corral cluster`: the frontends, their leader, PostgreSQL and NATS; `corral explain MODEL`: which replica the next
request would go to, and the facts about every replica.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import CommandSession, add_session
from corral.cli.completion import complete_model_names
from corral.domain.state_words import NODE_WORDS, find_word

if TYPE_CHECKING:
    from datetime import datetime

    from corral.wire.cluster import ClusterOut, DependencyOut, RouteCandidateOut, RoutingExplanationOut

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
