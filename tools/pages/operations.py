"""Renders `operations.md`: the states of operations, targets and jobs, and every allowed transition.

The transitions come from `TRANSITIONS`, which the database's trigger repeats. The comment beside a
state says what it means.
"""

from __future__ import annotations

import re

from corral.domain.backend import AssignmentState, DesiredState, SourceKind
from corral.domain.operation import (
    ACTIVE,
    LISTED,
    OPEN,
    SETTLED,
    TRANSITIONS,
    JobState,
    OperationKind,
    OperationState,
    TargetState,
)
from tools.markdown import format_code, format_page, format_table
from tools.source import ROOT, DocsProblem

_INTRODUCTION = """
An operation is one long action that an admin has started. [Operations](../explanation/operations.md) explains how it
is carried out.

*Active*: a second one with the same scope is a duplicate. *Open*: not at its end. *Listed*: in `GET /api/operations`; a
failed one until it is dismissed. *Settled*: state, error and end never change again.
"""
_FAILED = """
`failed` becomes `completed` only where no frontend saw the failure and the reaper wrote it, because its owners had died
again and again: the true outcome replaces it.
"""


def render() -> str:
    meaning = _comments("src/corral/domain/operation.py") | _comments("src/corral/domain/backend.py")
    kinds = [(format_code(kind), format_code(kind.pool), "yes" if kind.is_deletion else "") for kind in OperationKind]
    return format_page(
        "Operations",
        _INTRODUCTION,
        "## Kinds\n\n" + format_table(["kind", "pool", "removes something"], kinds),
        "## States\n\n" + format_table(["state", "meaning", "active", "open", "listed", "settled"], _states(meaning)),
        "## Steps\n\n" + format_table(["from", "to"], _steps()) + "\n" + _FAILED,
        "## Targets\n\nOne for each node of an operation.\n\n" + _plain(TargetState, meaning),
        "## Assignments\n\nA pending change of one node.\n\n"
        + _plain(DesiredState, meaning)
        + "\n\n"
        + _plain(AssignmentState, meaning),
        "## Jobs\n\nThe state of a worker's own work.\n\n" + _plain(JobState, meaning),
        "## Sources\n\nWhere a build comes from.\n\n" + _plain(SourceKind, meaning),
    )


def _states(meaning: dict[str, str]) -> list[tuple[str, ...]]:
    return [
        (
            format_code(state),
            _meaning(meaning, state),
            *("yes" if state in those else "" for those in (ACTIVE, OPEN, LISTED, SETTLED)),
        )
        for state in OperationState
    ]


def _steps() -> list[tuple[str, str]]:
    order = list(OperationState)
    return [
        (format_code(old), ", ".join(format_code(new) for new in sorted(TRANSITIONS[old], key=order.index)) or "-")
        for old in order
    ]


def _plain(
    kind: type[TargetState | DesiredState | AssignmentState | JobState | SourceKind], meaning: dict[str, str]
) -> str:
    return format_table(["state", "meaning"], [(format_code(member), meaning.get(_key(member), "")) for member in kind])


def _meaning(meaning: dict[str, str], state: OperationState) -> str:
    key = _key(state)
    if key not in meaning:
        raise DocsProblem(f"{key} has no comment that says what it means.")
    return meaning[key]


def _key(member: object) -> str:
    return f"{type(member).__name__}.{member.name}"  # type: ignore[attr-defined]


def _comments(path: str) -> dict[str, str]:
    """Return the comment beside each member of an enumeration."""
    found, current = {}, ""
    for line in (ROOT / path).read_text(encoding="utf-8").splitlines():
        opened = re.match(r"class (\w+)\(StrEnum\)", line)
        member = re.match(r"    ([A-Z_]+) = \"[^\"]*\"  # (.+)$", line)
        if opened:
            current = opened[1]
        elif member:
            found[f"{current}.{member[1]}"] = member[2][:1].upper() + member[2][1:] + "."
    return found
