"""One step of an operation: look at the rows, decide, tell the nodes, write down what came of it, conclude.

A step is bounded work; waiting for a worker is no part of it. It starts from the rows every time, so a first step, a
retry, a takeover and a cancellation are the same code. Guarantee: what is written carries the fence of the hold; a step
whose operation was taken over fails with `LeaseLost` and has changed nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from corral.bus.messages import OperationDelta
from corral.domain.errors import CorralError, Unavailable
from corral.domain.node import Node, NodeId
from corral.domain.operation import OPEN, Fault, JobId, Operation, OperationId, OperationState, TargetState
from corral.operations.apply import Teller, Told
from corral.operations.hearing import Listener, Said, delta_of, note, take_in
from corral.operations.planning import Builds, plan
from corral.operations.request import Asked
from corral.policy import faults
from corral.policy.dispatch import Decision, Verdict, View, conclude, decide
from corral.policy.progress import Ended, Standing, take
from corral.ports.runtime import Ids
from corral.store import assignments as assignment_store
from corral.store import dispatch as store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store.database import Database, Transaction
from corral.store.dispatch import Hold

# Ends that lead to further ends: a node removed, then later waves skipped, then a rollback begun.
ROUNDS_MAX = 4
BATCH_MAX = 128
SKIPPED_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """What a step has left behind. `next_s`: when there is something to do, None if somebody will call."""

    is_held: bool
    next_s: float | None = None
    # Something was told or written; a step that changes nothing is not repeated at once.
    has_moved: bool = False
    delta: OperationDelta | None = None
    # It waits for replicas to change: whatever becomes of one is a reason to look.
    hears_replicas: bool = False


class Steps(Protocol):
    """What the dispatcher drives operations of one pool with."""

    async def step(self, hold: Hold, *, asks_all: bool = False) -> Stepped: ...

    async def reap(self, hold: Hold) -> None:
        """Its owners are lost again and again: it fails."""
        ...

    async def fail(self, hold: Hold, text: str) -> None:
        """A fault of ours: it ends this operation and no other."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Another kind of work: what drives it, and what its jobs' news mean."""

    steps: Steps
    listener: Listener
    # Whether this frontend does something for an operation that a peer would have to begin anew.
    is_busy_with: Callable[[OperationId], bool] = lambda _: False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepper:
    database: Database
    teller: Teller
    ids: Ids
    catalog: Builds
    frontend_id: str

    async def step(self, hold: Hold, *, asks_all: bool = False) -> Stepped:
        moved: set[NodeId] = set()
        async with self.database.transaction() as tx:
            view = await self._look(tx, hold, asks_all=asks_all)
            if view.operation.state is OperationState.RUNNING and not view.targets:
                problem = await self._plan(tx, view.operation)
                if problem is not None:
                    return await self._fail(tx, hold, view.operation, problem)
                view = await self._look(tx, hold, asks_all=asks_all)
            view, decision = await self._settle(tx, view, hold, moved)
            if not (decision.send or decision.ask or decision.stop):
                return await self._conclude(tx, hold, view, moved)
        untold = await self._tell(hold, view, decision, moved)
        async with self.database.transaction() as tx:
            view = await self._look(tx, hold)
            view, _ = await self._settle(tx, view, hold, moved)
            stepped = await self._conclude(tx, hold, view, moved)
        # Off the bus ourselves: nobody was told, and trying again at once would not help.
        return replace(stepped, has_moved=False) if untold else stepped

    async def reap(self, hold: Hold) -> None:
        """Its owners are lost again and again: it fails, and the truth may still replace that."""
        fault = Fault(code=faults.OWNER_LOST, text="The frontends that worked on it were lost again and again.")
        async with self.database.transaction() as tx:
            operation = (await store.read(tx, hold, locks=True)).operation
            if operation.state in OPEN:
                await operation_store.add_note(tx, hold.id, fault.text, level="error")
                await store.write_verdict(tx, hold, operation, _failed(operation, fault), is_reaped=True)
            else:
                await store.let_go(tx, hold)

    async def fail(self, hold: Hold, text: str) -> None:
        """A fault of ours. It ends this operation and no other, and leaves no assignment that could run later."""
        fault = Fault(code=faults.INTERNAL, text=text)
        async with self.database.transaction() as tx:
            found = await store.read(tx, hold, locks=True)
            if found.operation.state not in OPEN:
                await store.let_go(tx, hold)
                return
            ended = Ended(state=TargetState.ERROR, fault=fault)
            view = _view(found, (), asks_all=False)
            await self._end(tx, Decision(end=tuple((target, ended) for target in view.targets)), view)
            await self._fail(tx, hold, found.operation, fault)

    async def _look(self, tx: Transaction, hold: Hold, *, asks_all: bool = False) -> View:
        found = await store.read(tx, hold, locks=True)
        nodes = await node_store.list_nodes(tx, only=_nodes_of(found.operation))
        return _view(found, nodes, asks_all=asks_all)

    async def _plan(self, tx: Transaction, operation: Operation) -> Fault | None:
        """Targets and assignments; or why there are none."""
        asked = Asked.from_json(operation.request)
        try:
            planned = await plan(tx, asked, self.catalog)
        except Unavailable:
            raise
        except CorralError as error:
            return Fault(code=error.slug, text=error.message)
        if not planned.targets:
            return Fault(code="no_eligible_nodes", text="No node is left that could have it.")
        await assignment_store.assign(tx, operation, planned.targets, self.ids)
        await operation_store.add_notes(
            tx,
            [
                (operation.id, "info", node.name, f"left out: {reason}")
                for node, reason in planned.skipped[:SKIPPED_SHOWN]
            ],
        )
        return None

    async def _settle(self, tx: Transaction, view: View, hold: Hold, moved: set[NodeId]) -> tuple[View, Decision]:
        """Write down what has ended by itself and what goes back, until nothing more follows from it."""
        for _ in range(ROUNDS_MAX):
            decision = decide(view)
            if decision.end:
                await self._end(tx, decision, view)
                moved |= {target.node for target, _ in decision.end}
            elif decision.roll_back:
                await self._roll_back(tx, decision, view)
                moved |= {target.node for target in decision.roll_back}
            else:
                return view, decision
            view = await self._look(tx, hold, asks_all=view.asks_all)
        return view, decide(view)

    async def _end(self, tx: Transaction, decision: Decision, view: View) -> None:
        changes = []
        for target, ended in decision.end:
            owed = view.assignments.get(target.node)
            standing = Standing(
                target=target,
                desired=owed.desired if owed else None,
                attempts=owed.attempts if owed else 0,
                next_job=target.job_id,
            )
            change = take(standing, ended)
            if change is not None:
                changes.append(change)
        await store.write_changes(tx, changes)
        await note(tx, changes)

    async def _roll_back(self, tx: Transaction, decision: Decision, view: View) -> None:
        wanted = [
            (target.node, str((target.previous or {}).get("name", "")), JobId(self.ids.new_id()))
            for target in decision.roll_back
        ]
        names = await store.roll_back(tx, view.operation.id, wanted)
        await operation_store.add_notes(
            tx,
            [(view.operation.id, "warning", name, "goes back to what it had: another node failed") for name in names],
        )

    async def _tell(self, hold: Hold, view: View, decision: Decision, moved: set[NodeId]) -> bool:
        """True if this frontend could not tell anybody anything."""
        works: list[Callable[[], Awaitable[Told]]] = [
            *(partial(self.teller.stop, target) for target in decision.stop),
            *(partial(self.teller.ask, target) for target in decision.ask),
            *(partial(self.teller.send, target, view.assignments[target.node]) for target in decision.send),
        ]
        reached = False

        async def take_batch(told: list[Told]) -> None:
            nonlocal reached
            known = [item for item in told if item.news is not None]
            reached = reached or bool(known)
            moved.update(item.node for item in known)
            await self._write(hold, known, view)

        await self.teller.tell_all(works, take_batch, BATCH_MAX)
        return not reached

    async def _write(self, hold: Hold, told: list[Told], view: View) -> None:
        if not told:
            return
        async with self.database.transaction() as tx:
            await store.require(tx, hold)
            said = [
                Said(node=item.node, job_id=item.job_id, news=item.news, stopped=item.stopped)
                for item in told
                if not item.is_stop and item.news is not None
            ]
            stopped = [item for item in told if item.is_stop and item.is_on_bus]
            await store.write_stopped(tx, [item.job_id for item in stopped])
            ended = [(item.node, item.stopped) for item in stopped]
            await take_in(tx, said, self.ids, as_of=view.now, ended=ended)
        await self._note_bus(told, view)

    async def _note_bus(self, told: list[Told], view: View) -> None:
        """A transaction of its own: heartbeats lock nodes before operations, so a node is never locked after one."""
        missing = {item.node for item in told if item.is_on_bus is False}
        unknown = {key for key, node in view.nodes.items() if node.bus_ok is None}
        answered = {item.node for item in told if item.is_on_bus} & unknown
        if missing or answered:
            async with self.database.transaction() as tx:
                await store.note_bus(tx, missing, is_on_bus=False)
                await store.note_bus(tx, answered, is_on_bus=True)

    async def _conclude(self, tx: Transaction, hold: Hold, view: View, moved: set[NodeId]) -> Stepped:
        operation, verdict = view.operation, conclude(view)
        if operation.state not in OPEN and verdict.state is operation.state:
            await store.let_go(tx, hold, verdict.next_at)
            return Stepped(is_held=False, has_moved=bool(moved))
        stepped = await self._write_verdict(tx, hold, operation, verdict, moved)
        next_s = None if verdict.next_at is None else (verdict.next_at - view.now).total_seconds()
        return replace(stepped, next_s=next_s)

    async def _write_verdict(
        self, tx: Transaction, hold: Hold, operation: Operation, verdict: Verdict, moved: set[NodeId]
    ) -> Stepped:
        rev = await store.write_verdict(tx, hold, operation, verdict)
        if verdict.state is not operation.state and verdict.state not in OPEN:
            level = "error" if verdict.state is OperationState.FAILED else "info"
            await operation_store.add_note(tx, hold.id, f"{verdict.state}: {verdict.message}", level=level)
        shown = replace(operation, state=verdict.state, message=verdict.message, progress=verdict.progress, rev=rev)
        return Stepped(
            is_held=verdict.is_moving,
            has_moved=bool(moved),
            delta=delta_of(shown, moved, origin=self.frontend_id),
        )

    async def _fail(self, tx: Transaction, hold: Hold, operation: Operation, fault: Fault) -> Stepped:
        return await self._write_verdict(tx, hold, operation, _failed(operation, fault), set())


def _failed(operation: Operation, fault: Fault) -> Verdict:
    return Verdict(state=OperationState.FAILED, message=fault.text, progress=operation.progress, fault=fault)


def _view(found: store.Found, nodes: Sequence[Node], *, asks_all: bool) -> View:
    return View(
        operation=found.operation,
        strategy=Asked.from_json(found.operation.request).strategy,
        assignments=found.assignments,
        nodes={node.id: node for node in nodes},
        now=found.now,
        asks_all=asks_all,
    )


def _nodes_of(operation: Operation) -> list[NodeId]:
    """Those that matter: all of them where waves wait for one another, else those that are not at their end."""
    has_waves = any(target.wave for target in operation.targets)
    return [target.node for target in operation.targets if has_waves or target.stop_wanted or not target.state.is_final]
