"""Operations as text: the live list, one in full, the record, and the one that a person means by a short id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from corral.cli import render
from corral.domain.errors import InvalidRequest
from corral.wire.operations import NoteOut, OperationInFull, OperationOut, RecordOut, TargetInFull, TargetOut

# Ids begin with their time, so those of one minute begin alike; their ends are chance.
SHORT = 8
SHORTEST = 4
WHOLE = 36
VERBS = {
    "backend_install": "install",
    "backend_upgrade": "upgrade",
    "backend_reinstall": "reinstall",
    "backend_rollback": "rollback",
    "backend_delete": "remove",
    "model_install": "fetch",
    "model_load": "load",
    "model_stage": "stage",
    "model_unload": "unload",
    "model_delete": "delete",
}
_WORDS = {"waiting_on_nodes": "waiting", "completed_with_pending": "owed"}


def short(operation_id: str) -> str:
    return operation_id[-SHORT:]


def pick(ids: Iterable[str], said: str) -> str:
    """The one id that begins or ends with what was said. An unknown one goes to the frontend as it is."""
    if len(said) >= WHOLE:
        return said
    if len(said) < SHORTEST:
        raise InvalidRequest(f"{said!r} is too short for an id.", hint=f"Say {SHORTEST} characters or more.")
    wanted = said.lower()
    meant = sorted({one for one in ids if one.startswith(wanted) or one.endswith(wanted)})
    if len(meant) > 1:
        shown = ", ".join(meant[:5]) + (", …" if len(meant) > 5 else "")
        raise InvalidRequest(f"{said!r} could be any of {len(meant)} operations.", hint=f"Say more of it: {shown}")
    return meant[0] if meant else said


def operation_list(operations: Sequence[OperationOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            short(one.id),
            VERBS.get(one.kind, one.kind),
            one.name,
            one.node_name or _nodes(one.nodes),
            _WORDS.get(one.state, one.state),
            f"{one.progress:.0f}%",
            render.age(one.created_at, now),
            one.created_by,
            (one.error or one.message).partition("\n")[0],
        ]
        for one in operations
    ]
    headers = ("ID", "WHAT", "NAME", "NODES", "STATE", "DONE", "AGE", "BY", "MESSAGE")
    return render.table(headers, rows, colour=colour)


def _nodes(targets: Sequence[TargetOut]) -> str:
    if not targets:
        return render.NONE
    done = sum(target.state == "success" for target in targets)
    return f"{done}/{len(targets)}"


def operation_in_full(operation: OperationInFull, notes: Sequence[NoteOut], now: datetime, *, colour: bool) -> str:
    parts = [render.facts(_facts(operation, now))]
    if operation.nodes:
        headers = ("NODE", "STATE", "PHASE", "DONE", "BYTES", "BUILD", "VERSION", "BEFORE", "ERROR")
        parts.append(render.table(headers, [_target(target) for target in operation.nodes], colour=colour))
    if notes:
        parts.append("".join(f"{note_line(note)}\n" for note in notes))
    step = next_step(operation)
    if step:
        parts.append(f"Next: {render.clean(step)}\n")
    return "\n".join(parts)


def _facts(operation: OperationInFull, now: datetime) -> dict[str, str]:
    facts = {
        "Id": operation.id,
        "What": f"{VERBS.get(operation.kind, operation.kind)} {operation.name}{_on(operation)}",
        "State": f"{operation.state}: {operation.message}" if operation.message else operation.state,
        "Done": f"{operation.progress:.0f}%{_bytes(operation.current_bytes, operation.total_bytes)}",
        "Asked for": f"{render.age(operation.created_at, now)} ago by {operation.created_by}",
        "Started": render.moment(operation.started_at),
        "Ended": render.moment(operation.finished_at),
        "Error": f"{operation.error} ({operation.error_code})" if operation.error else "",
        "Deadline": render.moment(operation.deadline_at) if operation.deadline_at else "",
        "After": operation.after_id or "",
        "Retry of": operation.retry_of or "",
        "Dismissed": f"by {operation.dismissed_by}" if operation.dismissed_at else "",
        "Driven by": operation.owner or "",
    }
    always = ("Id", "What", "State", "Done", "Asked for", "Started", "Ended")
    return {name: value for name, value in facts.items() if value or name in always}


def _on(operation: OperationInFull) -> str:
    return f" on {operation.node_name}" if operation.node_name else ""


def _target(target: TargetInFull) -> list[str]:
    return [
        target.node_name,
        "rolled back" if target.is_rollback and target.state == "success" else target.state,
        (target.phase if target.state == "working" else None) or render.NONE,
        f"{target.percentage:.0f}%",
        _bytes(target.current, target.total).strip(" ()") or render.NONE,
        target.build.name if target.build else render.NONE,
        target.version or render.NONE,
        target.previous_version or render.NONE,
        target.error or render.NONE,
    ]


def _bytes(current: int | None, total: int | None) -> str:
    if current is None:
        return ""
    return f" ({render.size(current)} of {render.size(total)})" if total is not None else f" ({render.size(current)})"


def note_line(note: NoteOut) -> str:
    level = "" if note.level == "info" else f"{note.level}: "
    where = f"{note.node_name}: " if note.node_name and not note.text.startswith(f"{note.node_name}:") else ""
    return render.clean(f"{render.moment(note.at)}  {level}{where}{note.text}")


def next_step(operation: OperationOut) -> str | None:
    """What an admin can do about it; None when nothing is to be done."""
    name = short(operation.id)
    match operation.state:
        case "failed":
            return f"corral operations retry {name}, or: corral operations dismiss {name}"
        case "paused":
            return f"corral operations resume {name}, or: corral operations cancel {name}"
        case "queued" | "running" | "waiting_on_nodes":
            return f"corral operations watch {name}"
        case "completed_with_pending":
            return f"nothing: absent nodes get it when they are back; to give up: corral operations cancel {name}"
        case _:
            return None


def history_list(records: Sequence[RecordOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            short(one.id),
            VERBS.get(one.kind, one.kind),
            one.name,
            one.node_name or _named(one),
            one.outcome,
            _took(one),
            f"{render.age(one.finished_at, now)} ago",
            one.created_by,
            (one.error or one.message).partition("\n")[0],
        ]
        for one in records
    ]
    headers = ("ID", "WHAT", "NAME", "NODES", "OUTCOME", "TOOK", "ENDED", "BY", "MESSAGE")
    return render.table(headers, rows, colour=colour)


# As many names as a column of a table bears.
NAMED_MAX = 3


def _named(record: RecordOut) -> str:
    shown = record.nodes[:NAMED_MAX]
    more = record.node_count - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "") if shown else render.NONE


def _took(record: RecordOut) -> str:
    if record.started_at is None or record.finished_at is None:
        return render.NONE
    return render.span(max(0.0, (record.finished_at - record.started_at).total_seconds()))
