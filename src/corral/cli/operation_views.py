"""Renders operations as text: the live list, one in full, the history; and resolves short ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from corral.cli import render
from corral.domain.errors import InvalidRequest
from corral.domain.state_words import OPERATION_WORDS, PHASE_WORDS, ROLLED_BACK, TARGET_WORDS, find_word
from corral.wire.operations import (
    EndedOperationOut,
    OperationDetailOut,
    OperationNoteOut,
    OperationOut,
    TargetDetailOut,
    TargetOut,
)

# Ids begin with a timestamp, so those of one minute begin alike; their last characters are random.
SHORT_ID_LENGTH = 8
ID_PART_MIN = 4
FULL_ID_LENGTH = 36
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


def shorten_id(operation_id: str) -> str:
    return operation_id[-SHORT_ID_LENGTH:]


def resolve_id(ids: Iterable[str], text: str) -> str:
    """Return the one id that begins or ends with `text`. An unknown one is returned as it is, for the frontend to
    judge."""
    if len(text) >= FULL_ID_LENGTH:
        return text
    if len(text) < ID_PART_MIN:
        raise InvalidRequest(f"{text!r} is too short for an id.", hint=f"Say {ID_PART_MIN} characters or more.")
    id_part = text.lower()
    meant = sorted({one for one in ids if one.startswith(id_part) or one.endswith(id_part)})
    if len(meant) > 1:
        shown = ", ".join(meant[:5]) + (", …" if len(meant) > 5 else "")
        raise InvalidRequest(f"{text!r} could be any of {len(meant)} operations.", hint=f"Say more of it: {shown}")
    return meant[0] if meant else text


def format_operation_list(operations: Sequence[OperationOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            shorten_id(one.id),
            VERBS.get(one.kind, one.kind),
            one.name,
            one.node_name or _format_target_count(one.nodes),
            find_word(OPERATION_WORDS, one.state),
            f"{one.progress:.0f}%",
            render.format_age(one.created_at, now),
            one.created_by,
            (one.error or one.message).partition("\n")[0],
        ]
        for one in operations
    ]
    headers = ("ID", "WHAT", "NAME", "NODES", "STATE", "DONE", "AGE", "BY", "MESSAGE")
    return render.format_table(headers, rows, colour=colour)


def _format_target_count(targets: Sequence[TargetOut]) -> str:
    if not targets:
        return render.NONE
    done = sum(target.state == "success" for target in targets)
    return f"{done}/{len(targets)}"


def format_operation(
    operation: OperationDetailOut, notes: Sequence[OperationNoteOut], now: datetime, *, colour: bool
) -> str:
    parts = [render.format_facts(_collect_facts(operation, now))]
    if operation.nodes:
        headers = ("NODE", "STATE", "PHASE", "DONE", "BYTES", "BUILD", "VERSION", "BEFORE", "ERROR")
        parts.append(
            render.format_table(headers, [_make_target_row(target) for target in operation.nodes], colour=colour)
        )
    if notes:
        parts.append("".join(f"{format_note_line(note)}\n" for note in notes))
    step = describe_next_step(operation)
    if step:
        parts.append(f"Next: {render.clean_text(step)}\n")
    return "\n".join(parts)


def _collect_facts(operation: OperationDetailOut, now: datetime) -> dict[str, str]:
    state = find_word(OPERATION_WORDS, operation.state)
    facts = {
        "Id": operation.id,
        "What": f"{VERBS.get(operation.kind, operation.kind)} {operation.name}{_format_node(operation)}",
        "State": f"{state}: {operation.message}" if operation.message else state,
        "Done": f"{operation.progress:.0f}%{_format_bytes(operation.current_bytes, operation.total_bytes)}",
        "Requested": f"{render.format_age(operation.created_at, now)} ago by {operation.created_by}",
        "Started": render.format_time(operation.started_at),
        "Ended": render.format_time(operation.finished_at),
        "Error": f"{operation.error} ({operation.error_code})" if operation.error else "",
        "Deadline": render.format_time(operation.deadline_at) if operation.deadline_at else "",
        "After": operation.after_id or "",
        "Retry of": operation.retry_of or "",
        "Dismissed": f"by {operation.dismissed_by}" if operation.dismissed_at else "",
        "Driven by": operation.owner or "",
    }
    always = ("Id", "What", "State", "Done", "Requested", "Started", "Ended")
    return {name: value for name, value in facts.items() if value or name in always}


def _format_node(operation: OperationDetailOut) -> str:
    return f" on {operation.node_name}" if operation.node_name else ""


def _make_target_row(target: TargetDetailOut) -> list[str]:
    return [
        target.node_name,
        ROLLED_BACK if target.is_rollback and target.state == "success" else find_word(TARGET_WORDS, target.state),
        find_word(PHASE_WORDS, target.phase) if target.phase and target.state == "working" else render.NONE,
        f"{target.percentage:.0f}%",
        _format_bytes(target.current, target.total).strip(" ()") or render.NONE,
        target.build.name if target.build else render.NONE,
        target.version or render.NONE,
        target.previous_version or render.NONE,
        target.error or render.NONE,
    ]


def _format_bytes(current: int | None, total: int | None) -> str:
    if current is None:
        return ""
    return (
        f" ({render.format_size(current)} of {render.format_size(total)})"
        if total is not None
        else f" ({render.format_size(current)})"
    )


def format_note_line(note: OperationNoteOut) -> str:
    level = "" if note.level == "info" else f"{note.level}: "
    where = f"{note.node_name}: " if note.node_name and not note.text.startswith(f"{note.node_name}:") else ""
    return render.clean_text(f"{render.format_time(note.at)}  {level}{where}{note.text}")


def describe_next_step(operation: OperationOut) -> str | None:
    """Return what an admin can do about an operation; None if nothing has to be done."""
    name = shorten_id(operation.id)
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


def format_history_list(records: Sequence[EndedOperationOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            shorten_id(one.id),
            VERBS.get(one.kind, one.kind),
            one.name,
            one.node_name or _format_node_names(one),
            find_word(OPERATION_WORDS, one.outcome),
            _format_duration(one),
            f"{render.format_age(one.finished_at, now)} ago",
            one.created_by,
            (one.error or one.message).partition("\n")[0],
        ]
        for one in records
    ]
    headers = ("ID", "WHAT", "NAME", "NODES", "OUTCOME", "TOOK", "ENDED", "BY", "MESSAGE")
    return render.format_table(headers, rows, colour=colour)


# Maximum number of node names in a table column.
NODE_NAMES_MAX = 3


def _format_node_names(record: EndedOperationOut) -> str:
    shown = record.nodes[:NODE_NAMES_MAX]
    more = record.node_count - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "") if shown else render.NONE


def _format_duration(record: EndedOperationOut) -> str:
    if record.started_at is None or record.finished_at is None:
        return render.NONE
    return render.format_span(max(0.0, (record.finished_at - record.started_at).total_seconds()))
