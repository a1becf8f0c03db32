"""`events.md`: every kind of event that the outbox can hold.

The kinds are found where the source appends to the outbox; the sentences stand here. A kind without a sentence and a
sentence without a kind are both refused.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tools.markdown import code, page, table
from tools.source import ROOT, Module, Problem, called_name, literal_text, modules

APPENDERS = frozenset({"outbox.append", "outbox.append_many"})
SENTENCES = {
    "assignment.dead": "What a node owes was put aside after too many failures.",
    "assignment.ended": "What a node owed is no longer wanted of it; `reason` says why.",
    "file.entered": "A content is held by a library for the first time; the key is its sha256.",
    "gallery.changed": "A gallery has a new index.",
    "key.changed": "An API key may do something else than before.",
    "key.created": "An API key has been made.",
    "key.revoked": "An API key does not work any more.",
    "key.rotated": "An API key has a new secret; the old one does not work any more.",
    "leader.changed": "A frontend has taken the lease of the leader, with a new term.",
    "node.alive": "A node that was lost is heard of again.",
    "node.approved": "An admin has let a node take part.",
    "node.budget_changed": "An admin has set or reset a node's VRAM budget.",
    "node.backends_changed": "A node has another set of backends, or other versions.",
    "node.bus_changed": "Commands reach a node again, or no longer.",
    "node.drained": "An admin has taken a node out of service.",
    "node.hardware_changed": "A node reports another GPU vendor or another amount of VRAM.",
    "node.labels_changed": "An admin has changed a node's labels.",
    "node.left": "A worker has said goodbye.",
    "node.lost": "A node was not heard of within its lease.",
    "node.registered": "A new machine has joined; `approved` says whether it may take part already.",
    "node.removed": "An admin has removed a node.",
    "node.resumed": "An admin has put a node back into service.",
    "node.returned": "A known node has registered again; `new_boot` says whether its worker was restarted.",
    "node.self_drained": "A worker asks for no new work.",
    "node.self_resumed": "A worker takes new work again.",
    "node.slots_changed": "An admin has set or reset how many replicas of one model a node may hold.",
    "operation.changed": "An operation has another state.",
    "operation.created": "An operation was admitted.",
    "operation.dismissed": "An admin has read a failure.",
    "operation.undismissed": "An admin has taken back that a failure was read.",
    "operations.cleared": "An admin has cleared the history.",
    "model.changed": "A model was made, changed, renamed or deleted; `revision` and `run_hash` are the present ones.",
    "replica.changed": "A replica is in another state.",
    "replica.removed": "Replicas of a model on a node are gone; `reason` says why.",
    "rule.changed": "A rule about where a model should run was saved or removed.",
    "rule.setback": "A rule cannot be met now, for another reason or until another time than before, or is held back no"
    " longer; `sentence` says it, `until` when it is tried again.",
    "session.closed": "Somebody has logged out of the page; the key is the user's.",
    "session.opened": "Somebody has logged in to the page; the key is the user's.",
    "settings.changed": "An admin has changed settings of the running frontends; `names` says which.",
    "token.created": "A join token has been made.",
    "token.revoked": "No machine can join with this token any more.",
    "user.changed": "A user has another scope or password, or was disabled or enabled.",
    "user.created": "There is a new user.",
    "user.removed": "A user is gone, with their keys and sessions.",
}
_INTRODUCTION = """\
Every change of the registry leaves an event in the outbox, in the same transaction. `GET /api/events` streams them in
order and without gaps, on any frontend. An event names what changed by its key; whoever needs the state reads it.

Each event has an `id` (where to resume), a `kind`, a `key`, the time `at`, and `data`. The prefix before the dot is the
topic: `GET /api/events?topics=node,key`. Two more come from the stream itself: `hello` at its beginning, and `reset`
when the place to resume from has been pruned or is unknown: read the state anew."""


def render() -> str:
    found = kinds()
    problems = [
        f"{kind} is written by {found[kind][0]} and has no sentence." for kind in sorted(found.keys() - SENTENCES)
    ]
    problems += [f"{kind} has a sentence and is written nowhere." for kind in sorted(SENTENCES.keys() - found)]
    if problems:
        raise Problem(*problems, "The sentences are in tools/pages/events.py.")
    rows = [
        (code(kind), SENTENCES[kind], ", ".join(code(path.removeprefix("src/corral/")) for path in found[kind]))
        for kind in sorted(found)
    ]
    return page("Events", _INTRODUCTION, table(["kind", "what has happened", "written by"], rows))


def kinds(root: Path = ROOT) -> dict[str, list[str]]:
    """Every kind and the files that write it."""
    places: dict[str, set[str]] = defaultdict(set)
    for module in modules("src/corral", root):
        for kind in _kinds_of(module):
            places[kind].add(module.path)
    return {kind: sorted(paths) for kind, paths in places.items()}


def _kinds_of(module: Module) -> Iterator[str]:
    for function in ast.walk(module.tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and called_name(call) in APPENDERS:
                yield from _read(call.args[1], function, module)


def _read(kind: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef, module: Module) -> Iterator[str]:
    """A literal, or one that is put together from a parameter which every caller in the file gives as a literal."""
    text = literal_text(kind)
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
    raise Problem(f"{module.path}: the kind of an event cannot be read from `{ast.unparse(kind)}`; write it out.")


def _given(module: Module, function: str, position: int) -> Iterator[str | None]:
    for call in ast.walk(module.tree):
        if isinstance(call, ast.Call) and called_name(call) == function:
            yield literal_text(call.args[position]) if len(call.args) > position else None


def _fill(kind: ast.expr, name: str, value: str) -> str:
    if isinstance(kind, ast.Name):
        return value
    assert isinstance(kind, ast.JoinedStr), f"{name} is used in a way that is not expected"
    return "".join(literal_text(part) or value for part in kind.values)
