"""One step of an operation about a model: look at the rows, write what follows, tell nodes, look once more, conclude.

As for backends a step is bounded work and starts from the rows every time. Guarantee: what is written carries the fence
of the hold; a step whose operation was taken over fails with `LeaseLost`, has changed nothing, and what this frontend
fetched for it is stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import structlog

from corral.domain.errors import LeaseLost
from corral.domain.node import NodeId
from corral.domain.operation import OPEN, Fault, OperationKind, OperationState
from corral.loading.fetches import Fetches
from corral.loading.kinds.view import Kind, Next, View, Work, failed, give_up, nodes_of, reread
from corral.loading.request import Wanted
from corral.operations.apply import Teller, Told
from corral.operations.hearing import Listener, Said, delta_of, take_in
from corral.operations.step import Stepped
from corral.policy import faults
from corral.policy.dispatch import ASKED_AGAIN, Verdict, can_be_asked
from corral.ports.runtime import Ids
from corral.runtime.guard import Failed, attempt
from corral.store import dispatch as store
from corral.store import loads as load_store
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store.database import Database, Transaction
from corral.store.dispatch import Hold

log = structlog.get_logger(__name__)

BATCH_MAX = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStepper:
    """`operations.step.Steps` for the pool of models."""

    database: Database
    teller: Teller
    ids: Ids
    fetches: Fetches
    listener: Listener
    kinds: Mapping[OperationKind, Kind]
    frontend_id: str

    async def step(self, hold: Hold, *, asks_all: bool = False) -> Stepped:
        try:
            return await self._step(hold, asks_all=asks_all)
        except LeaseLost:
            self.fetches.stop(hold.id)
            raise

    async def _step(self, hold: Hold, *, asks_all: bool) -> Stepped:
        async with self.database.transaction() as tx:
            view = await self._look(tx, hold, asks_all=asks_all)
            following = await self._advance(tx, view)
            view = await reread(tx, view)
            stops = self._stops(view)
            if not (following and following.works) and not stops:
                stepped = await self._conclude(tx, view, following)
            else:
                stepped = None
        if stepped is not None:
            return await self._after(stepped, following)
        works = (*(following.works if following else ()), *stops)
        moved = following.moved if following else frozenset()
        told = await self._tell(hold, view, works)
        async with self.database.transaction() as tx:
            view = await self._look(tx, hold)
            following = await self._advance(tx, view)
            view = await reread(tx, view)
            if following is not None:
                following = replace(following, moved=following.moved | moved | told)
            stepped = await self._conclude(tx, view, following)
        stepped = await self._after(stepped, following)
        # Off the bus ourselves: trying again at once would not help.
        return stepped if told else replace(stepped, has_moved=False)

    async def reap(self, hold: Hold) -> None:
        fault = Fault(code=faults.OWNER_LOST, text="The frontends that worked on it were lost again and again.")
        async with self.database.transaction() as tx:
            view = await self._look(tx, hold)
            if view.operation.state not in OPEN:
                await store.let_go(tx, hold)
                return
            await operation_store.add_note(tx, hold.id, fault.text, level="error")
            await load_store.abandon_operation(tx, hold.id, fault.text)
            await store.write_verdict(tx, hold, view.operation, failed(view, fault), is_reaped=True)

    async def fail(self, hold: Hold, text: str) -> None:
        self.fetches.stop(hold.id)
        async with self.database.transaction() as tx:
            view = await self._look(tx, hold)
            if view.operation.state not in OPEN:
                await store.let_go(tx, hold)
                return
            await self._conclude(tx, view, await give_up(tx, view, Fault(code=faults.INTERNAL, text=text)))

    async def _look(self, tx: Transaction, hold: Hold, *, asks_all: bool = False) -> View:
        found = await store.read(tx, hold, locks=True)
        wanted = Wanted.from_json(found.operation.request)
        concerned = nodes_of(found.operation)
        models = await model_store.list_models(tx, [wanted.model])
        return View(
            hold=hold,
            operation=found.operation,
            wanted=wanted,
            nodes={node.id: node for node in await node_store.list_nodes(tx, only=concerned)},
            model=models[0] if models else None,
            now=found.now,
            asks_all=asks_all,
        )

    async def _advance(self, tx: Transaction, view: View) -> Next | None:
        """None: it is at its end, and there is only somebody left to tell."""
        if view.operation.state not in OPEN:
            return None
        return await self.kinds[view.operation.kind].advance(tx, view)

    def _stops(self, view: View) -> tuple[Work, ...]:
        return tuple(
            partial(self.teller.stop, target)
            for target in view.operation.targets
            if target.stop_wanted and can_be_asked(view.nodes.get(target.node))
        )

    async def _tell(self, hold: Hold, view: View, works: tuple[Work, ...]) -> frozenset[NodeId]:
        """The nodes of which something was learnt."""
        reached: set[NodeId] = set()

        async def take_batch(told: list[Told]) -> None:
            known = [item for item in told if item.news is not None]
            reached.update(item.node for item in known)
            await self._write(hold, known, view)

        await self.teller.tell_all(works, take_batch, BATCH_MAX)
        return frozenset(reached)

    async def _write(self, hold: Hold, told: list[Told], view: View) -> None:
        if not told:
            return
        async with self.database.transaction() as tx:
            await store.require(tx, hold)
            said = [
                Said(node=item.node, job_id=item.job_id, news=item.news, result=item.result)
                for item in told
                if not item.is_stop and item.news is not None
            ]
            await store.write_stopped(tx, [item.job_id for item in told if item.is_stop and item.is_on_bus])
            await take_in(tx, said, self.ids, as_of=view.now, listeners={"model": self.listener})
        missing = {item.node for item in told if item.is_on_bus is False}
        if missing:
            async with self.database.transaction() as tx:
                await store.note_bus(tx, missing, is_on_bus=False)

    async def _conclude(self, tx: Transaction, view: View, following: Next | None) -> Stepped:
        operation = view.operation
        if following is None:
            waits = any(target.stop_wanted for target in operation.targets)
            await store.let_go(tx, view.hold, view.now + ASKED_AGAIN if waits else None)
            return Stepped(is_held=False, has_moved=True)
        verdict = self._with_stops(view, following.verdict)
        rev = await store.write_verdict(tx, view.hold, operation, verdict)
        if verdict.state is not operation.state and verdict.state not in OPEN:
            level = "error" if verdict.state is OperationState.FAILED else "info"
            await operation_store.add_note(tx, operation.id, f"{verdict.state}: {verdict.message}", level=level)
        shown = replace(
            await operation_store.get(tx, operation.id), state=verdict.state, message=verdict.message, rev=rev
        )
        if verdict.state not in OPEN:
            self.fetches.stop(operation.id)
        return Stepped(
            is_held=verdict.is_moving,
            has_moved=bool(following.moved) or verdict.next_at is not None,
            next_s=None if verdict.next_at is None else (verdict.next_at - view.now).total_seconds(),
            delta=delta_of(shown, following.moved, origin=self.frontend_id),
            hears_replicas=following.hears_replicas,
        )

    def _with_stops(self, view: View, verdict: Verdict) -> Verdict:
        """Those that did not answer when they were to stop are told again."""
        if not self._stops(view):
            return verdict
        again = view.now + ASKED_AGAIN
        return replace(verdict, next_at=again if verdict.next_at is None else min(verdict.next_at, again))

    async def _after(self, stepped: Stepped, following: Next | None) -> Stepped:
        if following is not None and following.afterwards is not None:
            outcome = await attempt(following.afterwards)
            if isinstance(outcome, Failed):
                log.warning("could not tidy up after an operation", error=outcome.sentence)
        return stepped
