"""As many replicas as the rules and the load call for: the leader looks at every model, and asks or marks.

It decides nothing itself (`policy/placing/scaling.py` does) and loads nothing itself: what is missing becomes a load,
as if a request had asked for it; what is too much is marked for the one way in which replicas end. Guarantees: a pass
costs the same few statements however many models there are; no lock is held while anything is loaded; what is written
belongs to the present leader's term. A pass that is lost costs nothing: the next one sees the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog

from corral.domain.cluster import Event
from corral.domain.errors import CorralError
from corral.domain.node import Node, NodeType
from corral.domain.operation import OperationId, OperationState
from corral.domain.replica import Rule
from corral.policy.placing.fleet import Fleet, ModelView
from corral.policy.placing.scaling import Decision, Load, Scaler, Setback, Signal, after_setback, decide
from corral.policy.status import is_schedulable
from corral.reconcile.leader import Leader
from corral.store import loads as load_store
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.store import scaling as store
from corral.store.database import Database, Transaction

log = structlog.get_logger(__name__)

INTERVAL_S = 10.0
# A worker that has just come tells within seconds what still runs there. One that never does is an old one.
TELLS_WITHIN = timedelta(seconds=30)
# A load that failed for these was impossible, not unlucky: trying it again at every pass helps nobody.
IMPOSSIBLE = frozenset({"no_room", "no_eligible_nodes", "eviction_busy", "no_free_slot"})
# What happens to these may let a rule be met, or ask for another number.
_CALLS = ("rule.changed", "model.changed", "replica.removed", "node.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """So many replicas more. `on`: one on each of these nodes; None: wherever it is best. `enough`: none, once there
    are so many."""

    model: str
    count: int
    on: tuple[str, ...] | None
    reason: str
    enough: int | None = None


Ask = Callable[[Wish], Awaitable[OperationId]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What came of one look at everything."""

    models: int = 0
    asked: Mapping[str, int] = field(default_factory=dict)
    unloaded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    now: datetime
    rules: Mapping[str, Rule]
    decisions: Mapping[str, Decision]
    # A worker has come back and has not said yet what it runs: what seems to be missing may be there.
    is_unsure: bool = False


def _is_to_tell(node: Node, now: datetime) -> bool:
    is_new = node.bus_since is None or now - node.bus_since < TELLS_WITHIN
    return node.type is NodeType.BACKEND and is_schedulable(node) and node.holdings_at is None and is_new


class Scaling:
    def __init__(self, database: Database, leader: Leader, ask: Ask, *, idle_s: float | None = None) -> None:
        """`idle_s`: after so long without a request a model is unloaded, unless it says otherwise. None: never."""
        self._database = database
        self._leader = leader
        self._ask = ask
        self.idle_s = idle_s
        # What this leader has asked for to meet a rule, until it has ended. A new leader begins without: that costs a
        # count of setbacks and nothing else.
        self._for_rules: dict[str, OperationId] = {}
        # Why rules that are held back are, as it was told. A new leader begins without, and does not tell it again.
        self._reasons: dict[str, str] = {}

    def is_called_by(self, events: Sequence[Event]) -> bool:
        return any(event.kind.startswith(_CALLS) for event in events)

    async def tick(self) -> Pass:
        async with self._database.transaction() as tx:
            await self._leader.fence(tx)
            seen = await self._look(tx)
            unloaded = await self._unload(tx, seen.decisions)
            await self._set_back(tx, seen)
        asked = {}
        for model, decision in seen.decisions.items():
            if decision.add and not seen.is_unsure and await self._add(model, decision):
                asked[model] = decision.add
        return Pass(models=len(seen.decisions), asked=asked, unloaded=unloaded)

    async def _look(self, tx: Transaction) -> _Seen:
        now = await load_store.database_now(tx)
        rules = await rule_store.list_rules(tx)
        models = await store.list_scaled(tx)
        if not models:
            return _Seen(now=now, rules={}, decisions={})
        waiting = await store.list_waiting(tx)
        nodes = await node_store.list_nodes(tx)
        fleet = Fleet.of(
            nodes,
            await replica_store.list_replicas(tx),
            models=[
                ModelView(
                    name=model.name,
                    run_hash=model.run_hash,
                    groups=frozenset(model.groups),
                    is_pinned=model.is_pinned,
                )
                for model in models
            ],
            rules=rules,
        )
        scaler = Scaler(fleet, now)
        decisions = {}
        for model in models:
            if not model.is_enabled:
                continue
            idle_s = self.idle_s if model.idle_s is None else model.idle_s
            load = Load(waiting=waiting.get(model.name, 0), parallel=model.parallel, idle_s=idle_s)
            decisions[model.name] = decide(scaler.situation(model.name, load))
        return _Seen(
            now=now,
            rules={rule.model: rule for rule in rules},
            decisions=decisions,
            is_unsure=any(_is_to_tell(node, now) for node in nodes),
        )

    async def _unload(self, tx: Transaction, decisions: Mapping[str, Decision]) -> int:
        """By reason: a fleet that falls idle at night is a few statements, not one for each model."""
        by_reason: defaultdict[str, list[str]] = defaultdict(list)
        for decision in decisions.values():
            by_reason[decision.reason] += decision.remove
        unloaded = 0
        for reason, replica_ids in by_reason.items():
            ended = await replica_store.mark_unloading(tx, replica_ids, reason, only_idle=True)
            if ended:
                log.info("replicas are unloaded", count=len(ended), reason=reason)
            unloaded += len(ended)
        return unloaded

    async def _set_back(self, tx: Transaction, seen: _Seen) -> None:
        """What rules are told of their own luck: by this look, and by the loads that were asked for before."""
        setbacks = {model: said.setback for model, said in seen.decisions.items() if said.setback is not None}
        reasons = {model: seen.decisions[model].reason for model in setbacks}
        ended = await store.list_ended(tx, self._for_rules.values())
        for model, operation_id in list(self._for_rules.items()):
            end = ended.get(operation_id)
            if end is None:
                continue
            del self._for_rules[model]
            rule = seen.rules.get(model)
            if rule is None:
                continue
            if end.state is OperationState.COMPLETED:
                setbacks[model] = Setback()
            elif end.error_code in IMPOSSIBLE:
                setbacks[model] = after_setback(rule, seen.now)
                reasons[model] = end.error_text or "A load has found no place."
        for model, setback in setbacks.items():
            if setback.until is not None:
                log.warning("a rule cannot be met now", model=model, until=setback.until.isoformat())
        await store.write_setbacks(tx, {model: (item.ticks, item.until) for model, item in setbacks.items()})
        await self._tell(tx, seen, setbacks, reasons)

    async def _tell(
        self, tx: Transaction, seen: _Seen, setbacks: Mapping[str, Setback], reasons: Mapping[str, str]
    ) -> None:
        """Only what is news: held back, for another reason or until another time, or no longer."""
        news: list[tuple[str, dict[str, Any]]] = []
        for model, setback in setbacks.items():
            rule = seen.rules.get(model)
            if rule is None:
                continue
            was = (rule.unsatisfiable_ticks > 0, rule.unsatisfiable_until)
            reason = reasons.get(model, "") if setback.ticks else ""
            is_same_reason = self._reasons.get(model, reason) == reason
            if reason:
                self._reasons[model] = reason
            else:
                self._reasons.pop(model, None)
            if was != (setback.ticks > 0, setback.until) or not is_same_reason:
                news.append((model, rule_store.setback_data(model, reason, setback.until)))
        await outbox.append_many(tx, "rule.setback", news)

    async def _add(self, model: str, decision: Decision) -> bool:
        is_for_rule = decision.signal in (Signal.FLOOR, Signal.SPREAD)
        if is_for_rule and model in self._for_rules:
            # It is on its way, or has ended a moment ago: the next pass knows.
            return False
        wish = Wish(
            model=model,
            count=decision.add,
            on=decision.on or None,
            reason=decision.reason,
            enough=decision.enough,
        )
        try:
            operation_id = await self._ask(wish)
        except CorralError as error:
            log.warning("a model could not be asked for", model=model, problem=error.message)
            return False
        if is_for_rule:
            self._for_rules[model] = operation_id
        log.info("replicas are asked for", model=model, count=decision.add, reason=decision.reason)
        return True
