"""What must hold for operations at every moment, read from the witness and held against what machines truly did.

Every change of a row is looked at once, in the order of the commits; nothing here asks the product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import text

from corral.domain.operation import SETTLED, OperationState, TargetState
from corral.policy import faults
from tests.simulation.clock import START
from tests.simulation.operations.work import MachineWork
from tests.simulation.worlds import SimulationDeps
from tests.support.transitions import can_become

LOOK_EVERY_S = 15.0
WITNESS = text("SELECT * FROM operation_witness WHERE number > :after ORDER BY number")
# An assignment may outlive its operation only to be looked at: put aside, of a failure.
LEFT_OVER = text("""
    SELECT o.id::text AS id, o.state, a.backend, a.state AS assignment_state FROM assignments a JOIN operations o
        ON o.id = a.operation_id
     WHERE o.state IN ('completed', 'cancelled', 'superseded', 'paused', 'queued')
        OR (o.state = 'failed' AND a.state <> 'dead' AND NOT o.reaped)
     ORDER BY a.generation
""")
# What is not at its end is owed; one that nobody owes would wait for ever.
ORPHANS = text("""
    SELECT t.operation_id::text AS id, t.node_name, t.state FROM operation_targets t
     WHERE t.state IN ('queued', 'working', 'unconfirmed')
       AND NOT EXISTS (SELECT 1 FROM assignments a WHERE a.operation_id = t.operation_id AND a.node_id = t.node)
     ORDER BY t.job_id
""")
OPERATIONS = text("SELECT * FROM operations ORDER BY created_at, id")
TARGETS = text("SELECT * FROM operation_targets ORDER BY operation_id, node_name")
INSTALLED = text("SELECT node_id::text AS node_id, name, version, generation FROM installed_backends ORDER BY name")
NODES = text("SELECT * FROM nodes ORDER BY name")
# Nothing of these changes in a row that is settled.
SETTLED_FIELDS = ("state", "error_code", "error_text", "finished_at", "message", "percent", "kind", "subject")
# Only the owner writes these, or somebody who takes the operation away with a new fence.
OWNERS_FIELDS = (
    "state",
    "message",
    "error_code",
    "error_text",
    "reaped",
    "finished_at",
    "owner",
    "lease_until",
    "attempt",
)
_S = OperationState


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAssignment:
    """Holds an assignment that was once made: the newest of a node and backend is what the admin wants there."""

    operation_id: str
    node: str
    backend: str
    desired: str
    generation: int
    version: str


@dataclass(slots=True)
class OperationHistory:
    """Holds the states that an operation has gone through."""

    states: list[OperationState] = field(default_factory=list)


@dataclass(slots=True)
class Look:
    operations: Sequence[Any] = ()
    targets: Sequence[Any] = ()
    installed: Sequence[Any] = ()
    nodes: Sequence[Any] = ()


class OperationsInspector:
    def __init__(self, around: SimulationDeps, works: Mapping[str, MachineWork]) -> None:
        self._around = around
        self._works = works
        self._database = around.database(around.gate("operations inspector"))
        self._last = 0
        self.stories: dict[str, OperationHistory] = {}
        self.newest_assignments: dict[tuple[str, str], RecordedAssignment] = {}
        # Jobs whose workers were told to stop, and when.
        self.stopped: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        # Wave and state of each node's target, by operation.
        self._waves: dict[str, dict[str, tuple[int, TargetState]]] = {}
        # Targets that were skipped for the sake of an earlier wave: operation, wave, and words.
        self._skipped: list[tuple[str, int, str]] = []

    async def run(self) -> None:
        while True:
            await self._around.clock.sleep(LOOK_EVERY_S)
            await self.look()

    async def close(self) -> None:
        async with self._around.turnstile.turn():
            await self._database.close()

    async def look(self, *, in_full: bool = False) -> Look:
        look = Look()
        async with self._database.transaction() as tx:
            rows = (await tx.execute(WITNESS, {"after": self._last})).all()
            left_over = (await tx.execute(LEFT_OVER)).all()
            orphans = (await tx.execute(ORPHANS)).all()
            if in_full:
                look.operations = (await tx.execute(OPERATIONS)).all()
                look.targets = (await tx.execute(TARGETS)).all()
                look.installed = (await tx.execute(INSTALLED)).all()
                look.nodes = (await tx.execute(NODES)).all()
        for row in rows:
            self._last = row.number
            self._take(row)
        self._check_waves()
        for row in orphans:
            self._violated(f"operation {row.id} has {row.node_name} {row.state} without an assignment")
        for row in left_over:
            # A resumed operation has its targets before its turn has come.
            if row.state != _S.QUEUED or _S.PAUSED not in self.stories[row.id].states:
                self._violated(
                    f"operation {row.id} is {row.state}, and {row.backend} is still assigned ({row.assignment_state})"
                )
        return look

    def _take(self, row: Any) -> None:
        match row.what:
            case "operations":
                self._check_operation(row)
            case "operation_targets":
                self._check_target(row)
            case _:
                self._check_assignment(row)

    # --- operations ---

    def _check_operation(self, row: Any) -> None:
        old, new = row.old, row.new
        story = self.stories.setdefault(new["id"], OperationHistory())
        if old is None:
            story.states.append(_S(new["state"]))
            self._count("created")
            if new["state"] != _S.QUEUED:
                self._violated(f"operation {new['id']} began as {new['state']}")
            return
        self._check_owner(row)
        before, after = _S(old["state"]), _S(new["state"])
        if before is not after:
            self._around.trace.add(f"operation {new['id']} {before} -> {after} by {row.participant}: {new['message']}")
            self._count(str(after))
            story.states.append(after)
            if not can_become(before, after, was_reaped=old["reaped"]):
                self._violated(f"operation {new['id']} went from {before} to {after}")
            self._check_reason(new, after)
        if before in SETTLED:
            changed = [name for name in SETTLED_FIELDS if old[name] != new[name]]
            if changed:
                self._violated(f"operation {new['id']} was {before}, and {changed} changed")
        if new["percent"] < old["percent"]:
            self._violated(f"operation {new['id']} fell from {old['percent']} to {new['percent']} percent")

    def _check_owner(self, row: Any) -> None:
        """Check that a frontend that changes more than a progress bar holds the row, or takes it from its holder."""
        old, new = row.old, row.new
        fenced = new["fence"] - old["fence"]
        if fenced not in (0, 1):
            self._violated(f"the fence of operation {new['id']} went from {old['fence']} to {new['fence']}")
        changed = [name for name in OWNERS_FIELDS if old[name] != new[name]]
        if changed and not fenced and old["owner"] != row.participant:
            self._violated(
                f"{row.participant} changed {changed} of operation {new['id']}, and {old['owner']} held it"
                f" with the fence {old['fence']}"
            )
        taken = new["owner"] is not None and new["owner"] != old["owner"]
        if taken and (not fenced or new["owner"] != row.participant):
            self._violated(f"{row.participant} gave operation {new['id']} to {new['owner']} without a new fence")
        if taken and old["owner"] is not None and _time(old["lease_until"]) >= row.at:
            self._violated(
                f"{new['owner']} took operation {new['id']} from {old['owner']}, whose lease had not run out"
            )
        if taken and old["owner"] is not None:
            self._count("taken over")

    def _check_reason(self, new: Mapping[str, Any], state: OperationState) -> None:
        if not new["message"]:
            self._violated(f"operation {new['id']} is {state} without a word")
        if state is _S.FAILED and not (new["error_code"] and new["error_text"]):
            self._violated(f"operation {new['id']} has failed without a reason")
        if state in (*SETTLED, _S.FAILED) and new["finished_at"] is None:
            self._violated(f"operation {new['id']} is {state} and has no end")

    # --- targets ---

    def _check_target(self, row: Any) -> None:
        old, new = row.old, row.new
        where = f"{new['node_name']} of operation {new['operation_id']}"
        after = TargetState(new["state"])
        self._waves.setdefault(new["operation_id"], {})[new["node"]] = (new["wave"], after)
        if after.is_final and new["finished_at"] is None:
            self._violated(f"{where}: it is {after} and has no end")
        if after is TargetState.SKIPPED and (old is None or old["state"] != after):
            self._check_skipped(row, where)
        if old is None:
            is_reported = row.usable is None and new["error_code"] == faults.NODE_REMOVED
            if row.usable is not True and not is_reported:
                self._violated(f"{where}: it became a target and may be sent nothing")
            if row.drained and not after.is_final:
                self._violated(f"{where}: it became a target on a drained node")
            return
        before = TargetState(old["state"])
        if before is not after:
            self._around.trace.add(f"target {where} {before} -> {after} {new['error_code'] or ''} by {row.participant}")
        if before.is_final and before is not after and not _begins_again(old, new):
            self._violated(f"{where}: it was {before} and became {after}")
        if after is TargetState.ERROR and not (new["error_code"] and new["error_text"]):
            self._violated(f"{where}: an error without a reason")
        if old["job_id"] != new["job_id"]:
            return
        if new["percent"] < old["percent"]:
            self._violated(f"{where}: it fell from {old['percent']} to {new['percent']} percent")
        if old["stop_wanted"] and not new["stop_wanted"] and old["contacted_at"] != new["contacted_at"]:
            self.stopped[new["job_id"]] = (row.at - START).total_seconds()
        is_sent_again = after is TargetState.QUEUED and new["seq"] == 0
        if new["seq"] < old["seq"] and not is_sent_again:
            self._violated(f"{where}: event {new['seq']} was taken in after {old['seq']}")

    def _check_skipped(self, row: Any, where: str) -> None:
        """Check skips: with a reason the node is drained, without one an earlier wave failed before the target
        began."""
        old, new = row.old, row.new
        if new["error_code"] is not None:
            if new["error_code"] != faults.NODE_DRAINED or not row.drained:
                self._violated(f"{where}: it was skipped for {new['error_code']}, drained: {row.drained}")
        elif old is None or old["state"] != TargetState.QUEUED or new["is_rollback"]:
            self._violated(f"{where}: it was skipped after it had begun")
        else:
            self._skipped.append((new["operation_id"], new["wave"], where))

    def _check_waves(self) -> None:
        """Check skipped waves, after whole transactions: one may write the skip and the failure before it at once."""
        for operation_id, wave, where in self._skipped:
            others = self._waves[operation_id].values()
            if not any(other < wave and state is TargetState.ERROR for other, state in others):
                self._violated(f"{where}: it was skipped, and no earlier wave has failed")
        self._skipped.clear()

    # --- assignments ---

    def _check_assignment(self, row: Any) -> None:
        new = row.new
        if new is None:
            return
        key = (new["node_id"], new["backend"])
        known = self.newest_assignments.get(key)
        if known is None or new["generation"] > known.generation:
            self.newest_assignments[key] = RecordedAssignment(
                operation_id=new["operation_id"],
                node=new["node_id"],
                backend=new["backend"],
                desired=new["desired"],
                generation=new["generation"],
                version=(new["build"] or {}).get("version", ""),
            )
        elif new["generation"] < known.generation:
            self._violated(f"generation {new['generation']} of {new['backend']} came after {known.generation}")
        self._check_attempts(row)

    def _check_attempts(self, row: Any) -> None:
        old, new = row.old, row.new
        if new["state"] == "dead" and (old is None or old["state"] != "dead"):
            self._count("dead letters")
            is_kept = new["desired"] == "absent" and new["error_code"] in faults.PERMANENT
            if new["attempts"] < faults.ATTEMPTS_MAX and not is_kept:
                self._violated(f"{new['backend']} was put aside after {new['attempts']} attempts")
        if old is not None and new["generation"] == old["generation"]:
            risen = new["attempts"] - old["attempts"]
            if risen not in (0, 1):
                self._violated(f"the attempts of {new['backend']} went from {old['attempts']} to {new['attempts']}")
            if risen and new["error_code"] in (None, "node_timeout"):
                self._violated(f"an attempt of {new['backend']} was counted for {new['error_code']}")

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _violated(self, sentence: str) -> None:
        self._around.violated(sentence)


def _begins_again(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether a final state may be left: by a rollback of a success, or after a pause put the target aside."""
    if old["state"] == TargetState.SUCCESS:
        return bool(new["is_rollback"]) and not old["is_rollback"] and new["state"] == TargetState.QUEUED
    put_aside = old["state"] == TargetState.CANCELLED and old["keeps_partial"]
    # The node may be removed or drained by the time that the operation goes on; `_check_skipped` holds the second.
    is_removed = new["state"] == TargetState.ERROR and new["error_code"] == faults.NODE_REMOVED
    return put_aside and (is_removed or new["state"] in (TargetState.QUEUED, TargetState.SKIPPED))


def _time(value: str) -> datetime:
    return datetime.fromisoformat(value)
