"""`corral explain MODEL`: where the next request would go, and what is known of every replica."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from corral.cli import render
from corral.cli.command import Session, with_session
from corral.cli.complete import model_names
from corral.wire.explain import CandidateOut, ExplainOut

_HEADERS = ("REPLICA", "NODE", "EXPECTED", "BUSY", "ANSWER", "BREAKER")


async def _explain(
    session: Session,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name or alias.", autocompletion=model_names)],
) -> None:
    """Show which replica would answer a request now, and why. Nothing is asked of any of them."""
    found = await session.client.explain(model)
    if session.as_json:
        render.write_json(found.model_dump(mode="json"))
        return
    text = _table(found, colour=render.has_colour(sys.stdout))
    if text:
        render.write(text)
    render.say(render.clean(found.message))


explain = with_session(_explain)


def _table(found: ExplainOut, *, colour: bool) -> str:
    parts = []
    if found.candidates:
        parts.append(render.table(_HEADERS, map(_row, found.candidates), colour=colour))
    if found.left_out:
        rows = [[one.replica_id, one.node, one.sentence.removeprefix(f"{one.node}: ")] for one in found.left_out]
        parts.append(render.table(("LEFT OUT", "NODE", "BECAUSE"), rows, colour=colour))
    return "\n".join(parts)


def _row(one: CandidateOut) -> list[str]:
    return [
        one.replica_id + (" (next)" if one.is_picked else ""),
        one.node,
        "takes none" if one.expected_s is None else f"{one.expected_s:.3g}s",
        f"{one.in_flight}/{one.capacity}",
        f"{one.seconds:.3g}s" + ("" if one.is_learnt else " (assumed)"),
        one.breaker,
    ]
