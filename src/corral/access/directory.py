"""The directory: who holds which credential, in memory, so that checking one costs no query.

It is filled from the registry at start and follows the outbox: an event names what changed, and that thing is read
anew. A credential that is not in memory is looked for in the registry once, because the event may still be on its
way; a wrong one is remembered for a moment, so that guessing cannot be turned into load on PostgreSQL.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from corral.access.secrets import hash_secret, is_secret
from corral.domain.access import Principal
from corral.domain.cluster import Event
from corral.domain.errors import BootSuperseded, NotAllowed, NotAuthenticated, NotFound
from corral.domain.node import Liveness, Node, NodeId, NodeType
from corral.ports.runtime import Clock
from corral.store import access as access_store
from corral.store import nodes as node_store
from corral.store.database import Database

REFUSALS_MAX = 10_000
REFUSAL_LIFE_S = 2.0
# Events of nodes about what no entry holds; a thousand of them come at once when an operation ends.
_ELSEWHERE = frozenset({"node.backends_changed", "node.bus_changed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntry:
    """What a call by a node is checked against."""

    id: NodeId
    name: str
    type: NodeType
    credential_hash: str
    boot_id: str
    is_approved: bool
    is_draining: bool
    has_left: bool


@dataclass(frozen=True, slots=True)
class _KeyEntry:
    principal: Principal
    expires_monotonic: float | None

    def is_valid(self, now: float) -> bool:
        return self.expires_monotonic is None or self.expires_monotonic > now


class Directory:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._nodes: dict[str, NodeEntry] = {}
        self._keys: dict[str, _KeyEntry] = {}
        self._refused: OrderedDict[str, float] = OrderedDict()
        # Readings do not overtake each other: an older one must not bring a revoked key or a removed node back.
        self._key_reading = asyncio.Lock()
        self._node_reading = asyncio.Lock()

    async def load(self) -> None:
        """Read everything anew."""
        async with self._node_reading:
            async with self._database.transaction() as tx:
                nodes = await node_store.list_nodes(tx)
            self._nodes = {node.id: _entry(node) for node in nodes}
        await self.load_keys()

    async def follow(self, events: Sequence[Event]) -> None:
        """Events name what changed; its content is read from the registry, once however many there are."""
        changed = {event.key for event in events if event.kind.startswith("node.") and event.kind not in _ELSEWHERE}
        if changed:
            await self._reload_nodes(changed)
        # With a node that was removed went its key, if it was an agent's.
        if any(event.kind.startswith("key.") or event.kind == "node.removed" for event in events):
            await self.load_keys()
            self._refused.clear()

    async def node(self, node_id: str, secret: str | None, *, boot_id: str | None = None) -> NodeEntry:
        """The node that is calling: known, with its own credential, and in its present life."""
        entry = self._nodes.get(node_id)
        if entry is None or not secret or not is_secret(secret, entry.credential_hash):
            entry = await self._second_look(node_id, secret)
        if boot_id is not None and boot_id != entry.boot_id:
            entry = await self._reload_node(node_id) or entry
            if boot_id != entry.boot_id:
                raise BootSuperseded(
                    f"A newer worker process of node {entry.name} has registered; this one is no longer heard.",
                    hint="Two workers with the same identity? Give one of them another --name and a home of its own.",
                )
        return entry

    def known(self, secret: str | bytes) -> Principal | None:
        """The holder of an API key, from memory alone. None: not known here; `principal` looks further."""
        entry = self._keys.get(hash_secret(secret))
        return entry.principal if entry is not None and entry.is_valid(self._clock.monotonic()) else None

    async def principal(self, secret: str | None) -> Principal:
        """The holder of an API key."""
        if not secret:
            raise NotAuthenticated(
                "An API key is needed.",
                hint="Send it as 'Authorization: Bearer ck_…'. `corral login` keeps one for the command line.",
            )
        known = self.known(secret)
        if known is not None:
            return known
        hashed = hash_secret(secret)
        if not self._was_refused(hashed):
            async with self._database.transaction() as tx:
                principal = await access_store.find_principal(tx, hashed)
            if principal is not None:
                return principal
            self._refuse(hashed)
        raise NotAuthenticated(
            "This API key is not known, has expired or was revoked.",
            hint="On the machine of `corral up` the key is in CORRAL_HOME/admin.key.",
        )

    async def admin(self, secret: str | None) -> Principal:
        principal = await self.principal(secret)
        if not principal.is_admin:
            raise NotAllowed("This key belongs to an agent node and may not administer the cluster.")
        return principal

    async def _second_look(self, node_id: str, secret: str | None) -> NodeEntry:
        hashed = hash_secret(f"{node_id}:{secret or ''}")
        entry = self._nodes.get(node_id) if self._was_refused(hashed) else await self._reload_node(node_id)
        if entry is not None and secret and is_secret(secret, entry.credential_hash):
            return entry
        self._refuse(hashed)
        if entry is None:
            raise NotFound(
                "This node is not registered here.", hint="Register again with a join token.", code="node_not_found"
            )
        raise NotAuthenticated(f"That is not the credential of node {entry.name}.", code="node_credential_wrong")

    async def _reload_node(self, node_id: str) -> NodeEntry | None:
        await self._reload_nodes({node_id})
        return self._nodes.get(node_id)

    async def _reload_nodes(self, node_ids: Collection[str]) -> None:
        async with self._node_reading:
            async with self._database.transaction() as tx:
                found = {node.id: _entry(node) for node in await node_store.list_nodes(tx, only=node_ids)}
            for node_id in node_ids:
                if NodeId(node_id) in found:
                    self._nodes[node_id] = found[NodeId(node_id)]
                else:
                    self._nodes.pop(node_id, None)

    async def load_keys(self) -> None:
        """Read the keys anew, so that one that was just revoked is refused from now on."""
        async with self._key_reading:
            async with self._database.transaction() as tx:
                rows = await access_store.list_active_key_hashes(tx)
            now = self._clock.monotonic()
            self._keys = {
                hashed: _KeyEntry(principal, None if left_s is None else now + left_s)
                for hashed, principal, left_s in rows
            }

    def _was_refused(self, hashed: str) -> bool:
        until = self._refused.get(hashed)
        return until is not None and until > self._clock.monotonic()

    def _refuse(self, hashed: str) -> None:
        self._refused[hashed] = self._clock.monotonic() + REFUSAL_LIFE_S
        self._refused.move_to_end(hashed)
        while len(self._refused) > REFUSALS_MAX:
            self._refused.popitem(last=False)


def _entry(node: Node) -> NodeEntry:
    return NodeEntry(
        id=node.id,
        name=node.name,
        type=node.type,
        credential_hash=node.credential_hash,
        boot_id=node.boot_id,
        is_approved=node.approved_at is not None,
        is_draining=node.drained_at is not None,
        has_left=node.liveness is Liveness.LEFT,
    )
