"""`operations.md`: the states of operations, targets and jobs, and every step that is allowed.

The steps come from `TRANSITIONS`, which the code asks and the database's trigger repeats. What a state means is the
comment beside it.
"""

from __future__ import annotations

import re

from corral.domain.backend import AssignmentState, Desired, SourceKind
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
from tools.markdown import code, page, table
from tools.source import ROOT, Problem

_INTRODUCTION = """
An operation is one long action that an admin asked for. How it is driven is told in
[Operations](../explanation/operations.md).

*Active*: a second one with the same scope is a duplicate. *Open*: not at its end. *Listed*: in `GET /api/operations`; a
failed one until it is dismissed. *Settled*: state, error and end never change again.
"""
_FAILED = """
`failed` becomes `completed` only where nobody saw the failure and the reaper wrote it, because its owners had died
again and again: the true outcome replaces it.
"""


def render() -> str:
    meaning = _comments("src/corral/domain/operation.py") | _comments("src/corral/domain/backend.py")
    kinds = [(code(kind), code(kind.pool), "yes" if kind.is_deletion else "") for kind in OperationKind]
    return page(
        "Operations",
        _INTRODUCTION,
        "## Kinds\n\n" + table(["kind", "pool", "removes something"], kinds),
        "## States\n\n" + table(["state", "meaning", "active", "open", "listed", "settled"], _states(meaning)),
        "## Steps\n\n" + table(["from", "to"], _steps()) + "\n" + _FAILED,
        "## Targets\n\nOne for each node of an operation.\n\n" + _plain(TargetState, meaning),
        "## Assignments\n\nWhat a node still owes.\n\n"
        + _plain(Desired, meaning)
        + "\n\n"
        + _plain(AssignmentState, meaning),
        "## Jobs\n\nWhat a worker says of its own work.\n\n" + _plain(JobState, meaning),
        "## Sources\n\nWhere a build comes from.\n\n" + _plain(SourceKind, meaning),
    )


def _states(meaning: dict[str, str]) -> list[tuple[str, ...]]:
    return [
        (
            code(state),
            _meaning(meaning, state),
            *("yes" if state in those else "" for those in (ACTIVE, OPEN, LISTED, SETTLED)),
        )
        for state in OperationState
    ]


def _steps() -> list[tuple[str, str]]:
    order = list(OperationState)
    return [
        (code(old), ", ".join(code(new) for new in sorted(TRANSITIONS[old], key=order.index)) or "-") for old in order
    ]


def _plain(kind: type[TargetState | Desired | AssignmentState | JobState | SourceKind], meaning: dict[str, str]) -> str:
    return table(["state", "meaning"], [(code(member), meaning.get(_key(member), "")) for member in kind])


def _meaning(meaning: dict[str, str], state: OperationState) -> str:
    key = _key(state)
    if key not in meaning:
        raise Problem(f"{key} has no comment that says what it means.")
    return meaning[key]


def _key(member: object) -> str:
    return f"{type(member).__name__}.{member.name}"  # type: ignore[attr-defined]


def _comments(path: str) -> dict[str, str]:
    """The comment beside each member of an enumeration."""
    found, current = {}, ""
    for line in (ROOT / path).read_text(encoding="utf-8").splitlines():
        opened = re.match(r"class (\w+)\(StrEnum\)", line)
        member = re.match(r"    ([A-Z_]+) = \"[^\"]*\"  # (.+)$", line)
        if opened:
            current = opened[1]
        elif member:
            found[f"{current}.{member[1]}"] = member[2][:1].upper() + member[2][1:] + "."
    return found
