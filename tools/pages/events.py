"""Renders `events.md`: every kind of event that the outbox can hold.

The kinds are found where the source appends to the outbox; the descriptions stand here. A kind without a description
and a description without a kind are both refused.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tools.markdown import format_code, format_page, format_table
from tools.source import ROOT, DocsProblem, SourceModule, get_called_name, get_literal_text, iter_modules

APPENDERS = frozenset({"outbox.append", "outbox.append_many", "outbox.make_part"})
SENTENCES = {
    "agent.changed": "An agent was edited, renamed, paused or resumed; the key is its id, and its name is not in it.",
    "agent.created": "An agent was created; the key is its id.",
    "agent.deleted": "An agent was deleted with its threads. Those of a deleted owner have no event.",
    "assignment.dead": "A pending change of a node was set aside after too many failures.",
    "assignment.ended": "A pending change of a node was discarded; `reason` says why.",
    "file.entered": "A content was added to a library for the first time; the key is its sha256.",
    "gallery.changed": "A gallery has a new index.",
    "key.changed": "The rights of an API key were changed.",
    "key.created": "An API key was created.",
    "key.revoked": "An API key was revoked, and the secrets that belong to it were deleted.",
    "key.rotated": "An API key was rotated; the previous secret is no longer valid.",
    "leader.changed": "A frontend became the leader, with a new term.",
    "node.alive": "A lost node sends heartbeats again.",
    "node.approved": "An admin approved a node.",
    "node.budget_changed": "An admin has set or reset a node's VRAM budget.",
    "node.backends_changed": "The backends of a node, or their versions, have changed.",
    "node.bus_changed": "Commands reach a node again, or no longer.",
    "node.drained": "An admin started to drain a node.",
    "node.hardware_changed": "A node reports another GPU vendor or another amount of VRAM.",
    "node.labels_changed": "An admin has changed a node's labels.",
    "node.left": "A worker has shut down in order.",
    "node.lost": "A node sent no heartbeat within its lease.",
    "node.registered": "A new machine has joined; `approved` says whether it may take work already.",
    "node.removed": "An admin has removed a node.",
    "node.resumed": "An admin resumed a node.",
    "node.returned": "A known node has registered again; `new_boot` says whether its worker was restarted.",
    "node.self_drained": "A worker requests no new work.",
    "node.self_resumed": "A worker takes new work again.",
    "node.slots_changed": "An admin has set or reset how many replicas of one model a node may hold.",
    "operation.changed": "The state of an operation has changed.",
    "operation.created": "An operation was admitted.",
    "operation.dismissed": "An admin dismissed a failed operation.",
    "operation.undismissed": "An admin restored a dismissed operation.",
    "operations.cleared": "An admin has cleared the history.",
    "mcp_server.changed": "An admin has declared an MCP server, or changed it.",
    "mcp_server.deleted": "An admin has deleted a declared MCP server.",
    "model.changed": "A model was created, changed, renamed or deleted; `revision` and `run_hash` are the new ones.",
    "replica.changed": "The state of a replica has changed.",
    "replica.removed": "Replicas of a model on a node are gone; `reason` says why.",
    "rule.changed": "A rule about where a model should run was saved or removed.",
    "rule.setback": "A rule cannot be met now, its reason or next attempt has changed, or it can be met again;"
    " `sentence` says why, `until` when it is retried.",
    "secret.changed": "A secret was stored or has a new value; the key is its id. Neither name nor owner is in it.",
    "secret.deleted": "A secret was deleted; the key is its id. Those of a deleted user or revoked key have no event.",
    "session.closed": "A user signed out of the page; the key is the user's.",
    "session.opened": "A user signed in to the page; the key is the user's.",
    "settings.changed": "An admin has changed settings of the running frontends; `names` says which.",
    "skill.changed": "A skill was created, changed or imported; the key is its id.",
    "skill.deleted": "A skill was deleted; the key is its id. Those of a repository have no event of their own.",
    "skill_repo.changed": "A repository of skills was added, changed, enabled or disabled, or a sync of it has ended.",
    "skill_repo.deleted": "A repository of skills was deleted with its skills.",
    "task.changed": "A task was changed, enabled or disabled; the key is its id.",
    "task.created": "A task was created; the key is its id.",
    "task.deleted": "A task was deleted; the key is its id.",
    "token.created": "A join token was created.",
    "token.revoked": "A join token was revoked.",
    "user.changed": "The scope or password of a user was changed, or the user was disabled or enabled.",
    "user.created": "A user was created.",
    "user.removed": "A user was deleted, with their keys, sessions and secrets.",
}
_INTRODUCTION = """\
Every change of the registry leaves an event in the outbox, in the same transaction. `GET /api/events` streams them in
order and without gaps, on any frontend. An event names what changed by its key; clients that need the state read it.

Each event has an `id` (where to resume), a `kind`, a `key`, the time `at`, and `data`. The prefix before the dot is the
topic: `GET /api/events?topics=node,key`. Two more come from the stream itself: `hello` at its beginning, and `reset`
when the place to resume from has been pruned or is unknown: read the state again."""


def render() -> str:
    found = list_kinds()
    problems = [
        f"{kind} is written by {found[kind][0]} and has no description." for kind in sorted(found.keys() - SENTENCES)
    ]
    problems += [f"{kind} has a description and is written nowhere." for kind in sorted(SENTENCES.keys() - found)]
    if problems:
        raise DocsProblem(*problems, "The descriptions are in tools/pages/events.py.")
    rows = [
        (
            format_code(kind),
            SENTENCES[kind],
            ", ".join(format_code(path.removeprefix("src/corral/")) for path in found[kind]),
        )
        for kind in sorted(found)
    ]
    return format_page("Events", _INTRODUCTION, format_table(["kind", "what has happened", "written by"], rows))


def list_kinds(root: Path = ROOT) -> dict[str, list[str]]:
    """Return every kind and the files that write it."""
    places: dict[str, set[str]] = defaultdict(set)
    for module in iter_modules("src/corral", root):
        for kind in _kinds_of(module):
            places[kind].add(module.path)
    return {kind: sorted(paths) for kind, paths in places.items()}


def _kinds_of(module: SourceModule) -> Iterator[str]:
    for function in ast.walk(module.tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and get_called_name(call) in APPENDERS:
                yield from _read(call.args[1], function, module)


def _read(kind: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef, module: SourceModule) -> Iterator[str]:
    """Yield a literal, or one that is put together from a parameter which every caller in the file gives as a
    literal."""
    text = get_literal_text(kind)
    if text is not None:
        yield text
        return
    names = {node.id for node in ast.walk(kind) if isinstance(node, ast.Name)}
    parameters = [argument.arg for argument in function.args.args]
    if len(names) == 1 and names <= set(parameters):
        (name,) = names
        given = list(_given(module, function.name, parameters.index(name)))
        if given and None not in given:
            yield from (_fill(kind, name, str(value)) for value in given)
            return
    raise DocsProblem(f"{module.path}: the kind of an event cannot be read from `{ast.unparse(kind)}`; write it out.")


def _given(module: SourceModule, function: str, position: int) -> Iterator[str | None]:
    for call in ast.walk(module.tree):
        if isinstance(call, ast.Call) and get_called_name(call) == function:
            yield get_literal_text(call.args[position]) if len(call.args) > position else None


def _fill(kind: ast.expr, name: str, value: str) -> str:
    if isinstance(kind, ast.Name):
        return value
    assert isinstance(kind, ast.JoinedStr), f"{name} is used in a way that is not expected"
    return "".join(get_literal_text(part) or value for part in kind.values)
