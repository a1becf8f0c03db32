"""`corral cluster`: the frontends, who leads, and the parts that all of them stand on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from corral.cli import render
from corral.cli.command import Session, with_session

if TYPE_CHECKING:
    from datetime import datetime

    from corral.wire.cluster import ClusterOut, PartOut


async def _show_cluster(session: Session) -> None:
    """Show the frontends, the leader, PostgreSQL and NATS."""
    found = await session.client.cluster()
    if session.as_json:
        render.write_json(found.model_dump(mode="json"))
    else:
        render.write(_in_full(found, session.now(), colour=render.has_colour(sys.stdout)))
    for sentence in found.degraded:
        render.say(f"degraded: {render.clean(sentence)}")


cluster = with_session(_show_cluster)


def _in_full(found: ClusterOut, now: datetime, *, colour: bool) -> str:
    leader = found.leader
    since = f", for {render.age(leader.acquired_at, now)}" if leader.acquired_at else ""
    counts: dict[str, int] = {}
    for node in found.nodes:
        counts[node.status] = counts.get(node.status, 0) + 1
    summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none"
    facts = render.facts(
        {
            "Version": found.version,
            "Leader": f"{leader.holder} (term {leader.term}{since})" if leader.holder else f"none (term {leader.term})",
            "PostgreSQL": _part(found.postgres),
            "NATS": _part(found.nats),
            "Nodes": summary,
            "Answered by": found.answered_by,
        }
    )
    rows = [
        [
            frontend.id,
            f"{frontend.host}:{frontend.port}",
            "up" if frontend.alive else "lost",
            "leader" if frontend.leader else render.NONE,
            frontend.version,
            render.age(frontend.started_at, now),
            f"{render.age(frontend.seen_at, now)} ago",
        ]
        for frontend in found.frontends
    ]
    headers = ("FRONTEND", "ADDRESS", "STATE", "ROLE", "VERSION", "AGE", "SEEN")
    return f"{facts}\n{render.table(headers, rows, colour=colour)}"


def _part(part: PartOut) -> str:
    return f"{part.state}: {part.detail}" if part.detail else part.state
