"""Registers a machine as a node: the first time with a join token, later with its own credential.

Guarantee: a second call with the same content changes nothing further, so a lost answer is harmless. A worker cannot
change approval, drain or an admin's overrides by registering, whatever it sends. Its labels count for nothing until
an admin has approved them, and a new host is written to the audit log. The identity of a node is its name *and* the
credential that the worker made for itself; the hash is kept from the first call.

  1 known name, right credential     re-registration, no token needed
  2 otherwise                        a valid join token is needed
  3 the name is taken                refused
  4 a new node, pending unless the settings or the token approve it

The bus keys of a node are recorded, so that every token can be revoked. Guarantees: a key belongs
to one node, so a node that shows another's public key gets no token for it, and cannot have it revoked. Whatever a node
was given a token for is known until that token has run out. Limit: a node has at most `KEYS_MAX` keys at a time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from corral.access.keys import issue_node_key
from corral.access.secrets import hash_secret, is_matching_secret
from corral.access.tokens import is_approving_token, spend_token
from corral.domain.access import JoinToken
from corral.domain.errors import Conflict, InvalidRequest, NameTaken
from corral.domain.node import Hardware, LabelSource, Liveness, Node, NodeId, NodeType
from corral.policy.budget import parse_budget
from corral.policy.labels import check_labels, check_not_reserved, is_reserved
from corral.policy.node_identity import check_new_name, parse_host
from corral.ports.runtime import IdGenerator
from corral.store import access as access_store
from corral.store import assignments as assignment_store
from corral.store import nodes as node_store
from corral.store import nodes as store
from corral.store import outbox
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.store.database import Database, Transaction
from corral.store.replicas import RunningKey
from corral.store.schema import NOW

# Far above what any machine runs; an admin cannot set more either.
SLOTS_MAX = 1024
# Names that collide with routes at that place of the URL, or that clients strip from it.
_RESERVED_NAMES = frozenset({"models", "scheduling", ".", ".."})
_BUS_KEY = re.compile(r"U[A-Z2-7]{55}")
# A worker makes a new key when it is removed and joins again; this limit is far more than that.
KEYS_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationRequest:
    """What a worker sends to a frontend to register its machine as a node."""

    name: str
    type: str
    credential: str
    boot_id: str
    token: str | None = None
    bus_public_key: str | None = None
    version: str = ""
    address: str = ""
    http_address: str = ""
    # The host that the call came from.
    seen_address: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    slots: int = 1
    # How many runs the worker executes at the same time.
    max_runs: int | None = None
    # The kinds of runs that the worker executes; None: it does not say.
    run_kinds: Collection[str] | None = None
    budget: str | None = None
    hardware: Hardware = field(default_factory=Hardware)
    # Engines of the worker's previous process that this one took over; None if it has not finished looking.
    running: Collection[RunningKey] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationResult:
    """Result of registering a worker's machine: the node, and its API token if it is an agent node."""

    node: Node
    api_token: str | None  # An agent node's API key, returned once.


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPolicy:
    """Says how frontends treat registrations: the lease of a node, and whether all nodes are approved at once."""

    lease_s: float
    approves_all: bool = False


async def register(
    database: Database, ids: IdGenerator, policy: JoinPolicy, request: RegistrationRequest
) -> RegistrationResult:
    node_type = _check(request)
    async with database.transaction() as tx:
        known = await node_store.find_node_by_name(tx, request.name)
        if known is not None and is_matching_secret(request.credential, known.credential_hash):
            node_id = known.id
            _check_same_type(known, node_type)
            await _update_known_node(tx, known, request, policy)  # 1
            approves = known.approved_at is not None and (
                policy.approves_all or await is_approving_token(tx, request.token)
            )
        else:
            token = await spend_token(tx, request.token)  # 2
            node_id = NodeId(ids.new_id())
            approves = token.approves or policy.approves_all
            await _insert_new_node(tx, node_id, node_type, request, policy, token)  # 3, 4
        await _refresh_labels(tx, node_id, request, approves=approves)
        await rule_store.clear_unsatisfiable(tx)
        node = await node_store.get_node(tx, node_id)
        api_token = None
        if node.type is NodeType.AGENT and node.approved_at is not None:
            api_token = await issue_node_key(tx, ids, node.id, node.name)
    if known is not None and node.type is NodeType.BACKEND:
        # A transaction of its own: none waits for an operation while it holds the lock of a node. If it is lost, the
        # node's greeting on the bus, its first heartbeat and its report wake the same changes.
        async with database.transaction() as tx:
            await assignment_store.wake_nodes(tx, [node_id])
    return RegistrationResult(node=node, api_token=api_token)


def _check(request: RegistrationRequest) -> NodeType:
    try:
        node_type = NodeType(request.type or NodeType.BACKEND)
    except ValueError as error:
        raise InvalidRequest(f"{request.type[:40]!r} is not a node type.", hint="backend or agent") from error
    if node_type is NodeType.BACKEND and not request.address:
        raise InvalidRequest("A backend node needs an address.", hint="corral worker --address host:port")
    _check_texts(request)
    if request.slots > SLOTS_MAX:
        raise InvalidRequest(f"{request.slots} replicas per model are too many.", hint=f"At most {SLOTS_MAX}.")
    check_labels(request.labels)
    parse_budget(request.budget or "")
    return node_type


def _check_texts(request: RegistrationRequest) -> None:
    """Raise for unprintable characters: names are printed in terminals and logs, and must not move the cursor or
    reverse the line."""
    for field_name, words in (("name", request.name), ("boot_id", request.boot_id)):
        if not words.isprintable():
            raise InvalidRequest(
                f"The {field_name} contains characters that cannot be printed.", hint="Choose another --name."
            )
    if "/" in request.name or request.name in _RESERVED_NAMES:
        raise InvalidRequest(
            f"{request.name!r} cannot be a node's name: a node is reached at /api/nodes/<name>.",
            hint="Choose another --name, without a slash.",
            code="bad_name",
        )
    if request.bus_public_key is not None and not _BUS_KEY.fullmatch(request.bus_public_key):
        raise InvalidRequest("bus_public_key is not the public key of a NATS user.", hint="It begins with U.")


def _check_same_type(known: Node, node_type: NodeType) -> None:
    if known.type is not node_type:
        raise Conflict(
            f"Node {known.name} is registered as {known.type}, not as {node_type}.",
            hint=f"Choose another --name, or remove the old one: corral nodes remove {known.name}",
            code="node_type_changed",
        )


async def _insert_new_node(
    tx: Transaction,
    node_id: NodeId,
    node_type: NodeType,
    request: RegistrationRequest,
    policy: JoinPolicy,
    token: JoinToken,
) -> None:
    check_new_name(request.name)
    check_not_reserved(request.labels)
    similar = await node_store.find_similar_name(tx, request.name)
    if similar is not None:
        raise NameTaken(
            f"{request.name!r} is too similar to {similar!r}, which is another node.",
            hint="Choose another --name.",
        )
    approver = f"join token {token.name}" if token.approves else "settings" if policy.approves_all else None
    values = _list_reported_values(request) | {
        "id": node_id,
        "name": request.name,
        "node_type": node_type,
        "credential_hash": hash_secret(request.credential),
        "approved_at": NOW if approver else None,
        "approved_by": approver,
    }
    if not await node_store.insert_node(tx, values, policy.lease_s):
        raise NameTaken(
            f"Another machine is registered as {request.name!r}, and this one does not have its credential.",
            hint=f"Choose another --name, or remove the old one: corral nodes remove {request.name}",
        )
    await outbox.append(tx, "node.registered", node_id, {"name": request.name, "approved": approver is not None})


async def _update_known_node(tx: Transaction, known: Node, request: RegistrationRequest, policy: JoinPolicy) -> None:
    is_new_boot = request.boot_id != known.boot_id
    values = _list_reported_values(request)
    if is_new_boot:
        # A new process: of the old one's engines only those that it lists are running, and the old one's drain ended
        # with
        # it. A process that has not finished looking lists none yet; its first report of holdings decides then.
        values |= {"self_drained_at": None, "bus_ok": None, "bus_since": None, "holdings_at": None}
        if request.running is not None:
            await replica_store.remove_not_running(tx, known.id, request.running, "its worker was restarted")
    if parse_host(request.address) != parse_host(known.address):
        change = (
            f"{known.address or 'none'} -> {request.address or 'none'}, registered from {request.seen_address or '?'}"
        )
        await access_store.record_audit(tx, f"node {known.name}", "node.address", known.id, change)
    await node_store.update_node(tx, known.id, values)
    await node_store.set_liveness(tx, known.id, Liveness.ALIVE)
    await node_store.renew_lease(tx, known.id, policy.lease_s)
    await outbox.append(tx, "node.returned", known.id, {"name": known.name, "new_boot": is_new_boot})


def _list_reported_values(request: RegistrationRequest) -> dict[str, Any]:
    """Return the columns that the worker reports about itself, written as they are, absent values included."""
    hardware = {item.name: getattr(request.hardware, item.name) for item in fields(Hardware)}
    hardware["gpus"] = None if request.hardware.gpus is None else list(request.hardware.gpus)
    # A call without a bus key leaves the known one, which is the one to revoke when the node is removed.
    bus_key = {} if request.bus_public_key is None else {"bus_public_key": request.bus_public_key}
    return (
        hardware
        | bus_key
        | {
            "boot_id": request.boot_id,
            "version": request.version,
            "address": request.address,
            "http_address": request.http_address,
            "seen_address": request.seen_address[:255],
            "slots_reported": max(1, request.slots),
            "max_runs": request.max_runs,
            "run_kinds": None if request.run_kinds is None else sorted(set(request.run_kinds)),
            "budget_reported": request.budget or None,
        }
    )


async def _refresh_labels(tx: Transaction, node_id: NodeId, request: RegistrationRequest, *, approves: bool) -> None:
    """Replace the labels of the worker and of the machine; those of admins are never touched. A new label of the
    worker waits for an admin, unless the settings or the token approve it."""
    node = await node_store.get_node(tx, node_id)
    # A node from before these keys were reserved may still send them.
    labels = {key: value for key, value in request.labels.items() if not is_reserved(key)}
    await node_store.replace_labels(tx, node_id, LabelSource.WORKER, labels)
    if approves:
        await node_store.update_node(tx, node_id, {"approved_labels": labels})
    await node_store.refresh_automatic_labels(tx, node)


async def record_key(tx: Transaction, node: Node, public_key: str, ttl_s: float) -> None:
    """Record that the node gets a token for this key. Call it in the transaction that has locked the node."""
    if not await store.put_bus_key(tx, node.id, public_key, ttl_s):
        raise Conflict(
            "This bus key belongs to another node.",
            hint="Two workers were started from one copy of a worker's home: give each its own.",
            code="bus_key_taken",
        )
    keys = await store.list_bus_keys(tx, node.id)
    if len(keys) > KEYS_MAX:
        raise Conflict(
            f"Node {node.name} already has {KEYS_MAX} bus keys.",
            hint="Keep one key; unused ones are forgotten when their tokens have expired.",
            code="too_many_bus_keys",
        )
