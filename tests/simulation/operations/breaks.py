"""Ways to break the product for the length of a test, each with words by which the simulator has to notice it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select, text

from corral.bus.messages import CancelJob, CancelJobReply
from corral.domain.node import Liveness, Node
from corral.domain.operation import Fault, OperationId, Target, TargetState
from corral.operations import backend_pool, job_reports
from corral.policy import dispatch, faults, progress
from corral.policy.progress import JobReport, TargetChange, TargetSnapshot, UnknownJob
from corral.store import assignments as assignment_store
from corral.store import dispatch as dispatch_store
from corral.store.database import Transaction
from corral.store.dispatch import OperationLease
from corral.store.schema import operations
from corral.worker.jobs.runner import JobRunner
from tests.simulation.deliberate_defects import Break
from tests.simulation.plan import Kind

Patch = pytest.MonkeyPatch
NOISE = ((Kind.BUS_NOISE, 5.0, 60.0, 0),)
SHUFFLE = ((Kind.BUS_SHUFFLE, 5.0, 60.0, 0),)
STALLS = tuple((Kind.FRONTEND_STALLED_STORE, 8.0 + 16 * turn, 14.0, turn) for turn in range(4))
ABSENCES = tuple((Kind.WORKER_CRASH, 10.0 + 10 * turn, 35.0, turn) for turn in range(3))


_break = partial(Break, feed_interval_s=6.0, faults_end_s=70.0, quiet_s=150.0)


def _no_fence(patch: Patch) -> None:
    """Break the fence: every owner is taken for the present one."""

    async def as_present(tx: Transaction, hold: OperationLease) -> OperationLease:
        row = (await tx.execute(select(operations).where(operations.c.id == hold.id))).one()
        return OperationLease(id=hold.id, owner=row.owner, fence=row.fence)

    read = dispatch_store.read_leased

    async def read_unfenced(tx: Transaction, hold: OperationLease, *, locks: bool = False) -> Any:
        return await read(tx, await as_present(tx, hold), locks=locks)

    async def require_nothing(_tx: Transaction, _hold: OperationLease) -> None:
        return

    patch.setattr(dispatch_store, "read_leased", read_unfenced)
    patch.setattr(dispatch_store, "require_lease", require_nothing)
    for name in ("_VERDICT", "_LET_GO"):
        statement = str(getattr(dispatch_store, name)).replace(" AND owner = :owner AND fence = :fence", "")
        patch.setattr(dispatch_store, name, text(statement))


def _no_new_fence(patch: Patch) -> None:
    """Break the fence: a frontend that takes an operation over leaves the number as it was."""
    same = str(dispatch_store._CLAIM).replace("o.fence + CASE WHEN due.is_mine THEN 0 ELSE 1 END", "o.fence")
    patch.setattr(dispatch_store, "_CLAIM", text(same))


def _no_lease(patch: Patch) -> None:
    """Break the lease: operations are taken from owners that are well."""
    greedy = str(dispatch_store._CLAIM).replace(
        "AND (o.lease_until IS NULL OR o.lease_until < corral_now() OR o.owner = :owner)", ""
    )
    patch.setattr(dispatch_store, "_CLAIM", text(greedy))


def _no_seq_guard(patch: Patch) -> None:
    taken = progress._apply_report

    def anything(standing: TargetSnapshot, report: JobReport) -> TargetChange | None:
        return taken(replace(standing, target=replace(standing.target, seq=0)), report)

    patch.setattr(progress, "_apply_report", anything)
    patch.setattr("corral.operations.dispatcher._pick_newest", lambda _older, newer: newer)


def _cancel_keeps_assignments(patch: Patch) -> None:
    release = assignment_store._RELEASE_TARGETS

    async def keeping(tx: Transaction, operation_id: OperationId, *, keeps_partial: bool = False) -> bool:
        rows = await tx.execute(release, {"operation_id": operation_id, "keeps_partial": keeps_partial})
        return any(row.stop_wanted for row in rows)

    patch.setattr(assignment_store, "release_operation", keeping)


def _new_job_for_a_resend(patch: Patch) -> None:
    """Break resending: a worker that does not respond gets its command at once, as if it were the first one."""

    def another(standing: TargetSnapshot) -> TargetChange:
        again = replace(standing.target, state=TargetState.QUEUED, job_id=standing.next_job, seq=0)
        return progress._make_change(standing, again)

    patch.setattr(progress, "_apply_no_answer", another)


def _no_supersede(patch: Patch) -> None:
    async def supersede_none(_tx: Transaction, _pairs: Sequence[tuple[str, str]], _newer: Any) -> None:
        return

    patch.setattr(assignment_store, "_supersede", supersede_none)


def _ends_are_overwritten(patch: Patch) -> None:
    taken = progress.apply_observation

    def again(standing: TargetSnapshot, news: Any) -> TargetChange | None:
        target = standing.target
        if target.state.is_final and isinstance(news, JobReport | UnknownJob):
            standing = replace(standing, target=replace(target, state=TargetState.WORKING))
        return taken(standing, news)

    patch.setattr(backend_pool, "apply_observation", again)
    patch.setattr(job_reports, "_is_open", lambda _job: True)
    open_only = "AND t.state IN ('queued', 'working', 'unconfirmed')"
    patch.setattr(dispatch_store, "_WRITE_TARGETS", text(str(dispatch_store._WRITE_TARGETS).replace(open_only, "")))


def _no_wake_on_return(patch: Patch) -> None:
    async def wake_none(_tx: Transaction, _ids: Any) -> int:
        return 0

    patch.setattr(assignment_store, "wake_nodes", wake_none)


def _leases_are_kept(patch: Patch) -> None:
    kept = str(dispatch_store._VERDICT).replace("CASE WHEN :keeps THEN owner END", "owner")
    patch.setattr(
        dispatch_store, "_VERDICT", text(kept.replace("CASE WHEN :keeps THEN lease_until END", "lease_until"))
    )


def _silence_counts(patch: Patch) -> None:
    def counted(standing: TargetSnapshot) -> TargetChange | None:
        return progress._apply_failure(standing, Fault(code="node_timeout", text="It does not respond."))

    patch.setattr(progress, "_apply_no_answer", counted)


def _workers_do_not_stop(patch: Patch) -> None:
    async def deaf(runner: JobRunner, command: CancelJob) -> CancelJobReply:
        return CancelJobReply(boot_id=runner._deps.boot_id, job=runner._table.find_event(command.job_id))

    patch.setattr(JobRunner, "cancel", deaf)


def _absent_nodes_are_skipped(patch: Patch) -> None:
    """Break waiting: nodes that are away for a while are treated as if an admin had drained them."""
    usual = dispatch._find_end_before_work

    def skipping(view: dispatch.OperationView, target: Target, node: Node) -> progress.TargetEnd | None:
        if node.liveness is Liveness.ALIVE:
            return usual(view, target, node)
        fault = Fault(code=faults.NODE_DRAINED, text="The node was drained.")
        return progress.TargetEnd(state=TargetState.SKIPPED, fault=fault)

    patch.setattr(dispatch, "_find_end_before_work", skipping)


BREAKS = (
    _break(
        name="writes without a fence",
        apply=_no_fence,
        sentences=("held it with the fence",),
        faults=(*STALLS, *SHUFFLE),
    ),
    _break(name="a takeover without a new fence", apply=_no_new_fence, sentences=("without a new fence",)),
    _break(name="a claim that ignores leases", apply=_no_lease, sentences=("whose lease had not run out",)),
    _break(name="older events are taken in", apply=_no_seq_guard, sentences=("was taken in after",), faults=SHUFFLE),
    _break(
        name="a cancel that keeps assignments",
        apply=_cancel_keeps_assignments,
        sentences=("still assigned",),
        first_seed=1,
    ),
    _break(name="a resend with a new job", apply=_new_job_for_a_resend, sentences=("was carried out",), faults=SHUFFLE),
    _break(name="nothing is superseded", apply=_no_supersede, sentences=("without an",), faults=ABSENCES),
    _break(name="ends are overwritten", apply=_ends_are_overwritten, sentences=("and became",), faults=NOISE),
    _break(name="a node's return wakes nobody", apply=_no_wake_on_return, sentences=("is still",), faults=ABSENCES),
    _break(name="leases are never given back", apply=_leases_are_kept, sentences=("still holds it",)),
    _break(name="silence counts as a failure", apply=_silence_counts, sentences=("was counted for",), faults=NOISE),
    _break(
        name="absent nodes are skipped",
        apply=_absent_nodes_are_skipped,
        sentences=("it was skipped for node_drained, drained: False",),
        faults=ABSENCES,
    ),
    _break(name="workers do not stop", apply=_workers_do_not_stop, sentences=("got a stop for",), first_seed=3),
)
