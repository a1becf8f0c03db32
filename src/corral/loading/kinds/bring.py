"""Files ahead of a load: into the library (`model_install`), and from there onto nodes (`model_stage`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from corral.bus.subjects import MODEL_STAGE
from corral.domain.model import Model
from corral.domain.node import Node, NodeId
from corral.domain.operation import Fault, JobId, OperationKind, Target, TargetState
from corral.loading.fleet import Registry
from corral.loading.kinds.commands import Places, stage_command
from corral.loading.kinds.files import (
    LOOK_S,
    FileNeeds,
    are_known,
    ends_of_cut_off,
    is_over,
    is_somewhere,
    with_guard,
)
from corral.loading.kinds.view import (
    Next,
    View,
    Work,
    completed,
    end_targets,
    failed,
    give_up,
    plan_of,
    reread,
    running,
    supersede,
)
from corral.loading.placing import Placer, holders
from corral.operations.apply import Teller, Told
from corral.policy.dispatch import Verdict, can_be_asked, can_be_sent
from corral.policy.loading import EDITED, asked_at, end_of, sources_of
from corral.policy.status import reason_of
from corral.ports.runtime import Ids
from corral.store import loads as load_store
from corral.store import operations as operation_store
from corral.store import staged as staged_store
from corral.store.database import Transaction
from corral.store.loads import NewTarget

FETCH_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class BringKind:
    placer: Placer
    files: FileNeeds
    teller: Teller
    places: Places
    ids: Ids

    async def advance(self, tx: Transaction, view: View) -> Next:
        model = view.model
        if model is None:
            return await supersede(tx, view, _gone(view))
        await load_store.begin_hold(tx, view.operation.id, self.files.hold.base_s)
        if not view.operation.targets:
            waiting = await self._begin(tx, view, model)
            if waiting is not None:
                return waiting
            view = await reread(tx, view)
        return await self._go_on(tx, view, model)

    async def _begin(self, tx: Transaction, view: View, model: Model) -> Next | None:
        stages = view.wanted.kind is OperationKind.MODEL_STAGE or view.wanted.nodes is not None
        share = FETCH_SHARE if stages else 1.0
        if self.files.is_fetching(view) or not are_known(model):
            fetching = await self.files.look(tx, view, model, share=share)
            return fetching or Next(verdict=running(view, f"The files of {model.name} are there", next_s=0.0))
        if view.wanted.kind is OperationKind.MODEL_INSTALL and not self.files.are_checked(view, model):
            return Next(verdict=running(view, f"Looking at the files of {model.name}", next_s=LOOK_S))
        registry = await self.placer.look(tx, model)
        if not is_somewhere(model, registry.in_library, registry.staged):
            return await self.files.look(tx, view, model, share=share)
        if not stages:
            return Next(verdict=completed(view, f"The files of {model.name} are there"))
        return await self._choose(tx, view, model, registry)

    async def _choose(self, tx: Transaction, view: View, model: Model, registry: Registry) -> Next | None:
        """One target for each node that is to have the files and has not. None if there are some."""
        wanted = None if view.wanted.nodes is None else {NodeId(node) for node in view.wanted.nodes}
        asked = [node for key, node in registry.nodes.items() if wanted is None or key in wanted]
        able = [node for node in asked if registry.fleet.rooms[node.id].is_candidate]
        known = holders(model, registry)
        whole = {holder.node for holder in known if holder.is_whole}
        left_out = [(view.operation.id, "warning", node.name, reason_of(node)) for node in asked if node not in able]
        await operation_store.add_notes(tx, left_out[:50] if wanted is None else left_out)
        missing = [node for node in able if node.id not in whole and model.files]
        if not missing:
            if wanted is not None and not able:
                text = "; ".join(f"{node.name}: {reason_of(node)}" for node in asked) or "The nodes are gone."
                return await give_up(tx, view, Fault(code="no_eligible_nodes", text=text))
            return Next(verdict=completed(view, f"The files of {model.name} are on every node that was asked for"))
        sources = sources_of([node.id for node in missing], known)
        await load_store.put_targets(tx, view.operation.id, [self._target(node, model, sources) for node in missing])
        held = [(node.id, model.name) for node in missing]
        await staged_store.forgive_removals(tx, held)
        await staged_store.put_models(tx, [(node, name, model.run_hash) for node, name in held])
        return None

    def _target(self, node: Node, model: Model, sources: Mapping[NodeId, Sequence[NodeId]]) -> NewTarget:
        plan = {"revision": model.run_hash, "from": list(sources[node.id]), "budget_s": 0.0}
        return NewTarget(
            node=node,
            job_id=JobId(self.ids.new_id()),
            build={"name": model.name, "version": "", "load": plan},
            total_bytes=model.payload_bytes or None,
        )

    async def _go_on(self, tx: Transaction, view: View, model: Model) -> Next:
        if view.is_edited(model.run_hash):
            text = f"Model {model.name} was edited while its files were copied to nodes."
            return await supersede(tx, view, Fault(code=EDITED, text=text))
        over = is_over(view.operation.deadline_at, view.now)
        ends = [(t, end) for t in view.open if (end := end_of(t, view.nodes.get(t.node), is_over=over)) is not None]
        loss = await self.files.find_loss(tx, view, model)
        ends = ends or ends_of_cut_off(loss)
        moved = frozenset(target.node for target, _ in ends)
        view = await end_targets(tx, view, ends)
        if not view.open:
            return Next(verdict=self._ending(view), moved=moved)
        fetch = await self.files.restore(tx, view, model, loss)
        if fetch is not None and fetch.verdict.fault is not None:
            return replace(fetch, moved=fetch.moved | moved)
        works: list[Work] = []
        moments: list[datetime] = []
        for target in view.open:
            node = view.nodes.get(target.node)
            if target.state is TargetState.QUEUED:
                if can_be_sent(node):
                    works.append(partial(self._send, view, target, model))
                moments.append(view.now)
            elif can_be_asked(node):
                at = asked_at(target, view.now)
                if view.asks_all or at <= view.now:
                    works.append(partial(self.teller.ask, target))
                moments.append(max(at, view.now))
        if view.operation.deadline_at is not None:
            moments.append(max(view.operation.deadline_at, view.now))
        words = f"Getting the files of {model.name} to {len(view.open)} of {len(view.operation.targets)} nodes"
        verdict = running(view, words, next_at=min(moments, default=None))
        return with_guard(Next(verdict=verdict, works=tuple(works), moved=moved), view, model, fetch)

    def _ending(self, view: View) -> Verdict:
        failures = [target for target in view.operation.targets if target.state is TargetState.ERROR]
        if not failures:
            return completed(view, f"The files are on {len(view.done)} nodes")
        text = "; ".join(f"{t.node_name}: {t.fault.text if t.fault else 'failed'}" for t in failures)
        code = failures[0].fault.code if failures[0].fault else "internal"
        return failed(view, Fault(code=code, text=text))

    async def _send(self, view: View, target: Target, model: Model) -> Told:
        places = await self.places.of(target.node, plan_of(target).get("from") or (), view.nodes, model)
        return await self.teller.command(MODEL_STAGE, stage_command(target, model, places), target)


def _gone(view: View) -> Fault:
    return Fault(code="model_not_found", text=f"There is no model {view.wanted.model} any more.")
