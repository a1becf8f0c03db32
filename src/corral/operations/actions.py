"""Actions of an admin on an existing operation: cancel, pause, resume, retry, dismiss, clear, and single assignments.

Guarantee: each action is one transaction under the operation's row lock, and the trigger of the table refuses what the
state does not allow. The first action that ends an operation wins; settled targets stay as they are. After a
cancellation no assignment is left that could run later. Any frontend can run every action: the frontend that holds the
lease is fenced out and notified by events.
"""

from __future__ import annotations

from dataclasses import replace

from corral.domain.backend import Assignment, AssignmentState
from corral.domain.errors import Conflict
from corral.domain.operation import ACTIVE, OPEN, Operation, OperationState, TargetState
from corral.domain.state_words import OPERATION_WORDS, find_word
from corral.operations.admission import AdmissionControllers, AdmissionResult
from corral.operations.backend_plan import BackendOperationSpec
from corral.operations.backend_pool import BackendAdmissionController
from corral.policy.runs import is_loss
from corral.store import access as access_store
from corral.store import assignments as assignment_store
from corral.store import loads as load_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import outbox
from corral.store import runs as run_store
from corral.store.database import Database, Transaction
from corral.store.schema import NOW

_S = OperationState
RETRYABLE = frozenset({_S.FAILED, _S.CANCELLED, _S.PAUSED})


async def cancel(database: Database, operation_id: str, actor: str) -> Operation:
    """Cancel an operation. Workers that run its jobs stop and delete the bytes that they fetched."""
    async with database.transaction() as tx:
        operation = await operation_store.lock(tx, operation_id)
        if operation.state not in OPEN and operation.state is not _S.PAUSED:
            raise _make_ended_error(operation)
        if await _is_run_over(tx, operation):
            raise Conflict("The run has ended already.", code="operation_ended")
        return await _cancel_locked(tx, operation, actor)


async def _cancel_locked(tx: Transaction, operation: Operation, actor: str) -> Operation:
    _check_no_removal_runs(operation)
    must_notify_worker = await assignment_store.release_operation(tx, operation.id)
    if operation.state is _S.PAUSED:
        must_notify_worker = await assignment_store.discard_paused(tx, operation.id)
    await load_store.abandon_operation(tx, operation.id, f"Its load was cancelled by {actor}.")
    stopped = await _write_stopped(tx, operation, _S.CANCELLED, actor, must_notify_worker=must_notify_worker)
    if operation.kind.is_run:
        await cancel_children(tx, operation.id, actor)
    return stopped


async def cancel_run_in(tx: Transaction, run_id: str, actor: str) -> bool:
    """Cancel a run inside a larger transaction, with the runs that it has started; return whether it was open. One
    whose worker has ended it is left to its next step, which concludes it with that result."""
    operation = await operation_store.lock(tx, run_id)
    if operation.state not in OPEN or await _is_run_over(tx, operation):
        return False
    await _cancel_locked(tx, operation, actor)
    return True


async def _is_run_over(tx: Transaction, operation: Operation) -> bool:
    """Return whether the operation is a run whose end is stored, and only has to be concluded."""
    if not operation.kind.is_run:
        return False
    code = await run_store.lock_end(tx, operation.id)
    return code is not None and not is_loss(code)


async def cancel_children(tx: Transaction, run_id: str, actor: str) -> None:
    """Cancel the open runs that a run has started. The caller holds the lock of that run's operation."""
    for child_id in await run_store.list_open_children(tx, run_id):
        await cancel_run_in(tx, child_id, actor)


async def pause(database: Database, operation_id: str, actor: str) -> Operation:
    """Pause an operation. Workers keep the bytes that they fetched, and continue from there after `resume`."""
    async with database.transaction() as tx:
        operation = await operation_store.lock(tx, operation_id)
        if operation.state not in OPEN and operation.state is not _S.PAUSED:
            raise _make_ended_error(operation)
        _check_no_removal_runs(operation)
        if operation.kind.is_run:
            raise Conflict(
                "A run cannot be paused.",
                hint=f"Cancel it with: corral runs cancel {operation.id}",
                code="run_not_pausable",
            )
        if operation.state not in ACTIVE:
            raise Conflict(
                f"The operation is {_name_state(operation)}: there is nothing to pause.",
                hint=f"Cancel it with: corral operations cancel {operation.id}",
                code="nothing_to_pause",
            )
        must_notify_worker = await assignment_store.release_operation(tx, operation.id, keeps_partial=True)
        await load_store.abandon_operation(tx, operation.id, f"Its load was paused by {actor}.")
        return await _write_stopped(tx, operation, _S.PAUSED, actor, must_notify_worker=must_notify_worker)


async def _write_stopped(
    tx: Transaction, operation: Operation, state: OperationState, actor: str, *, must_notify_worker: bool
) -> Operation:
    is_end = state is _S.CANCELLED
    words = f"{'Cancelled' if is_end else 'Paused'} by {actor}."
    values = {
        "state": state,
        "message": words,
        "error_code": None,
        "error_text": None,
        "finished_at": NOW if is_end else None,
        "due_at": NOW if must_notify_worker else None,
    }
    stopped = await operation_store.update_operation(tx, operation.id, values)
    await operation_store.add_note(tx, operation.id, words)
    if operation.kind.is_run:
        await run_store.cancel_run(tx, operation.id, words)
    action = "operation.cancel" if is_end else "operation.pause"
    await access_store.record_audit(tx, actor, action, operation.id, f"{operation.kind} {operation.subject}")
    await outbox.append(tx, "operation.changed", stopped.id, operation_store.make_event_data(stopped))
    return stopped


def _name_state(operation: Operation) -> str:
    return find_word(OPERATION_WORDS, operation.state)


def _make_ended_error(operation: Operation) -> Conflict:
    return Conflict(f"The operation is {_name_state(operation)} already.", code="operation_ended")


def _check_no_removal_runs(operation: Operation) -> None:
    if not operation.is_cancellable:
        raise Conflict(
            f"The removal of {operation.subject} has begun and cannot be cancelled.",
            hint=f"Install it again afterwards: corral {operation.kind.pool}s install {operation.subject}",
            code="deletion_running",
        )


async def resume(database: Database, admissions: AdmissionControllers, operation_id: str, actor: str) -> Operation:
    """Resume a paused operation: the same operation, with the same nodes and builds."""
    async with database.transaction() as tx:
        paused = await operation_store.get(tx, operation_id)
        await operation_store.lock_scope(tx, paused.scope_key)
        paused = await operation_store.lock(tx, paused.id)
        if paused.state is not _S.PAUSED:
            raise Conflict(f"The operation is {_name_state(paused)}, not paused.", code="not_paused")
        rivals = await operation_store.list_active(tx, paused.scope_key)
        if rivals:
            raise Conflict(
                f"Operation {rivals[0].id} ({rivals[0].kind}) is {_name_state(rivals[0])} for the same nodes.",
                hint="Wait until it has ended, or cancel it.",
                code="operation_in_progress",
                details={"operation_id": rivals[0].id},
            )
        return await admissions[paused.kind.pool].resume_in(tx, paused, actor)


async def retry(database: Database, admissions: AdmissionControllers, operation_id: str, actor: str) -> AdmissionResult:
    """Admit the stored request of an ended operation once more. The old failure counts as dismissed; a paused one
    resumes."""
    async with database.transaction() as tx:
        old = await operation_store.get(tx, operation_id)
        if old.state not in RETRYABLE:
            raise Conflict(
                f"The operation is {_name_state(old)}; only a failed, cancelled or paused one can be retried.",
                code="not_retryable",
            )
        admitted = await admissions[old.kind.pool].admit_retry(tx, old, actor)
        if old.state is _S.FAILED:
            await _dismiss(tx, await operation_store.lock(tx, old.id), actor)
        return admitted


async def dismiss(database: Database, operation_id: str, actor: str) -> Operation:
    """Dismiss a failed operation: it leaves the live list and stays in the history. No work is stopped."""
    async with database.transaction() as tx:
        return await _dismiss(tx, await operation_store.lock(tx, operation_id), actor)


async def _dismiss(tx: Transaction, operation: Operation, actor: str) -> Operation:
    if operation.state is not _S.FAILED:
        raise Conflict(
            f"The operation is {_name_state(operation)}; only a failed one can be dismissed.",
            hint=f"To stop it: corral operations cancel {operation.id}" if operation.state in OPEN else None,
            code="not_failed",
        )
    if operation.dismissed_at is not None:
        return operation
    await assignment_store.release_unsent(tx, operation.id)
    dismissed = await operation_store.mark_dismissed(tx, operation.id, actor)
    await access_store.record_audit(tx, actor, "operation.dismiss", operation.id, operation.subject)
    await outbox.append(tx, "operation.dismissed", dismissed.id, operation_store.make_event_data(dismissed))
    return dismissed


async def undismiss(database: Database, operation_id: str, actor: str) -> Operation:
    """Undo the dismissal of a failed operation, so that it is listed again. Pending changes that the dismissal released
    stay released."""
    async with database.transaction() as tx:
        operation = await operation_store.lock(tx, operation_id)
        if operation.state is not _S.FAILED or operation.dismissed_at is None:
            raise Conflict("The operation is not a dismissed failure.", code="not_dismissed")
        restored = await operation_store.mark_undismissed(tx, operation.id)
        await access_store.record_audit(tx, actor, "operation.undismiss", operation.id, operation.subject)
        await outbox.append(tx, "operation.undismissed", restored.id, operation_store.make_event_data(restored))
        return restored


async def clear_history(database: Database, actor: str) -> int:
    """Delete the history of operations and return the number of deleted rows. Active operations and failures that
    were not dismissed stay."""
    async with database.transaction() as tx:
        deleted = await operation_store.clear_history(tx)
        await access_store.record_audit(tx, actor, "operations.clear", "history", f"{deleted} operations")
        await outbox.append(tx, "operations.cleared", "history", {"count": deleted, "by": actor})
        return deleted


async def discard_assignment(database: Database, node: str, backend: str, actor: str) -> Assignment:
    """Discard the pending change of a node for a backend; the operation goes on without this node."""
    async with database.transaction() as tx:
        known = await node_store.get_node(tx, node)
        assignment = await assignment_store.get_assignment(tx, known.id, backend)
        operation = await operation_store.lock(tx, assignment.operation_id)
        at_work = any(item.node == known.id and item.state is TargetState.WORKING for item in operation.targets)
        if operation.kind.is_deletion and at_work:
            raise Conflict(
                f"Node {known.name} is removing {backend} now; that cannot be cancelled.", code="deletion_running"
            )
        await assignment_store.discard(tx, assignment)
        words = f"{actor} discarded the change for {known.name}."
        await operation_store.add_note(tx, operation.id, words, level="warning", node_name=known.name)
        await access_store.record_audit(tx, actor, "assignment.drop", known.id, f"{known.name}: {backend}")
        return assignment


async def retry_assignment(
    database: Database, admission: BackendAdmissionController, node: str, backend: str, actor: str
) -> AdmissionResult:
    """Retry a failed assignment with all its attempts: admit the stored request for this node only."""
    async with database.transaction() as tx:
        known = await node_store.get_node(tx, node)
        assignment = await assignment_store.get_assignment(tx, known.id, backend)
        if assignment.state is not AssignmentState.DEAD:
            raise Conflict(
                f"{backend} on node {known.name} has not failed; Corral is still trying.", code="assignment_open"
            )
        old = await operation_store.get(tx, assignment.operation_id)
        spec = replace(BackendOperationSpec.from_json(old.request), nodes=(known.id,))
        return await admission.admit_in(tx, spec, actor, retry_of=old.id)
