"""Ways to break what the product does about models, for the length of a test, each with words by which the simulator
has to notice it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from corral.domain.operation import JobId
from corral.domain.replica import Replica
from corral.gateway.routing import routing_snapshot
from corral.gateway.routing.replica_pool import RoutableReplica
from corral.loading import holdings
from corral.loading.copy_remover import ModelCopyRemover
from corral.loading.kinds import load
from corral.loading.kinds.view import give_up
from corral.loading.replica_stopper import ReplicaStopper
from corral.policy.placing import placement, scaling
from corral.policy.placing.placement import PlacementFilter
from corral.policy.serving.routing import RoutableNode
from corral.store import dispatch as dispatch_store
from corral.store import loads as load_store
from corral.store import replicas as replica_store
from corral.store.database import Transaction
from corral.store.dispatch import OperationLease
from corral.store.holdings import CopyRemoval
from tests.simulation.deliberate_defects import Break
from tests.simulation.models import people, work
from tests.simulation.plan import Kind

Patch = pytest.MonkeyPatch
# Late, so that hardly anybody asks again for what ran there.
KILLS = tuple((Kind.WORKER_KILL, 31.0 + turn, 6.0, turn) for turn in range(3))


SHUFFLE = ((Kind.BUS_SHUFFLE, 2.0, 37.0, 0),)


_break = partial(Break, feed_interval_s=4.0, faults_end_s=40.0, quiet_s=60.0)


def _memory_is_not_required(patch: Patch) -> None:
    left = tuple(each for each in placement._QUESTIONS if each[0] is not PlacementFilter.RAM)
    patch.setattr(placement, "_QUESTIONS", left)


def _edits_stop_nothing(patch: Patch) -> None:
    """Break edits: an edited model goes on with the engines of its former self, and they get requests."""

    async def nothing(_tx: Transaction, _model: str, _run_hash: str | None, _reason: str = "") -> int:
        return 0

    async def no_strays(_tx: Transaction) -> int:
        return 0

    def any_place(_revision: str, _desired: str, place: RoutableNode | None, _selector: Mapping[str, str]) -> bool:
        return place is not None and place.is_open

    patch.setattr(replica_store, "mark_stale", nothing)
    patch.setattr(replica_store, "unload_strays", no_strays)
    patch.setattr(routing_snapshot, "is_candidate", any_place)


def _edits_fail_loads(patch: Patch) -> None:
    """Break edits: a load whose model was edited meanwhile is shown as a failure."""
    patch.setattr(load, "supersede", give_up)


def _stops_are_not_waited_for(patch: Patch) -> None:
    async def ended(_stopper: ReplicaStopper, _replica: Replica) -> str | None:
        return None

    patch.setattr(ReplicaStopper, "_ask", ended)


def _orphans_are_left_alone(patch: Patch) -> None:
    """Break adoption of orphans: without rules, and with few requests, no load starts what runs there already."""
    patch.setattr(people, "_rule", lambda _rng: None)
    patch.setattr(people, "ASK_PAUSE_S", 5.0)
    patch.setattr(holdings._ProcessMatcher, "add_unknown", lambda _sorting, _process: None)


def _reservations_stay(patch: Patch) -> None:
    async def kept(_tx: Transaction, _holders: Collection[str]) -> None:
        return

    patch.setattr(replica_store, "release_reservations", kept)
    patch.setattr(load_store, "release_reservations", kept)


def _jobs_are_not_waited_for(patch: Patch) -> None:
    """Break stops: a replica is ended while the job that starts it does not know. Slow lines and many edits show it."""
    patch.setattr(work, "FILE_SPEED", 0.5)
    patch.setattr(people, "PAUSE_S", 1.5)
    statement = str(replica_store._CLAIM_STOPS)
    begin, end = statement.index("AND NOT EXISTS (SELECT 1 FROM operation_targets"), statement.index("ORDER BY r.stop")
    patch.setattr(replica_store, "_CLAIM_STOPS", text(statement[:begin] + statement[end:]))


def _commands_are_not_recorded(patch: Patch) -> None:
    """Break dispatch: what is cancelled while its command is on its way seems not to have begun. Many changes show
    it."""

    async def unrecorded(_tx: Transaction, _lease: OperationLease, _job_ids: Collection[JobId]) -> None:
        return

    patch.setattr(people, "PAUSE_S", 1.5)
    patch.setattr(dispatch_store, "mark_sent", unrecorded)


def _requests_are_counted_for_ever(patch: Patch) -> None:
    patch.setattr(RoutableReplica, "remove_request", lambda _seat: None)


def _removals_are_believed(patch: Patch) -> None:
    async def believed(remover: ModelCopyRemover, removal: CopyRemoval) -> None:
        await remover._write(removal, "")

    patch.setattr(ModelCopyRemover, "_carry_out", believed)


def _no_floor(patch: Patch) -> None:
    def enough(*_: Any) -> scaling.ScalingDecision:
        return scaling.ScalingDecision()

    patch.setattr(scaling, "_to_floor", enough)
    patch.setattr(scaling, "_spread", enough)


BREAKS = (
    _break(name="memory is not required", apply=_memory_is_not_required, sentences=("are promised",)),
    _break(
        name="edits stop nothing",
        apply=_edits_stop_nothing,
        sentences=("which it was until", "that its model is not"),
        first_seed=1,
    ),
    _break(name="edits fail loads", apply=_edits_fail_loads, sentences=("was changed by an admin",), first_seed=0),
    _break(name="stops are not waited for", apply=_stops_are_not_waited_for, sentences=("and its process",)),
    _break(
        name="orphans are left alone",
        apply=_orphans_are_left_alone,
        sentences=("and no row knows it",),
        faults=KILLS,
    ),
    _break(name="reservations stay", apply=_reservations_stay, sentences=("which is no load",)),
    _break(
        name="jobs are not waited for",
        apply=_jobs_are_not_waited_for,
        sentences=("and its process",),
        faults=SHUFFLE,
        first_seed=2,
    ),
    _break(
        name="commands are not recorded",
        apply=_commands_are_not_recorded,
        sentences=("and its process",),
        faults=SHUFFLE,
        first_seed=15,
    ),
    _break(name="requests are counted for ever", apply=_requests_are_counted_for_ever, sentences=("still counts",)),
    _break(
        name="removals are believed",
        apply=_removals_are_believed,
        sentences=("which was deleted",),
        first_seed=1,
    ),
    _break(name="no floor", apply=_no_floor, sentences=("its rule asks for more",)),
)
