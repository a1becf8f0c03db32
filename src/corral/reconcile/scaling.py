"""Brings the number of replicas to what the rules and the load call for: the leader looks at every model, and
requests or unloads.

It decides nothing itself (`policy/placing/scaling.py` does) and loads nothing itself: a missing replica becomes a
load, as if a request had needed it; a surplus one is marked for the replica stopper. Guarantees: a pass costs the
same few statements however many models there are; no lock is held while anything is loaded; every write belongs to
the current leader's term. A lost pass costs nothing: the next one sees the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog

from corral.domain.cluster import OutboxEvent
from corral.domain.errors import CorralError
from corral.domain.node import Node, NodeType
from corral.domain.operation import OperationId, OperationState
from corral.domain.replica import Rule
from corral.policy.placing.fleet import ModelTraits, PlacementFleet
from corral.policy.placing.scaling import (
    ModelDemand,
    ScalingBackoff,
    ScalingDecision,
    ScalingInputBuilder,
    ScalingSignal,
    compute_backoff,
    decide,
)
from corral.policy.status import is_schedulable
from corral.reconcile.leader import LeaderElector
from corral.store import loads as load_store
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.store.database import Database, Transaction

log = structlog.get_logger(__name__)

INTERVAL_S = 10.0
# A worker that has just come back reports within seconds what still runs there. One that never does is an old version.
REPORTS_WITHIN = timedelta(seconds=30)
# A load that failed for these reasons was impossible, not unlucky: trying it again at every pass does not help.
IMPOSSIBLE = frozenset({"no_room", "no_eligible_nodes", "eviction_busy", "no_free_slot"})
# Events of these kinds may let a rule be met, or change the required number.
_CALLS = ("rule.changed", "model.changed", "replica.removed", "node.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRequest:
    """A request of the autoscaler for more replicas of a model, anywhere or on named nodes.

    `enough`: none, once there are so many.
    """

    model: str
    count: int
    node_ids: tuple[str, ...] | None
    reason: str
    enough: int | None = None


RequestReplicas = Callable[[ScaleRequest], Awaitable[OperationId]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPassResult:
    """Counts what one pass of the autoscaler did: models it looked at, loads requested, replicas unloaded."""

    models: int = 0
    requested: Mapping[str, int] = field(default_factory=dict)
    unloaded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScalingSnapshot:
    """Holds the rules and the decision for each model that one scaling pass came to."""

    now: datetime
    rules: Mapping[str, Rule]
    decisions: Mapping[str, ScalingDecision]
    # A worker is back and has not reported yet what it runs: a replica that seems to be missing may exist.
    is_unsure: bool = False


def _is_report_due(node: Node, now: datetime) -> bool:
    is_new = node.bus_since is None or now - node.bus_since < REPORTS_WITHIN
    return node.type is NodeType.BACKEND and is_schedulable(node) and node.holdings_at is None and is_new


class ScalingReconciler:
    """Autoscaler: brings the number of replicas of every model to what its rule and load call for.

    Runs on the leader.
    """

    def __init__(
        self,
        database: Database,
        leader: LeaderElector,
        request_replicas: RequestReplicas,
        *,
        idle_s: float | None = None,
    ) -> None:
        """Create the reconciler. `idle_s`: a model is unloaded after so long without a request, unless its
        configuration differs. None: never."""
        self._database = database
        self._leader = leader
        self._request_replicas = request_replicas
        self.idle_s = idle_s
        # Loads that this leader has requested to meet a rule, until they have ended. A new leader starts without them:
        # that costs a count of the backoff and nothing else.
        self._for_rules: dict[str, OperationId] = {}
        # The reported reasons of rules that are held back. A new leader starts without them, and does not report them
        # again.
        self._reasons: dict[str, str] = {}

    def is_called_by(self, events: Sequence[OutboxEvent]) -> bool:
        return any(event.kind.startswith(_CALLS) for event in events)

    async def tick(self) -> ScalingPassResult:
        async with self._database.transaction() as tx:
            await self._leader.fence(tx)
            seen = await self._decide_all(tx)
            unloaded = await self._unload(tx, seen.decisions)
            await self._write_backoffs(tx, seen)
        requested = {}
        for model, decision in seen.decisions.items():
            if decision.add and not seen.is_unsure and await self._add(model, decision):
                requested[model] = decision.add
        return ScalingPassResult(models=len(seen.decisions), requested=requested, unloaded=unloaded)

    async def _decide_all(self, tx: Transaction) -> _ScalingSnapshot:
        now = await load_store.read_database_now(tx)
        rules = await rule_store.list_rules(tx)
        models = await rule_store.list_scaled_models(tx)
        if not models:
            return _ScalingSnapshot(now=now, rules={}, decisions={})
        waiting = await rule_store.list_waiting_requests(tx)
        nodes = await node_store.list_nodes(tx)
        fleet = PlacementFleet.build(
            nodes,
            await replica_store.list_replicas(tx),
            models=[
                ModelTraits(
                    name=model.name,
                    run_hash=model.run_hash,
                    groups=frozenset(model.groups),
                    is_pinned=model.is_pinned,
                )
                for model in models
            ],
            rules=rules,
        )
        scaler = ScalingInputBuilder(fleet, now)
        decisions = {}
        for model in models:
            if not model.is_enabled:
                continue
            idle_s = self.idle_s if model.idle_s is None else model.idle_s
            load = ModelDemand(waiting=waiting.get(model.name, 0), parallel=model.parallel, idle_s=idle_s)
            decisions[model.name] = decide(scaler.build_input(model.name, load))
        return _ScalingSnapshot(
            now=now,
            rules={rule.model: rule for rule in rules},
            decisions=decisions,
            is_unsure=any(_is_report_due(node, now) for node in nodes),
        )

    async def _unload(self, tx: Transaction, decisions: Mapping[str, ScalingDecision]) -> int:
        """Mark surplus replicas as unloading, grouped by reason: a fleet that falls idle at night is a few
        statements, not one for each model."""
        by_reason: defaultdict[str, list[str]] = defaultdict(list)
        for decision in decisions.values():
            by_reason[decision.reason] += decision.remove
        unloaded = 0
        for reason, replica_ids in by_reason.items():
            ended = await replica_store.mark_unloading(tx, replica_ids, reason, only_idle=True)
            if ended:
                log.info("unloading replicas", count=len(ended), reason=reason)
            unloaded += len(ended)
        return unloaded

    async def _write_backoffs(self, tx: Transaction, snapshot: _ScalingSnapshot) -> None:
        """Write the backoff of rules, from this pass and from the loads that were requested before."""
        backoffs = {
            model: decision.backoff for model, decision in snapshot.decisions.items() if decision.backoff is not None
        }
        reasons = {model: snapshot.decisions[model].reason for model in backoffs}
        ended = await rule_store.list_operation_ends(tx, self._for_rules.values())
        for model, operation_id in list(self._for_rules.items()):
            end = ended.get(operation_id)
            if end is None:
                continue
            del self._for_rules[model]
            rule = snapshot.rules.get(model)
            if rule is None:
                continue
            if end.state is OperationState.COMPLETED:
                backoffs[model] = ScalingBackoff()
            elif end.error_code in IMPOSSIBLE:
                backoffs[model] = compute_backoff(rule, snapshot.now)
                reasons[model] = end.error_text or "A load has found no room."
        for model, backoff in backoffs.items():
            if backoff.until is not None:
                log.warning("a rule cannot be met now", model=model, until=backoff.until.isoformat())
        await rule_store.write_backoffs(tx, {model: (item.ticks, item.until) for model, item in backoffs.items()})
        await self._append_backoff_events(tx, snapshot, backoffs, reasons)

    async def _append_backoff_events(
        self,
        tx: Transaction,
        snapshot: _ScalingSnapshot,
        backoffs: Mapping[str, ScalingBackoff],
        reasons: Mapping[str, str],
    ) -> None:
        """Append an event for each rule whose backoff is new, has another reason or time, or has ended."""
        news: list[tuple[str, dict[str, Any]]] = []
        for model, backoff in backoffs.items():
            rule = snapshot.rules.get(model)
            if rule is None:
                continue
            was = (rule.unsatisfiable_ticks > 0, rule.unsatisfiable_until)
            reason = reasons.get(model, "") if backoff.ticks else ""
            is_same_reason = self._reasons.get(model, reason) == reason
            if reason:
                self._reasons[model] = reason
            else:
                self._reasons.pop(model, None)
            if was != (backoff.ticks > 0, backoff.until) or not is_same_reason:
                news.append((model, rule_store.make_backoff_data(model, reason, backoff.until)))
        await outbox.append_many(tx, "rule.setback", news)

    async def _add(self, model: str, decision: ScalingDecision) -> bool:
        is_for_rule = decision.signal in (ScalingSignal.FLOOR, ScalingSignal.SPREAD)
        if is_for_rule and model in self._for_rules:
            # The load is running, or has ended a moment ago: the next pass knows.
            return False
        request = ScaleRequest(
            model=model,
            count=decision.add,
            node_ids=decision.node_ids or None,
            reason=decision.reason,
            enough=decision.enough,
        )
        try:
            operation_id = await self._request_replicas(request)
        except CorralError as error:
            log.warning("could not request a load", model=model, problem=error.message)
            return False
        if is_for_rule:
            self._for_rules[model] = operation_id
        log.info("requesting replicas", model=model, count=decision.add, reason=decision.reason)
        return True
