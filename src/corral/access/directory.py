"""The directory: who holds which credential, in memory, so that checking one costs no query.

It is filled from the registry at start and follows the outbox: an event names what changed, and that thing is read
anew. So an event may come early or twice, and a revocation need not wait for events that a long transaction holds up.
A credential that is not in memory is looked for in the registry once, because the event may still be on its
way; a wrong one is remembered for a moment, so that guessing cannot be turned into load on PostgreSQL.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from corral.access import kept
from corral.access.entries import Holder, NodeEntry
from corral.access.secrets import hash_secret, is_secret
from corral.domain.access import Principal
from corral.domain.cluster import Event
from corral.domain.errors import BootSuperseded, NotAuthenticated, NotFound, StoreUnavailable
from corral.domain.node import Liveness, Node, NodeId
from corral.ports.runtime import Clock
from corral.store import access as access_store
from corral.store import access_users as user_store
from corral.store import nodes as node_store
from corral.store.database import Database

REFUSALS_MAX = 10_000
REFUSAL_LIFE_S = 2.0
# How often it is written which keys were used since the last time.
USES_INTERVAL_S = 10.0
# Secrets that were shown lately and are right.
SHOWN_MAX = 4096
# How the kinds of events begin that this follows.
FOLLOWED = ("node.", "key.", "user.", "session.")
# Events of nodes about what no entry holds; a thousand of them come at once when an operation ends.
_ELSEWHERE = frozenset({"node.backends_changed", "node.bus_changed"})


class Directory:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._nodes: dict[str, NodeEntry] = {}
        self._keys: dict[str, Holder] = {}
        # By the secret itself: hashing it takes longer than everything else that is asked of a key. Goes with `_keys`.
        self._shown: dict[str | bytes, Holder] = {}
        # The same holders by the ids of their keys, for the sessions that were opened with these. Goes with `_keys`.
        self._holders: dict[str, Holder] = {}
        self._sessions: dict[str, Holder] = {}
        # Ids of keys that were used and whose use is not written yet; at most as many as there are keys.
        self._used: set[str] = set()
        self._refused: OrderedDict[str, float] = OrderedDict()
        # Ids of nodes that are known to be removed.
        self._removed: OrderedDict[str, None] = OrderedDict()
        # Readings do not overtake each other: an older one must not bring a revoked key or a removed node back.
        self._key_reading = asyncio.Lock()
        self._node_reading = asyncio.Lock()
        self._session_reading = asyncio.Lock()

    async def load(self) -> None:
        """Read everything anew."""
        async with self._node_reading:
            async with self._database.transaction() as tx:
                nodes = await node_store.list_nodes(tx)
            self._nodes = {node.id: _entry(node) for node in nodes}
        await self.load_keys()
        await self.load_sessions()

    async def follow(self, events: Sequence[Event]) -> None:
        """Events name what changed; its content is read from the registry, once however many there are."""
        changed = {event.key for event in events if event.kind.startswith("node.") and event.kind not in _ELSEWHERE}
        if changed:
            await self._reload_nodes(changed)
        kinds = {event.kind for event in events}
        has_changed_users = any(kind.startswith("user.") for kind in kinds)
        # With a node that was removed went its key, if it was an agent's; with a user went theirs.
        if has_changed_users or "node.removed" in kinds or any(kind.startswith("key.") for kind in kinds):
            await self.load_keys()
            self._refused.clear()
        logged = {event.key for event in events if event.kind.startswith("session.") or event.kind == "key.rotated"}
        if has_changed_users or logged:
            await self.load_sessions(None if has_changed_users else logged)

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

    def list_nodes(self) -> list[NodeEntry]:
        """Every node, from memory alone."""
        return sorted(self._nodes.values(), key=lambda node: node.name)

    def known(self, secret: str | bytes) -> Principal | None:
        """The holder of an API key, from memory alone. None: not known here; `principal` looks further."""
        holder = self._shown.get(secret)
        if holder is None:
            holder = self._keys.get(hash_secret(secret))
            if holder is None:
                return None
            if len(self._shown) >= SHOWN_MAX:
                self._shown.clear()
            self._shown[secret] = holder
        if holder.expires_monotonic is None:
            return holder.principal
        return holder.principal if holder.is_valid(self._clock.monotonic()) else None

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
            hint="On the machine of `corral up` it is in CORRAL_HOME/admin.key; `corral keys recover` makes another.",
        )

    async def session(self, secret: str) -> Principal:
        """Return who shows this cookie: the user of the session, or the holder of the key that opened it."""
        hashed = hash_secret(secret)
        holder = self._sessions.get(hashed)
        if holder is not None and not holder.is_valid(self._clock.monotonic()):
            raise _session_ended()
        found = None if holder is None else self._present(holder.principal)
        if found is not None:
            return found
        if not self._was_refused(hashed):
            async with self._database.transaction() as tx:
                row = await user_store.find_session(tx, hashed)
            if row is not None:
                return row.principal
            self._refuse(hashed)
        raise _session_ended()

    def _present(self, owner: Principal) -> Principal | None:
        """Return what the owner of a session may now; None: their key is not among those that work."""
        if owner.is_session:
            return owner
        holder = self._holders.get(owner.key_id)
        return holder.principal if holder is not None and holder.is_valid(self._clock.monotonic()) else None

    async def _second_look(self, node_id: str, secret: str | None) -> NodeEntry:
        hashed = hash_secret(f"{node_id}:{secret or ''}")
        entry = self._nodes.get(node_id) if self._was_refused(hashed) else await self._reload_node(node_id)
        if entry is not None and secret and is_secret(secret, entry.credential_hash):
            return entry
        self._refuse(hashed)
        if entry is None:
            # Only a removal that the registry remembers is told as one: after an outage or with an older database a
            # worker must not take "not known" for it.
            raise NotFound(
                "This node is not registered here.",
                hint="Register again with a join token.",
                code="node_not_found",
                details={"is_removed": True} if await self._was_removed(node_id) else {},
            )
        raise NotAuthenticated(f"That is not the credential of node {entry.name}.", code="node_credential_wrong")

    async def _was_removed(self, node_id: str) -> bool:
        """Whether an admin has removed the node; from memory after the first look."""
        if node_id not in self._removed:
            async with self._database.transaction() as tx:
                if not await node_store.was_removed(tx, node_id):
                    return False
            self._removed[node_id] = None
            while len(self._removed) > REFUSALS_MAX:
                self._removed.popitem(last=False)
        return True

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
            self._set_keys(
                {
                    hashed: Holder(principal, None if left_s is None else now + left_s)
                    for hashed, principal, left_s in rows
                }
            )

    def _set_keys(self, keys: dict[str, Holder]) -> None:
        self._keys, self._shown = keys, {}
        self._holders = {}
        for holder in keys.values():
            # A key that was just rotated has two secrets; the first one is the present one and lasts longer.
            self._holders.setdefault(holder.principal.key_id, holder)

    async def load_sessions(self, owners: Collection[str] | None = None) -> None:
        """Read the sessions of these users and keys anew; without any, everybody's."""
        async with self._session_reading:
            async with self._database.transaction() as tx:
                rows = await user_store.list_sessions(tx, only=owners)
            now = self._clock.monotonic()
            others = {
                hashed: holder
                for hashed, holder in self._sessions.items()
                if owners is not None and _owner_id(holder.principal) not in owners
            }
            self._sessions = others | {row.hash: Holder(row.principal, now + row.left_s) for row in rows}

    def note_use(self, principal: Principal) -> None:
        """Remember that a key was used, or a session that it opened. Written later, for all keys together."""
        if not principal.is_session:
            self._used.add(principal.key_id)

    async def write_uses(self) -> int:
        """Write when the keys were last used; return of how many. What cannot be written is kept for the next time."""
        used, self._used = self._used, set()
        if not used:
            return 0
        try:
            async with self._database.transaction() as tx:
                await access_store.record_uses(tx, used)
        except StoreUnavailable:
            self._used |= used
            raise
        return len(used)

    def hold_session(self, secret: str, principal: Principal, life_s: float, most: int) -> None:
        """Take a session of a key here alone, while the registry is away; the next reading of sessions ends it."""
        of_key = [hashed for hashed, holder in self._sessions.items() if holder.principal.key_id == principal.key_id]
        for oldest in of_key[: max(0, len(of_key) + 1 - most)]:
            del self._sessions[oldest]
        self._sessions[hash_secret(secret)] = Holder(principal, self._clock.monotonic() + life_s)

    def to_kept(self) -> dict[str, Any]:
        """Everything in memory as plain data; see `kept.py`."""
        now = self._moment()
        return {
            "keys": kept.holders_to_kept(self._keys, now),
            "sessions": kept.holders_to_kept(self._sessions, now),
            "nodes": kept.nodes_to_kept(self._nodes.values()),
        }

    def from_kept(self, data: Mapping[str, Any]) -> None:
        """Begin with what an earlier frontend knew, until the registry can be read."""
        now = self._moment()
        self._set_keys(kept.holders_from_kept(data["keys"], now))
        self._sessions = kept.holders_from_kept(data["sessions"], now)
        self._nodes = kept.nodes_from_kept(data["nodes"])

    def _moment(self) -> kept.Moment:
        return kept.Moment(monotonic=self._clock.monotonic(), wall=self._clock.wall())

    def _was_refused(self, hashed: str) -> bool:
        until = self._refused.get(hashed)
        return until is not None and until > self._clock.monotonic()

    def _refuse(self, hashed: str) -> None:
        self._refused[hashed] = self._clock.monotonic() + REFUSAL_LIFE_S
        self._refused.move_to_end(hashed)
        while len(self._refused) > REFUSALS_MAX:
            self._refused.popitem(last=False)


def _owner_id(principal: Principal) -> str | None:
    """Return the id of the user or key that a session of this principal belongs to."""
    return principal.user_id if principal.is_session else principal.key_id


def _session_ended() -> NotAuthenticated:
    return NotAuthenticated(
        "This session has ended: somebody logged out, its day is over, or its key does not work any more.",
        hint="Log in again.",
        code="session_ended",
    )


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
