"""A load: have the files, choose nodes, make room, tell them, and go on elsewhere when one cannot.

Every look starts from the rows; a takeover is a look like any other. Guarantee: whatever a load has begun it brings to
its end: the replica is published, or its row and what was set aside for it are gone, or it is on its way out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from corral.bus.subjects import MODEL_LOAD
from corral.domain.model import Model
from corral.domain.node import NodeId
from corral.domain.operation import Fault, Phase, Progress, Target, TargetState
from corral.domain.replica import Replica, ReplicaState
from corral.loading.kinds.commands import Places, load_command
from corral.loading.kinds.files import (
    FileNeeds,
    are_known,
    ends_of_cut_off,
    is_over,
    is_somewhere,
    with_guard,
)
from corral.loading.kinds.view import (
    Next,
    Patience,
    View,
    Work,
    completed,
    end_targets,
    failed,
    give_up,
    not_begun,
    plan_of,
    progress_of,
    reread,
    running,
    supersede,
)
from corral.loading.load_tickets import LoadTickets
from corral.loading.placing import Attempt, Placer
from corral.operations.apply import Teller, Told
from corral.policy import faults
from corral.policy.dispatch import can_be_asked, can_be_sent
from corral.policy.loading import EDITED, STALLED, Again, Failure, all_causes, asked_at, end_of, next_try
from corral.policy.progress import Ended
from corral.store import loads as load_store
from corral.store import replicas as replica_store
from corral.store.database import Transaction
from corral.store.loads import earlier_faults

# How often to look while others make room; what ends is heard of at once.
ROOM_S = 1.0
# Looks at a fleet in which everything that could go is in use.
BUSY_LOOKS = 4
# So often the stop of one that was to make room may fail; the pauses between double.
STOP_TRIES = 5
# How much of the bar is getting the files to a frontend, if that is needed at all.
FETCH_SHARE = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadKind:
    placer: Placer
    files: FileNeeds
    teller: Teller
    places: Places
    tickets: LoadTickets
    busy: Patience

    async def advance(self, tx: Transaction, view: View) -> Next:
        model = view.model
        refusal = _refusal(view)
        if model is None or refusal is not None:
            return await supersede(tx, view, refusal or _gone(view))
        await load_store.begin_hold(tx, view.operation.id, self.files.hold.base_s)
        over = is_over(view.operation.deadline_at, view.now)
        there = await _still_there(tx, view)
        found = [(t, end_of(t, view.nodes.get(t.node), is_over=over) or _in_vain(t, there)) for t in view.open]
        loss = await self.files.find_loss(tx, view, model)
        ends = [(target, end) for target, end in found if end is not None] or ends_of_cut_off(loss)
        moved = frozenset(target.node for target, _ in ends)
        view = await end_targets(tx, view, ends)
        if _lacking(view):
            waiting = await self._find_place(tx, view, model)
            if waiting is not None and not view.open:
                return replace(waiting, moved=moved | waiting.moved)
            view = await reread(tx, view)
            there = await _still_there(tx, view)
        fetch = await self.files.restore(tx, view, model, loss)
        if fetch is not None and fetch.verdict.fault is not None:
            return replace(fetch, moved=fetch.moved | moved)
        return with_guard(self._go_on(view, model, there, moved), view, model, fetch)

    async def _find_place(self, tx: Transaction, view: View, model: Model) -> Next | None:
        """None if nodes were chosen. Else what is waited for, or why there is no place."""
        failures = _failures(view)
        again = next_try(failures) if failures else Again()
        if again is None:
            return await self._fail(tx, view, failures)
        if not view.operation.targets and await _is_enough(tx, view, model):
            return Next(verdict=completed(view, f"{model.name} is loaded already."))
        if self.files.is_fetching(view) or not are_known(model):
            fetching = await self._fetch_files(tx, view, model)
            # What was fetched may have given the model another run hash: it is read anew at the next look.
            return fetching or Next(verdict=running(view, f"Choosing a node for {model.name}", next_s=0.0))
        if is_over(view.operation.deadline_at, view.now):
            return await self._fail(tx, view, [*failures, _nowhere(view)])
        return await self._place(tx, view, model, failures, again)

    async def _fetch_files(self, tx: Transaction, view: View, model: Model) -> Next | None:
        """Fetch the files, unless an installation that this load waited for has just tried that in vain: then the load
        ends without a failure of its own. None if the files are there."""
        if not self.files.is_fetching(view):
            install = await load_store.find_ended_install(tx, view.operation)
            if install is not None:
                return Next(verdict=not_begun(view, install))
        return await self.files.look(tx, view, model, share=FETCH_SHARE)

    async def _place(
        self, tx: Transaction, view: View, model: Model, failures: Sequence[Failure], again: Again
    ) -> Next | None:
        await load_store.lock_placing(tx)
        registry = await self.placer.look(tx, model)
        if not is_somewhere(model, registry.in_library, registry.staged):
            return await self._fetch_files(tx, view, model)
        attempt = Attempt(wanted=replace(view.wanted, count=_lacking(view)), again=again)
        decided = self.placer.decide(model, attempt, registry)
        key = view.operation.id
        if decided.is_busy and not self.busy.is_over(key):
            return _making_room(view, decided.fault.text if decided.fault else "")
        self.busy.forget(key)
        if decided.fault is not None:
            return await self._fail(tx, view, failures, decided.fault)
        if decided.waits:
            return _making_room(view, decided.waits)
        # A node is at one replica of a load at a time; those that are at one now get another one after it.
        now = decided.one_each(without={target.node for target in view.open})
        if not now.choices:
            return Next(verdict=running(view, _sentence(view, ())))
        await self.placer.write(tx, view.operation, model, now, registry)
        return None

    async def _fail(
        self, tx: Transaction, view: View, failures: Sequence[Failure], refusal: Fault | None = None
    ) -> Next:
        """With every cause. As long as other nodes are at it, they go on, and this is looked at when they are done."""
        fault = all_causes(failures, [refusal.text] if refusal else []) or _gone(view)
        if refusal is not None:
            fault = replace(fault, code=refusal.code if not failures else fault.code)
        if view.open:
            return Next(verdict=running(view, fault.text))
        if view.loaded_on:
            # Those that are there stay; the sentence says what is missing.
            missing = view.wanted.count - len(view.loaded_on)
            words = f"Loaded on {_named(view.loaded_on)}; {missing} more have no place. {fault.text}"
            return Next(verdict=failed(view, Fault(code=fault.code, text=words)))
        return await give_up(tx, view, fault)

    def _go_on(self, view: View, model: Model, there: Mapping[str, Replica], moved: frozenset[NodeId]) -> Next:
        """Tell those that are to be told, ask those that are silent, and say how far it is."""
        if not view.open:
            return Next(verdict=completed(view, f"Loaded on {_named(view.loaded_on)}"), moved=moved)
        works: list[Work] = []
        moments: list[datetime] = []
        blocked: list[Target] = []
        for target in view.open:
            node = view.nodes.get(target.node)
            if target.state is TargetState.QUEUED:
                if _waits(target) & there.keys():
                    blocked.append(target)
                    continue
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
        if blocked:
            moments.append(view.in_seconds(ROOM_S))
        verdict = running(
            view, _sentence(view, blocked), progress=_progress(view, blocked), next_at=min(moments, default=None)
        )
        return Next(verdict=verdict, works=tuple(works), moved=moved, hears_replicas=bool(blocked))

    async def _send(self, view: View, target: Target, model: Model) -> Told:
        places = await self.places.of(target.node, plan_of(target).get("from") or (), view.nodes, model)
        plan = plan_of(target)
        ticket = self.tickets.issue(target.node, model.name, int(plan["index"]), str(plan["revision"]))
        return await self.teller.command(MODEL_LOAD, load_command(target, model, places, ticket), target)


def _lacking(view: View) -> int:
    """How many replicas have still to be begun."""
    return max(0, view.wanted.count - len(view.loaded_on) - len(view.open))


def _refusal(view: View) -> Fault | None:
    """Why this load makes no sense any more."""
    model = view.model
    if model is None:
        return _gone(view)
    if not model.config.is_enabled:
        return Fault(code="model_disabled", text=f"Model {model.name} was disabled.")
    if view.is_edited(model.run_hash):
        text = f"Model {model.name} was edited while it was loaded. The next load takes it as it is now."
        return Fault(code=EDITED, text=text)
    return None


def _gone(view: View) -> Fault:
    return Fault(code="model_not_found", text=f"There is no model {view.wanted.model} any more.")


def _nowhere(view: View) -> Failure:
    text = "no node had room for it in time"
    return Failure(node=NodeId(""), node_name=view.wanted.model, fault=Fault(code=STALLED, text=text))


def _failures(view: View) -> list[Failure]:
    """Oldest first: those of targets that began anew are kept with them."""
    found: list[tuple[datetime, Failure]] = []
    for target in view.operation.targets:
        at = target.finished_at or view.now
        known = earlier_faults(target.previous)
        if target.state is TargetState.ERROR:
            known.append(target.fault or Fault(code=faults.INTERNAL, text="It failed."))
        found += [(at, Failure(node=target.node, node_name=target.node_name, fault=fault)) for fault in known]
    return [failure for _, failure in sorted(found, key=lambda item: item[0])]


async def _is_enough(tx: Transaction, view: View, model: Model) -> bool:
    """Whether what was asked for has come by itself: an engine that died was started anew and adopted."""
    enough = 1 if view.wanted.if_cold else view.wanted.enough
    if enough is None:
        return False
    rows = await replica_store.list_replicas(tx, model=model.name)
    return sum(row.state is ReplicaState.LOADED and row.revision == model.run_hash for row in rows) >= enough


async def _still_there(tx: Transaction, view: View) -> dict[str, Replica]:
    """Of the replicas that somebody here waits for, those that have not ended."""
    waits = {key for target in view.open for key in _waits(target)}
    return {replica.id: replica for replica in await replica_store.list_existing(tx, waits)}


def _waits(target: Target) -> set[str]:
    """What has to be gone before this one begins; once it was told, that is of no interest."""
    return set(plan_of(target).get("waits") or ()) if target.state is TargetState.QUEUED else set()


def _in_vain(target: Target, there: Mapping[str, Replica]) -> Ended | None:
    """Whether what was to make room does not go: then another node may do."""
    for key in sorted(_waits(target) & there.keys()):
        replica = there[key]
        if replica.stop_attempts > STOP_TRIES:
            text = f"{replica.model} was to make room there and does not end: {replica.stop_problem}"
            return Ended(state=TargetState.ERROR, fault=Fault(code="eviction_failed", text=text))
    return None


def _making_room(view: View, words: str) -> Next:
    progress = replace(view.operation.progress, phase=Phase.MAKING_ROOM)
    return Next(verdict=running(view, words, progress=progress, next_s=ROOM_S), hears_replicas=True)


def _progress(view: View, blocked: Sequence[Target]) -> Progress:
    progress = progress_of(view)
    if blocked and len(blocked) == len(view.open):
        return replace(progress, phase=Phase.MAKING_ROOM)
    return progress


def _sentence(view: View, blocked: Sequence[Target]) -> str:
    name = view.wanted.model
    if blocked and len(blocked) == len(view.open):
        return f"Making room for {name} on {_names(blocked)}"
    silent = [target for target in view.open if target.state is TargetState.UNCONFIRMED]
    if silent and len(silent) == len(view.open):
        return f"{_names(silent)} was told to load {name} and does not answer now"
    done = f"; loaded on {_named(view.loaded_on)}" if view.loaded_on else ""
    return f"Loading {name} on {_names(view.open)}{done}"


def _names(targets: Sequence[Target]) -> str:
    return _named([target.node_name for target in targets])


def _named(names: Sequence[str]) -> str:
    """Each once; one that got several says how many."""
    counts = Counter(names)
    shown = ", ".join(name if count == 1 else f"{name} ({count} times)" for name, count in list(counts.items())[:5])
    return shown if len(counts) <= 5 else f"{shown} and {len(counts) - 5} more"
