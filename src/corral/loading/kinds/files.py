"""The files of a model that an operation needs: known, and somewhere to be had; else this frontend fetches them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from corral.domain.model import Model
from corral.domain.node import NodeId
from corral.domain.operation import Fault, Target, TargetState
from corral.loading.fetches import Fetches
from corral.loading.holding import push
from corral.loading.kinds.view import Next, View, give_up, plan_of, running
from corral.policy.loading import STALLED, Hold, is_at_the_engine
from corral.policy.progress import Ended
from corral.store import staged as staged_store
from corral.store.database import Transaction
from corral.store.staged import StagedFile

# How often a fetch is looked at: the row, and with it everybody who watches, is at most so far behind.
LOOK_S = 0.5
# A frontend that restarts takes its library away for a moment; files are lost if nobody has had them for so long.
LOST_S = 15.0
# How often the files are looked after that a node still waits for.
GUARD_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLoss:
    """Nodes that wait for files which they cannot get any more. `is_total`: nobody in the cluster has the files."""

    targets: tuple[Target, ...] = ()
    is_total: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNeeds:
    fetches: Fetches
    hold: Hold

    async def look(self, tx: Transaction, view: View, model: Model, *, share: float) -> Next | None:
        """Where the fetch of this model is; None if its files are there now. `share` of the bar is the fetch."""
        fetch = self.fetches.look(view.operation.id, model)
        if fetch.is_done:
            self.fetches.forget(fetch)
            return None
        if fetch.fault is not None:
            # It is kept until the operation has ended: until that is written, every look comes to the same end.
            return await give_up(tx, view, fetch.fault)
        progress = fetch.progress(share)
        if progress.current_bytes != view.operation.progress.current_bytes:
            await push(tx, [view.operation.id], self.hold)
        elif is_over(view.operation.deadline_at, view.now):
            self.fetches.stop(view.operation.id)
            text = f"Nothing of the files has come for too long. {fetch.problem}".strip()
            return await give_up(tx, view, Fault(code=STALLED, text=text))
        words = f"Fetching the files of {model.name}"
        if fetch.problem:
            words += f"; tried again after: {fetch.problem}"
        return Next(verdict=running(view, words, progress=progress, next_s=LOOK_S))

    async def find_loss(self, tx: Transaction, view: View, model: Model) -> FileLoss:
        """Look whether the files that open targets still wait for are in the library or on a node that they ask."""
        waiting = waiting_for_files(view)
        sha256s = {file.sha256 for file in model.files or ()}
        if not waiting or not sha256s:
            return FileLoss()
        in_library = frozenset(await staged_store.in_library(tx, sha256s))
        missing = sha256s - in_library
        staged = await staged_store.list_files(tx, missing) if missing else []
        cut_off = tuple(target for target in waiting if not _can_reach(target, missing, staged))
        if not self.fetches.is_lost_for(view.operation.id, LOST_S, is_lost=bool(cut_off)):
            return FileLoss()
        return FileLoss(targets=cut_off, is_total=not is_somewhere(model, in_library, staged))

    async def restore(self, tx: Transaction, view: View, model: Model, loss: FileLoss) -> Next | None:
        """Fetch files again that nobody has any more; nodes that wait for them go on by themselves. None if nothing is
        to be waited for."""
        return await self.look(tx, view, model, share=0.0) if loss.is_total else None

    def are_checked(self, view: View, model: Model) -> bool:
        """Whether this frontend has looked at its copies of the files for this operation; begun if it has not."""
        return self.fetches.check(view.operation.id, {file.sha256 for file in model.files or ()})

    def is_fetching(self, view: View) -> bool:
        return self.fetches.is_wanted_by(view.operation.id)


def waiting_for_files(view: View) -> list[Target]:
    """Open targets whose nodes may not have all files yet."""
    return [target for target in view.open if not is_at_the_engine(target.progress)]


def ends_of_cut_off(loss: FileLoss) -> list[tuple[Target, Ended]]:
    """How targets end whose files are in other places than they were told: they are told anew."""
    if loss.is_total:
        return []
    text = "The places that the files came from do not have them any more; others do."
    return [
        (target, Ended(state=TargetState.ERROR, fault=Fault(code="source_unavailable", text=text)))
        for target in loss.targets
    ]


def with_guard(following: Next, view: View, model: Model, fetch: Next | None) -> Next:
    """Add a look after the files to what an operation does next, as long as nodes wait for them. `fetch`: what brings
    lost files back now."""
    if not model.files or not waiting_for_files(view):
        return following
    soon = view.in_seconds(GUARD_S)
    moments = [following.verdict.next_at or soon, fetch.verdict.next_at or soon if fetch else soon]
    message = fetch.verdict.message if fetch else following.verdict.message
    return replace(following, verdict=replace(following.verdict, message=message, next_at=min(moments)))


def _can_reach(target: Target, missing: Collection[str], staged: Sequence[StagedFile]) -> bool:
    known = {target.node, *(NodeId(node) for node in plan_of(target).get("from") or ())}
    held = {item.sha256 for item in staged if item.is_whole and item.node_id in known}
    return all(sha256 in held for sha256 in missing)


def is_over(deadline_at: datetime | None, now: datetime) -> bool:
    return deadline_at is not None and deadline_at <= now


def are_known(model: Model) -> bool:
    return model.files is not None


def is_somewhere(model: Model, in_library: frozenset[str], staged: Sequence[StagedFile]) -> bool:
    """Whether every content can be had: from the library, or from nodes that have it whole."""
    held = in_library | {item.sha256 for item in staged if item.is_whole}
    return model.files is not None and all(file.sha256 in held for file in model.files)
