"""The directory: all credentials and their holders in memory, so that checking one costs no query.

It is filled from the registry at start and follows the outbox: an event names what changed, and the changed rows are
read again. So an event may arrive early or twice, and a revocation need not wait for events that a long transaction
holds up. A credential that is not in memory is looked up in the registry once, because its event may still be on its
way; an invalid one is remembered for a moment, so that guessing puts no load on PostgreSQL.

It can be saved as plain data, for a frontend that has to start without its registry. The data holds hashes and names,
never secrets. Expiry times are wall clock times in it, because the monotonic clock does not outlive a process.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any

from corral.access.secrets import hash_secret, is_matching_secret
from corral.domain.access import KeyLimit, Principal, RunTicketScope, Scope
from corral.domain.cluster import OutboxEvent
from corral.domain.errors import BootSuperseded, NotAllowed, NotAuthenticated, NotFound, StoreUnavailable
from corral.domain.node import Liveness, Node, NodeId, NodeType
from corral.ports.runtime import Clock
from corral.store import access as access_store
from corral.store import nodes as node_store
from corral.store import runs as run_store
from corral.store.database import Database

# How a ticket of the control plane begins; API keys begin otherwise.
TICKET_PREFIX = "ct1."
REFUSALS_MAX = 10_000
REFUSAL_LIFE_S = 2.0
# Interval at which the last use of keys is written.
USES_INTERVAL_S = 10.0
# Maximum number of valid secrets that are cached.
SECRET_CACHE_MAX = 4096
# Prefixes of the kinds of events that the directory follows.
FOLLOWED_PREFIXES = ("node.", "key.", "user.", "session.")
# Node events that concern no entry; a thousand of them can arrive at once when an operation ends.
_IGNORED_EVENTS = frozenset({"node.backends_changed", "node.bus_changed"})
# Listed here, because `asdict` copies recursively, which is fifty times slower and blocks requests.
# Tickets of runs are not saved: their holders come back with them.
_PRINCIPAL_FIELDS = tuple(field.name for field in fields(Principal) if field.name not in ("is_run", "is_background"))
# A run that has ended asks no models for longer than this.
RUN_RECHECK_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntry:
    """What a frontend checks an HTTP call of a worker against: credential hash, boot id and approval."""

    id: NodeId
    name: str
    type: NodeType
    credential_hash: str
    boot_id: str
    is_approved: bool
    is_draining: bool
    has_left: bool


@dataclass(frozen=True, slots=True)
class CredentialHolder:
    """Says which caller holds a secret (API key or session), and until when."""

    principal: Principal
    expires_monotonic: float | None

    def is_valid(self, now: float) -> bool:
        return self.expires_monotonic is None or self.expires_monotonic > now


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTicket:
    """Says for which run a ticket is valid and for how long, and which API key its requests count for."""

    scope: RunTicketScope
    left_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """Monotonic and wall clock of a frontend, read at the same moment, to convert times of one into the other."""

    monotonic: float
    wall: datetime

    def to_wall(self, monotonic: float | None) -> float | None:
        return None if monotonic is None else self.wall.timestamp() + monotonic - self.monotonic

    def to_monotonic(self, wall_s: float | None) -> float | None:
        return None if wall_s is None else self.monotonic + wall_s - self.wall.timestamp()


class CredentialDirectory:
    """Knows in a frontend's memory which credential belongs to whom, so that checking a key costs no query.

    Keys, sessions and nodes. Implements `StateOwner`.
    """

    def __init__(
        self, database: Database, clock: Clock, find_run_ticket: Callable[[str], RunTicket | None] = lambda _: None
    ) -> None:
        self._database = database
        self._clock = clock
        # Reads the ticket with which a run asks models.
        self._find_run_ticket = find_run_ticket
        self._nodes: dict[str, NodeEntry] = {}
        self._keys: dict[str, CredentialHolder] = {}
        # Cached by the secret itself, because hashing it costs more than all other checks of a key. Cleared together
        # with `_keys`.
        self._secret_cache: dict[str | bytes, CredentialHolder] = {}
        # The same holders by the ids of their keys, for sessions that were opened with them. Cleared together with
        # `_keys`.
        self._holders: dict[str, CredentialHolder] = {}
        self._sessions: dict[str, CredentialHolder] = {}
        # Ids of keys whose last use is not written yet; at most as many as there are keys.
        self._used_keys: set[str] = set()
        self._refused_secrets: OrderedDict[str, float] = OrderedDict()
        # Ids of nodes that are known to be removed.
        self._removed_nodes: OrderedDict[str, None] = OrderedDict()
        # Reloads are serialised: an older read must not bring a revoked key or a removed node back.
        self._key_reload_lock = asyncio.Lock()
        self._node_reload_lock = asyncio.Lock()
        self._session_reload_lock = asyncio.Lock()

    async def load(self) -> None:
        """Read all nodes, keys and sessions from the registry."""
        async with self._node_reload_lock:
            async with self._database.transaction() as tx:
                nodes = await node_store.list_nodes(tx)
            self._nodes = {node.id: _make_entry(node) for node in nodes}
        await self.load_keys()
        await self.load_sessions()

    async def follow(self, events: Sequence[OutboxEvent]) -> None:
        """Read the nodes, keys and sessions that the events name from the registry again, each once."""
        changed = {
            event.key for event in events if event.kind.startswith("node.") and event.kind not in _IGNORED_EVENTS
        }
        if changed:
            await self._reload_nodes(changed)
        kinds = {event.kind for event in events}
        has_changed_users = any(kind.startswith("user.") for kind in kinds)
        # Removing an agent node deletes its key, and removing a user deletes theirs.
        if has_changed_users or "node.removed" in kinds or any(kind.startswith("key.") for kind in kinds):
            await self.load_keys()
            self._refused_secrets.clear()
        logged = {event.key for event in events if event.kind.startswith("session.") or event.kind == "key.rotated"}
        if has_changed_users or logged:
            await self.load_sessions(None if has_changed_users else logged)

    async def authenticate_node(self, node_id: str, secret: str | None, *, boot_id: str | None = None) -> NodeEntry:
        """Return the calling node after checking its credential and, if given, that its boot id is the current one."""
        entry = self._nodes.get(node_id)
        if entry is None or not secret or not is_matching_secret(secret, entry.credential_hash):
            entry = await self._recheck_node(node_id, secret)
        if boot_id is not None and boot_id != entry.boot_id:
            entry = await self._reload_node(node_id) or entry
            if boot_id != entry.boot_id:
                raise BootSuperseded(
                    f"A newer worker process of node {entry.name} has registered, so this process is ignored.",
                    hint="Two workers with the same identity? Give one of them another --name and a home of its own.",
                )
        return entry

    def list_nodes(self) -> list[NodeEntry]:
        """Return every node, from memory."""
        return sorted(self._nodes.values(), key=lambda node: node.name)

    def find_known_principal(self, secret: str | bytes) -> Principal | None:
        """Return the holder of an API key from memory; None if it is unknown here, then `authenticate_key` reads the
        registry."""
        holder = self._secret_cache.get(secret)
        if holder is None:
            holder = self._keys.get(hash_secret(secret))
            if holder is None:
                return None
            if len(self._secret_cache) >= SECRET_CACHE_MAX:
                self._secret_cache.clear()
            self._secret_cache[secret] = holder
        if holder.expires_monotonic is None:
            return holder.principal
        return holder.principal if holder.is_valid(self._clock.monotonic()) else None

    async def authenticate_key(self, secret: str | None) -> Principal:
        """Return the holder of an API key; raise `NotAuthenticated` if the key does not work."""
        if not secret:
            raise NotAuthenticated(
                "An API key is needed.",
                hint="Send it as 'Authorization: Bearer ck_…'. `corral login` stores one for the command line.",
            )
        known = self.find_known_principal(secret)
        if known is not None:
            return known
        ticket = self._find_run_ticket(secret) if secret.startswith(TICKET_PREFIX) else None
        if ticket is not None:
            return await self._authenticate_run(secret, ticket)
        hashed = hash_secret(secret)
        if not self._was_refused(hashed):
            async with self._database.transaction() as tx:
                principal = await access_store.find_principal(tx, hashed)
            if principal is not None:
                return principal
            self._refuse(hashed)
        raise NotAuthenticated(
            "This API key is unknown, expired or revoked.",
            hint="On the machine of `corral up` the admin key is in CORRAL_HOME/admin.key; `corral keys recover` "
            "makes a new one.",
        )

    async def _authenticate_run(self, secret: str, ticket: RunTicket) -> Principal:
        """Return the key or user in whose name a run asks models, limited to that. Kept in memory until the keys are
        read again, so that a revoked key ends its runs' requests too."""
        holder = self._holders.get(ticket.scope.key_id)
        is_known = holder is not None and holder.is_valid(self._clock.monotonic())
        owner: Principal | None = holder.principal if holder is not None and is_known else None
        try:
            async with self._database.single_statements() as tx:
                if not await run_store.is_open(tx, ticket.scope.run_id):
                    raise NotAuthenticated("The run that this ticket belongs to has ended.", code="run_ended")
                if owner is None:
                    owner = await access_store.find_principal_by_key_id(tx, ticket.scope.key_id)
        except StoreUnavailable:
            # Runs go on while PostgreSQL is away, as other requests do.
            if owner is None:
                raise
        if owner is None:
            raise NotAuthenticated("The key or user that this run belongs to no longer works.", code="run_owner_gone")
        principal = replace(owner, scope=Scope.INFER, is_run=True, is_background=ticket.scope.is_background)
        expires = self._clock.monotonic() + min(ticket.left_s, RUN_RECHECK_S)
        if len(self._secret_cache) >= SECRET_CACHE_MAX:
            self._secret_cache.clear()
        self._secret_cache[secret] = CredentialHolder(principal, expires)
        return principal

    async def authenticate_session(self, secret: str) -> Principal:
        """Return the principal of a session cookie: the user of the session, or the holder of the key that opened
        it."""
        hashed = hash_secret(secret)
        holder = self._sessions.get(hashed)
        if holder is not None and not holder.is_valid(self._clock.monotonic()):
            raise _make_session_ended_error()
        found = None if holder is None else self._find_session_owner(holder.principal)
        if found is not None:
            return found
        if not self._was_refused(hashed):
            async with self._database.transaction() as tx:
                row = await access_store.find_session(tx, hashed)
            if row is not None:
                return row.principal
            self._refuse(hashed)
        raise _make_session_ended_error()

    def _find_session_owner(self, owner: Principal) -> Principal | None:
        """Return the present permissions of a session's owner, or None if the key is no longer valid."""
        if owner.is_session:
            return owner
        holder = self._holders.get(owner.key_id)
        return holder.principal if holder is not None and holder.is_valid(self._clock.monotonic()) else None

    async def _recheck_node(self, node_id: str, secret: str | None) -> NodeEntry:
        hashed = hash_secret(f"{node_id}:{secret or ''}")
        entry = self._nodes.get(node_id) if self._was_refused(hashed) else await self._reload_node(node_id)
        if entry is not None and secret and is_matching_secret(secret, entry.credential_hash):
            return entry
        self._refuse(hashed)
        if entry is None:
            # Reported as removed only if the registry has recorded the removal: after an outage or with a restored
            # database, a worker must not take "unknown" for "removed".
            raise NotFound(
                "This node is not registered here.",
                hint="Register again with a join token.",
                code="node_not_found",
                details={"is_removed": True} if await self._was_removed(node_id) else {},
            )
        raise NotAuthenticated(f"The credential does not belong to node {entry.name}.", code="node_credential_wrong")

    async def _was_removed(self, node_id: str) -> bool:
        """Return whether an admin has removed the node. Cached after the first query."""
        if node_id not in self._removed_nodes:
            async with self._database.transaction() as tx:
                if not await node_store.is_removed(tx, node_id):
                    return False
            self._removed_nodes[node_id] = None
            while len(self._removed_nodes) > REFUSALS_MAX:
                self._removed_nodes.popitem(last=False)
        return True

    async def _reload_node(self, node_id: str) -> NodeEntry | None:
        await self._reload_nodes({node_id})
        return self._nodes.get(node_id)

    async def _reload_nodes(self, node_ids: Collection[str]) -> None:
        async with self._node_reload_lock:
            async with self._database.transaction() as tx:
                found = {node.id: _make_entry(node) for node in await node_store.list_nodes(tx, only=node_ids)}
            for node_id in node_ids:
                if NodeId(node_id) in found:
                    self._nodes[node_id] = found[NodeId(node_id)]
                else:
                    self._nodes.pop(node_id, None)

    async def load_keys(self) -> None:
        """Reload the keys, so that a key that was just revoked is refused from now on."""
        async with self._key_reload_lock:
            async with self._database.transaction() as tx:
                rows = await access_store.list_active_key_hashes(tx)
            now = self._clock.monotonic()
            self._set_keys(
                {
                    hashed: CredentialHolder(principal, None if left_s is None else now + left_s)
                    for hashed, principal, left_s in rows
                }
            )

    def _set_keys(self, keys: dict[str, CredentialHolder]) -> None:
        self._keys, self._secret_cache = keys, {}
        self._holders = {}
        for holder in keys.values():
            # A key that was just rotated has two secrets; the first row is the current one, which lasts longer.
            self._holders.setdefault(holder.principal.key_id, holder)

    async def load_sessions(self, owners: Collection[str] | None = None) -> None:
        """Reload the sessions of these users and keys; without `owners`, all sessions."""
        async with self._session_reload_lock:
            async with self._database.transaction() as tx:
                rows = await access_store.list_sessions(tx, only=owners)
            now = self._clock.monotonic()
            kept_sessions = {
                hashed: holder
                for hashed, holder in self._sessions.items()
                if owners is not None and _get_owner_id(holder.principal) not in owners
            }
            self._sessions = kept_sessions | {
                row.hash: CredentialHolder(row.principal, now + row.left_s) for row in rows
            }

    def record_use(self, principal: Principal) -> None:
        """Record that a key, or a session that it opened, was used. Written later, for all keys together."""
        if not principal.is_session:
            self._used_keys.add(principal.key_id)

    async def write_uses(self) -> int:
        """Write when keys were last used, and return how many were written. If that fails, they are written the next
        time."""
        used, self._used_keys = self._used_keys, set()
        if not used:
            return 0
        try:
            async with self._database.transaction() as tx:
                await access_store.record_uses(tx, used)
        except StoreUnavailable:
            self._used_keys |= used
            raise
        return len(used)

    def add_local_session(self, secret: str, principal: Principal, life_s: float, sessions_max: int) -> None:
        """Add a session of a key in this frontend's memory only, while PostgreSQL is unreachable. The next reload of
        sessions ends it."""
        of_key = [hashed for hashed, holder in self._sessions.items() if holder.principal.key_id == principal.key_id]
        for oldest in of_key[: max(0, len(of_key) + 1 - sessions_max)]:
            del self._sessions[oldest]
        self._sessions[hash_secret(secret)] = CredentialHolder(principal, self._clock.monotonic() + life_s)

    def to_saved_state(self) -> dict[str, Any]:
        """Return the directory as plain data."""
        now = self._read_clocks()
        return {
            "keys": dump_holders(self._keys, now),
            "sessions": dump_holders(self._sessions, now),
            "nodes": dump_nodes(self._nodes.values()),
        }

    def from_saved_state(self, data: Mapping[str, Any]) -> None:
        """Fill the directory from saved state, until the registry can be read."""
        now = self._read_clocks()
        self._set_keys(load_holders(data["keys"], now))
        self._sessions = load_holders(data["sessions"], now)
        self._nodes = load_nodes(data["nodes"])

    def _read_clocks(self) -> ClockReading:
        return ClockReading(monotonic=self._clock.monotonic(), wall=self._clock.wall())

    def _was_refused(self, hashed: str) -> bool:
        until = self._refused_secrets.get(hashed)
        return until is not None and until > self._clock.monotonic()

    def _refuse(self, hashed: str) -> None:
        self._refused_secrets[hashed] = self._clock.monotonic() + REFUSAL_LIFE_S
        self._refused_secrets.move_to_end(hashed)
        while len(self._refused_secrets) > REFUSALS_MAX:
            self._refused_secrets.popitem(last=False)


def _get_owner_id(principal: Principal) -> str | None:
    """Return the id of the user or key that a session of this principal belongs to."""
    return principal.user_id if principal.is_session else principal.key_id


def _make_session_ended_error() -> NotAuthenticated:
    return NotAuthenticated(
        "This session has ended: it was signed out, it expired, or its key no longer works.",
        hint="Sign in again.",
        code="session_ended",
    )


def _make_entry(node: Node) -> NodeEntry:
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


_NODE_FIELDS = tuple(field.name for field in fields(NodeEntry))


def dump_holders(holders: Mapping[str, CredentialHolder], now: ClockReading) -> list[dict[str, Any]]:
    return [
        {
            "hash": hashed,
            "principal": _dump_principal(holder.principal),
            "expires_at": now.to_wall(holder.expires_monotonic),
        }
        for hashed, holder in holders.items()
    ]


def load_holders(rows: Iterable[Mapping[str, Any]], now: ClockReading) -> dict[str, CredentialHolder]:
    return {
        row["hash"]: CredentialHolder(_load_principal(row["principal"]), now.to_monotonic(row["expires_at"]))
        for row in rows
    }


def dump_nodes(nodes: Iterable[NodeEntry]) -> list[dict[str, Any]]:
    return [{name: getattr(node, name) for name in _NODE_FIELDS} for node in nodes]


def load_nodes(rows: Iterable[Mapping[str, Any]]) -> dict[str, NodeEntry]:
    return {row["id"]: NodeEntry(**{**row, "type": NodeType(row["type"])}) for row in rows}


def _dump_principal(principal: Principal) -> dict[str, Any]:
    plain = {name: getattr(principal, name) for name in _PRINCIPAL_FIELDS}
    if principal.limits:
        plain["limits"] = [asdict(limit) for limit in principal.limits]
    return plain


def _load_principal(row: Mapping[str, Any]) -> Principal:
    models = row["models"]
    changes = {
        "scope": Scope(row["scope"]),
        "models": None if models is None else tuple(models),
        "limits": tuple(KeyLimit(**limit) for limit in row["limits"]),
    }
    return Principal(**{**row, **changes})


_MAY_ONLY = {Scope.OPERATE: "operate the cluster", Scope.INFER: "ask models"}


def refuse_run_ticket(principal: Principal) -> Principal:
    """Return the caller; raise `NotAllowed` for the ticket of a run. Its worker would be its owner otherwise."""
    if principal.is_run:
        raise NotAllowed(
            "The ticket of a run asks models and does nothing else.",
            hint="Use a key of your own.",
            code="run_ticket_refused",
        )
    return principal


def require_scope(principal: Principal, scope: Scope) -> Principal:
    """Return the caller if it has the scope; raise `NotAllowed` otherwise."""
    if principal.may(scope):
        return principal
    limitation = "belongs to an agent node and may only" if principal.node_id else "may only"
    raise NotAllowed(
        f"{principal.name} {limitation} {_MAY_ONLY[principal.scope]}.",
        hint=f"This requires the scope {scope}. An admin can make such a key with `corral keys create --scope "
        f"{scope}`.",
    )
