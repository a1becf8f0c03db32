"""What must hold at every moment of a run, read with plain SQL and held against the diary.

The inspector looks every few seconds, inside the turnstile like everybody else, and keeps its own copy of all events:
the registry prunes its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import text

from corral.domain.cluster import OutboxPosition
from corral.store.database import Transaction
from tests.simulation.admin import Admin, NodeSettings
from tests.simulation.clock import START
from tests.simulation.frontends import LEADER_LEASE_S, LIVENESS_INTERVAL_S, NODE_LEASE_S
from tests.simulation.workers import SimWorker
from tests.simulation.worlds import SimulationDeps

LOOK_EVERY_S = 10.0
# Between the newest heartbeat that should have counted and the loss: many times the pause between two writes.
WRITE_CHANCE_S = 15.0
# A new leader watches for a whole lease before it declares anybody lost.
FOUND_LOST_S = NODE_LEASE_S + LEADER_LEASE_S + NODE_LEASE_S + LIVENESS_INTERVAL_S * 1.1 + 20.0

EVENTS = text("""
    SELECT "transaction"::text AS transaction, number, kind, key, data, at FROM outbox
     WHERE number > :after ORDER BY outbox."transaction", number
""")
NODES = text("""
    SELECT n.*, coalesce((SELECT jsonb_object_agg(l.key, l.value) FROM node_labels l
                           WHERE l.node_id = n.id AND l.source = 'admin'), '{}') AS admin_labels
      FROM nodes n ORDER BY n.name
""")
TOKENS = text("SELECT id, uses, max_uses, revoked_at FROM join_tokens ORDER BY created_at, id")
LEADER = text("SELECT holder, term, expires_at FROM leases WHERE name = 'leader'")
WITNESS = text("SELECT * FROM witness WHERE number > :after ORDER BY number")
HORIZON = text('SELECT "transaction"::text AS transaction, number FROM outbox_horizon')


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Holds one event, as the table has it."""

    position: OutboxPosition
    kind: str
    key: str
    data: dict[str, Any]
    at_s: float


@dataclass(slots=True)
class Look:
    """Holds one consistent reading of the registry."""

    nodes: Sequence[Any] = ()
    tokens: Sequence[Any] = ()
    leader: Any = None
    horizon: OutboxPosition = field(default_factory=lambda: OutboxPosition(0, 0))


class Inspector:
    def __init__(self, around: SimulationDeps, admin: Admin, workers: dict[str, SimWorker]) -> None:
        self._around = around
        self._admin = admin
        self._workers = workers
        self._database = around.database(around.gate("inspector"))
        self._last_number = 0
        self._last_witness = 0
        self._holders: dict[int, str] = {}
        self._registered: dict[str, str] = {}
        self._approved_by_token: set[str] = set()
        self._uses_when_revoked: dict[str, int] = {}
        self._joins = 0
        self.events: list[Row] = []

    async def run(self) -> None:
        while True:
            await self._around.clock.sleep(LOOK_EVERY_S)
            await self.look()

    async def close(self) -> None:
        async with self._around.turnstile.turn():
            await self._database.close()

    async def look(self) -> Look:
        """Read everything, then compare it with the diary without giving another task a turn."""
        look = Look()
        async with self._database.transaction() as tx:
            events = await self._new_events(tx)
            witnesses = (await tx.execute(WITNESS, {"after": self._last_witness})).all()
            look.nodes = (await tx.execute(NODES)).all()
            look.tokens = (await tx.execute(TOKENS)).all()
            look.leader = (await tx.execute(LEADER)).one_or_none()
            horizon = (await tx.execute(HORIZON)).one()
            look.horizon = OutboxPosition(int(horizon.transaction), horizon.number)
        for row in events:
            self._take(row)
        for witness in witnesses:
            self._last_witness = witness.number
            self._check_fence(witness)
        self._check_leader(look.leader)
        for node in look.nodes:
            self._check_node(node)
        self._check_tokens(look.tokens)
        self._check_silence(look.nodes)
        return look

    async def _new_events(self, tx: Transaction) -> list[Row]:
        # One transaction at a time: numbers are given in the order of the commits here.
        rows = (await tx.execute(EVENTS, {"after": self._last_number})).all()
        return [
            Row(
                position=OutboxPosition(int(row.transaction), row.number),
                kind=row.kind,
                key=row.key,
                data=row.data,
                at_s=(row.at - START).total_seconds(),
            )
            for row in rows
        ]

    def _take(self, row: Row) -> None:
        self._last_number = row.position.number
        self.events.append(row)
        self._around.trace.add(f"event {row.kind} {row.key} {row.data}")
        match row.kind:
            case "leader.changed":
                self._check_term(row)
            case "node.registered":
                self._check_join(row)
            case "node.removed":
                self._registered.pop(row.data["name"], None)
            case "node.lost":
                self._check_loss(row)

    # --- leaders ---

    def _check_term(self, row: Row) -> None:
        term = row.data["term"]
        if self._holders and term <= max(self._holders):
            self._violated(f"term {term} of {row.key} came after term {max(self._holders)}")
        self._holders[term] = row.key

    def _check_leader(self, leader: Any) -> None:
        if leader is None:
            return
        if leader.holder and self._holders.get(leader.term) != leader.holder:
            self._violated(f"the lease says {leader.holder} holds term {leader.term}, its event says otherwise")
        if self._holders and leader.term < max(self._holders):
            self._violated(f"the term went back to {leader.term}")

    def _check_fence(self, witness: Any) -> None:
        """Check that what only a leader may do was done by the holder of a lease that had not run out."""
        if witness.what not in ("node.lost", "pruned", "leader.changed"):
            return
        if witness.participant != witness.holder or witness.expires_at <= witness.at:
            self._violated(
                f"{witness.participant} wrote {witness.what}, while term {witness.term} was {witness.holder}'s"
                f" until {witness.expires_at:%H:%M:%S} and it was {witness.at:%H:%M:%S}"
            )

    # --- nodes ---

    def _check_join(self, row: Row) -> None:
        name = row.data["name"]
        self._joins += 1
        if name in self._registered:
            self._violated(f"{name} became a second node, {row.key} beside {self._registered[name]}")
        self._registered[name] = row.key
        if row.data["approved"]:
            self._approved_by_token.add(row.key)

    def _check_node(self, node: Any) -> None:
        if self._registered.get(node.name) != str(node.id):
            self._violated(f"{node.name} is {node.id}, and no event has made it so")
        will = self._admin.wills.get(str(node.id), NodeSettings(name=node.name))
        may_be_approved = will.may_be_approved or str(node.id) in self._approved_by_token
        if node.approved_at is not None and not may_be_approved:
            self._violated(f"{node.name} is approved by {node.approved_by}, and no admin has done that")
        if will.is_removed and "is_removed" not in will.unsure:
            self._violated(f"{node.name} was removed and is there again as {node.id}")
        found = {
            "drained": node.drained_at is not None,
            "labels": node.admin_labels,
            "slots": node.slots_override,
            "budget": node.budget_override,
        }
        for what, value in found.items():
            if what not in will.unsure and value != getattr(will, what):
                self._violated(f"{what} of {node.name} is {value!r}; the admin last set {getattr(will, what)!r}")

    def _check_loss(self, row: Row) -> None:
        """Check that no node was lost whose heartbeat a frontend had answered and could have written down since."""
        lost_s = row.at_s
        for beat in reversed(self._around.diary.beats):
            if beat.at_s < lost_s - NODE_LEASE_S + 5:
                return
            if beat.node_id != row.key or beat.at_s > lost_s - WRITE_CHANCE_S:
                continue
            if self._around.diary.lives[beat.frontend].was_well(beat.at_s, lost_s):
                self._violated(
                    f"{row.data['name']} was declared lost at {lost_s:.1f} s, and {beat.frontend}"
                    f" had answered its heartbeat at {beat.at_s:.1f} s"
                )
                return

    def _check_silence(self, nodes: Sequence[Any]) -> None:
        now_s = self._around.now()
        for node in nodes:
            silent_s = self._around.diary.silent_since_s.get(node.name)
            if node.liveness != "alive" or silent_s is None:
                continue
            watched_s = min(now_s - silent_s, self._around.diary.calm_for_s(now_s))
            if watched_s > FOUND_LOST_S:
                self._violated(f"{node.name} has been silent since {silent_s:.1f} s and is still called alive")

    # --- tokens ---

    def _check_tokens(self, tokens: Sequence[Any]) -> None:
        uses = sum(token.uses for token in tokens)
        if uses != self._joins:
            self._violated(f"{self._joins} nodes have joined with {uses} uses of tokens")
        for token in tokens:
            if token.max_uses is not None and token.uses > token.max_uses:
                self._violated(f"a token for {token.max_uses} was used {token.uses} times")
            will = self._admin.tokens.get(str(token.id))
            if will is not None and will.is_revoked:
                before = self._uses_when_revoked.setdefault(str(token.id), token.uses)
                if token.uses != before:
                    self._violated("a revoked token was used")

    def _violated(self, sentence: str) -> None:
        self._around.violated(sentence)
