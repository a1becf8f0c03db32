"""Handles files ahead of a load: into the library (`model_install`), and from there onto nodes (`model_stage`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from corral.bus.subjects import MODEL_STAGE
from corral.domain.model import Model
from corral.domain.node import Node, NodeId
from corral.domain.operation import Fault, JobId, OperationKind, Target, TargetState
from corral.loading.fetches import (
    LOOK_S,
    FileProvisioner,
    add_file_check,
    has_known_files,
    is_available,
    is_past_deadline,
    list_cut_off_ends,
)
from corral.loading.kinds.commands import BlobSourceResolver, make_stage_command
from corral.loading.kinds.view import (
    ModelOperationView,
    end_targets,
    give_up,
    list_target_calls,
    make_completed_verdict,
    make_drained_verdict,
    make_failed_verdict,
    make_running_verdict,
    read_target_plan,
    reload_view,
    supersede,
)
from corral.loading.placer import PlacementSnapshot, Placer, list_file_holders
from corral.operations.command_sender import CommandResult, CommandSender
from corral.operations.driver import AdvanceResult
from corral.policy.dispatch import OperationVerdict, describe_drained
from corral.policy.loads import EDITED, RETURN_LOOK_S, find_end, is_returning, pick_sources
from corral.policy.status import describe_status
from corral.ports.runtime import IdGenerator
from corral.store import holdings as staged_store
from corral.store import loads as load_store
from corral.store import operations as operation_store
from corral.store.database import Transaction
from corral.store.loads import NewTarget

FETCH_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class StageHandler:
    """Drives operations that install or stage a model: bring its files into the library, and onto nodes."""

    placer: Placer
    files: FileProvisioner
    sender: CommandSender
    blob_sources: BlobSourceResolver
    ids: IdGenerator

    async def advance(self, tx: Transaction, view: ModelOperationView) -> AdvanceResult:
        model = view.model
        if model is None:
            return await supersede(tx, view, _make_gone_fault(view))
        await load_store.begin_deadline(tx, view.operation.id, self.files.timeouts.base_s)
        if not view.operation.targets:
            waiting = await self._begin(tx, view, model)
            if waiting is not None:
                return waiting
            view = await reload_view(tx, view)
        return await self._advance_targets(tx, view, model)

    async def _begin(self, tx: Transaction, view: ModelOperationView, model: Model) -> AdvanceResult | None:
        stages = view.spec.kind is OperationKind.MODEL_STAGE or view.spec.nodes is not None
        share = FETCH_SHARE if stages else 1.0
        if self.files.is_fetching(view) or not has_known_files(model):
            fetching = await self.files.ensure_files(tx, view, model, share=share)
            return fetching or AdvanceResult(
                verdict=make_running_verdict(view, f"The files of {model.name} are available", next_s=0.0)
            )
        if view.spec.kind is OperationKind.MODEL_INSTALL and not self.files.ensure_checked(view, model):
            return AdvanceResult(
                verdict=make_running_verdict(view, f"Checking the files of {model.name}", next_s=LOOK_S)
            )
        registry = await self.placer.read_snapshot(tx, model)
        if not is_available(model, registry.in_library, registry.staged):
            return await self.files.ensure_files(tx, view, model, share=share)
        if not stages:
            return AdvanceResult(verdict=make_completed_verdict(view, f"The files of {model.name} are available"))
        return await self._choose(tx, view, model, registry)

    async def _choose(
        self, tx: Transaction, view: ModelOperationView, model: Model, registry: PlacementSnapshot
    ) -> AdvanceResult | None:
        """Add a target for each node that lacks the files. None if there are targets."""
        named = None if view.spec.nodes is None else {NodeId(node) for node in view.spec.nodes}
        selected = [node for key, node in registry.nodes.items() if named is None or key in named]
        able = [node for node in selected if registry.fleet.rooms[node.id].is_candidate]
        known = list_file_holders(model, registry)
        whole = {holder.node for holder in known if holder.is_whole}
        left_out = [
            (view.operation.id, "warning", node.name, describe_status(node)) for node in selected if node not in able
        ]
        await operation_store.add_notes(tx, left_out[:50] if named is None else left_out)
        missing = [node for node in able if node.id not in whole and model.files]
        if not missing:
            if named is not None and not able:
                text = (
                    "; ".join(f"{node.name}: {describe_status(node)}" for node in selected) or "The nodes were removed."
                )
                return await give_up(tx, view, Fault(code="no_eligible_nodes", text=text))
            return AdvanceResult(
                verdict=make_completed_verdict(view, f"The files of {model.name} are on every requested node")
            )
        sources = pick_sources([node.id for node in missing], known)
        await load_store.put_targets(
            tx, view.operation.id, [self._make_target(node, model, sources) for node in missing]
        )
        held = [(node.id, model.name) for node in missing]
        await staged_store.cancel_removals(tx, held)
        await staged_store.put_models(tx, [(node, name, model.run_hash) for node, name in held])
        return None

    def _make_target(self, node: Node, model: Model, sources: Mapping[NodeId, Sequence[NodeId]]) -> NewTarget:
        plan = {"revision": model.run_hash, "from": list(sources[node.id]), "budget_s": 0.0}
        return NewTarget(
            node=node,
            job_id=JobId(self.ids.new_id()),
            build={"name": model.name, "version": "", "load": plan},
            total_bytes=model.engine_bytes or None,
        )

    async def _advance_targets(self, tx: Transaction, view: ModelOperationView, model: Model) -> AdvanceResult:
        if view.is_edited(model.run_hash):
            text = f"Model {model.name} was edited while its files were copied to nodes."
            return await supersede(tx, view, Fault(code=EDITED, text=text))
        over = is_past_deadline(view.operation.deadline_at, view.now)
        # A worker that is restarted does not know its job afterwards, and gets the command again.
        awaited = [t for t in view.open_targets if not over and is_returning(view.nodes.get(t.node), view.now)]
        ends = [
            (t, end)
            for t in view.open_targets
            if t not in awaited and (end := find_end(t, view.nodes.get(t.node), is_over=over)) is not None
        ]
        loss = await self.files.find_loss(tx, view, model)
        ends = ends or list_cut_off_ends(loss)
        moved = frozenset(target.node for target, _ in ends)
        view = await end_targets(tx, view, ends)
        if not view.open_targets:
            return AdvanceResult(verdict=self._make_end_verdict(view), moved=moved)
        fetch = await self.files.restore(tx, view, model, loss)
        if fetch is not None and fetch.verdict.fault is not None:
            return replace(fetch, moved=fetch.moved | moved)
        present = [target for target in view.open_targets if target not in awaited]
        found = list_target_calls(view, present, self.sender, partial(self._send, view, model))
        if awaited:
            found.moments.append(view.compute_time_after(RETURN_LOOK_S))
        words = f"Copying the files of {model.name} to {len(view.open_targets)} of {len(view.operation.targets)} nodes"
        verdict = make_running_verdict(view, words, next_at=min(found.moments, default=None))
        result = AdvanceResult(
            verdict=verdict, calls=tuple(found.calls), jobs_to_send=tuple(found.jobs_to_send), moved=moved
        )
        return add_file_check(result, view, model, fetch)

    def _make_end_verdict(self, view: ModelOperationView) -> OperationVerdict:
        failures = [target for target in view.operation.targets if target.state is TargetState.ERROR]
        skipped = [target.node_name for target in view.operation.targets if target.state is TargetState.SKIPPED]
        if not failures and skipped and not view.done_targets:
            return make_drained_verdict(view, skipped)
        if not failures:
            left_out = f"; skipped: {describe_drained(skipped)}" if skipped else ""
            return make_completed_verdict(view, f"The files are on {len(view.done_targets)} nodes{left_out}")
        text = "; ".join(f"{t.node_name}: {t.fault.text if t.fault else 'failed'}" for t in failures)
        code = failures[0].fault.code if failures[0].fault else "internal"
        return make_failed_verdict(view, Fault(code=code, text=text))

    async def _send(self, view: ModelOperationView, model: Model, target: Target) -> CommandResult:
        sources = await self.blob_sources.resolve(
            target.node, read_target_plan(target).get("from") or (), view.nodes, model
        )
        return await self.sender.send_command(MODEL_STAGE, make_stage_command(target, model, sources), target)


def _make_gone_fault(view: ModelOperationView) -> Fault:
    return Fault(code="model_not_found", text=f"There is no model {view.spec.model} any more.")
