"""A machine presents itself: the first time with a join token, later with its own credential.

Guarantee: calling it again with the same content changes nothing further, so a lost answer is harmless. A worker
cannot change approval, drain or an admin's overrides by it, whatever it sends. Its labels count for nothing until an
admin has approved them, and a new host is written to the audit.
Identity is the name *and* the credential that the worker made for itself; its hash is kept from the first call.

  1 known name, right credential     re-registration, no token needed
  2 otherwise                        a valid join token is needed
  3 the name is taken                refused
  4 a new node, pending unless the settings or the token approve it
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from corral.access.keys import issue_node_key
from corral.access.secrets import hash_secret, is_secret
from corral.access.tokens import is_approving_token, spend_token
from corral.domain.access import JoinToken
from corral.domain.errors import Conflict, InvalidRequest, NameTaken
from corral.domain.node import Hardware, LabelSource, Liveness, Node, NodeId, NodeType
from corral.policy.budget import parse_budget
from corral.policy.labels import check_labels, check_not_reserved, is_reserved
from corral.policy.node_identity import check_new_name, host_of
from corral.ports.runtime import Ids
from corral.store import access as access_store
from corral.store import assignments as assignment_store
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.store.database import Database, Transaction
from corral.store.replicas import Running
from corral.store.schema import NOW

# Far above what any machine runs; an admin cannot set more either.
SLOTS_MAX = 1024
# What stands at that place of the address already, or is taken away from it by clients.
_RESERVED_NAMES = frozenset({"models", "scheduling", ".", ".."})
_BUS_KEY = re.compile(r"U[A-Z2-7]{55}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
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
    budget: str | None = None
    hardware: Hardware = field(default_factory=Hardware)
    # Engines of an earlier process of this worker that this one goes on with; None if it has not finished looking.
    running: Collection[Running] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    node: Node
    api_token: str | None  # an agent node's key, told once


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPolicy:
    lease_s: float
    approves_all: bool = False


async def register(database: Database, ids: Ids, policy: JoinPolicy, wish: Registration) -> Registered:
    node_type = _check(wish)
    async with database.transaction() as tx:
        known = await node_store.find_node_by_name(tx, wish.name)
        if known is not None and is_secret(wish.credential, known.credential_hash):
            node_id = known.id
            _check_same_type(known, node_type)
            await _return(tx, known, wish, policy)  # 1
            approves = known.approved_at is not None and (
                policy.approves_all or await is_approving_token(tx, wish.token)
            )
        else:
            token = await spend_token(tx, wish.token)  # 2
            node_id = NodeId(ids.new_id())
            approves = token.approves or policy.approves_all
            await _join(tx, node_id, node_type, wish, policy, token)  # 3, 4
        await _refresh_labels(tx, node_id, wish, approves=approves)
        await rule_store.clear_unsatisfiable(tx)
        node = await node_store.get_node(tx, node_id)
        api_token = None
        if node.type is NodeType.AGENT and node.approved_at is not None:
            api_token = await issue_node_key(tx, ids, node.id, node.name)
    if known is not None and node.type is NodeType.BACKEND:
        # Apart, since nobody waits for an operation while holding a node. Should it be lost: its greeting on the bus,
        # its first heartbeat and its report say the same.
        async with database.transaction() as tx:
            await assignment_store.wake_nodes(tx, [node_id])
    return Registered(node=node, api_token=api_token)


def _check(wish: Registration) -> NodeType:
    try:
        node_type = NodeType(wish.type or NodeType.BACKEND)
    except ValueError as error:
        raise InvalidRequest(f"{wish.type[:40]!r} is not a node type.", hint="backend or agent") from error
    if node_type is NodeType.BACKEND and not wish.address:
        raise InvalidRequest("A backend node needs an address.", hint="corral worker --address host:port")
    _check_texts(wish)
    if wish.slots > SLOTS_MAX:
        raise InvalidRequest(f"{wish.slots} replicas per model are too many.", hint=f"At most {SLOTS_MAX}.")
    check_labels(wish.labels)
    parse_budget(wish.budget or "")
    return node_type


def _check_texts(wish: Registration) -> None:
    """Names are printed in terminals and logs: nothing in them may move the cursor or reverse the line."""
    for what, words in (("name", wish.name), ("boot_id", wish.boot_id)):
        if not words.isprintable():
            raise InvalidRequest(f"The {what} holds characters that cannot be printed.", hint="Choose another --name.")
    if "/" in wish.name or wish.name in _RESERVED_NAMES:
        raise InvalidRequest(
            f"{wish.name!r} cannot be a node's name: a node is reached at /api/nodes/<name>.",
            hint="Choose another --name, without a slash.",
            code="bad_name",
        )
    if wish.bus_public_key is not None and not _BUS_KEY.fullmatch(wish.bus_public_key):
        raise InvalidRequest("bus_public_key is not the public key of a NATS user.", hint="It begins with U.")


def _check_same_type(known: Node, node_type: NodeType) -> None:
    if known.type is not node_type:
        raise Conflict(
            f"Node {known.name} is registered as {known.type}, not as {node_type}.",
            hint=f"Choose another --name, or remove the old one: corral nodes remove {known.name}",
            code="node_type_changed",
        )


async def _join(
    tx: Transaction, node_id: NodeId, node_type: NodeType, wish: Registration, policy: JoinPolicy, token: JoinToken
) -> None:
    check_new_name(wish.name)
    check_not_reserved(wish.labels)
    similar = await node_store.find_similar_name(tx, wish.name)
    if similar is not None:
        raise NameTaken(
            f"{wish.name!r} is too much like {similar!r}, which is another node.",
            hint="Choose another --name.",
        )
    approver = f"join token {token.name}" if token.approves else "settings" if policy.approves_all else None
    values = _reported(wish) | {
        "id": node_id,
        "name": wish.name,
        "node_type": node_type,
        "credential_hash": hash_secret(wish.credential),
        "approved_at": NOW if approver else None,
        "approved_by": approver,
    }
    if not await node_store.insert_node(tx, values, policy.lease_s):
        raise NameTaken(
            f"Another machine is registered as {wish.name!r}, and this one does not have its credential.",
            hint=f"Choose another --name, or remove the old one: corral nodes remove {wish.name}",
        )
    await outbox.append(tx, "node.registered", node_id, {"name": wish.name, "approved": approver is not None})


async def _return(tx: Transaction, known: Node, wish: Registration, policy: JoinPolicy) -> None:
    is_new_boot = wish.boot_id != known.boot_id
    values = _reported(wish)
    if is_new_boot:
        # A new process: of what the old one ran only what it lists is running, and the old one's wish to drain died
        # with it. One that has not finished looking lists nothing yet; its first report of holdings decides then.
        values |= {"self_drained_at": None, "bus_ok": None, "bus_since": None, "holdings_at": None}
        if wish.running is not None:
            await replica_store.remove_but(tx, known.id, wish.running, "its worker was restarted")
    if host_of(wish.address) != host_of(known.address):
        change = f"{known.address or 'none'} -> {wish.address or 'none'}, registered from {wish.seen_address or '?'}"
        await access_store.record(tx, f"node {known.name}", "node.address", known.id, change)
    await node_store.update_node(tx, known.id, values)
    await node_store.set_liveness(tx, known.id, Liveness.ALIVE)
    await node_store.renew_lease(tx, known.id, policy.lease_s)
    await outbox.append(tx, "node.returned", known.id, {"name": known.name, "new_boot": is_new_boot})


def _reported(wish: Registration) -> dict[str, Any]:
    """Everything that the worker says about itself is written as it is, absent values included."""
    hardware = {item.name: getattr(wish.hardware, item.name) for item in fields(Hardware)}
    hardware["gpus"] = None if wish.hardware.gpus is None else list(wish.hardware.gpus)
    # A call without a bus key leaves the one that is known: it is the one to revoke when the node is removed.
    bus_key = {} if wish.bus_public_key is None else {"bus_public_key": wish.bus_public_key}
    return (
        hardware
        | bus_key
        | {
            "boot_id": wish.boot_id,
            "version": wish.version,
            "address": wish.address,
            "http_address": wish.http_address,
            "seen_address": wish.seen_address[:255],
            "slots_reported": max(1, wish.slots),
            "budget_reported": wish.budget or None,
        }
    )


async def _refresh_labels(tx: Transaction, node_id: NodeId, wish: Registration, *, approves: bool) -> None:
    """Labels of the worker and of the machine are replaced; those of admins are never touched. What is new of the
    worker's waits for an admin, unless the settings or the token approve it."""
    node = await node_store.get_node(tx, node_id)
    # A node from before these keys were reserved may still send them.
    labels = {key: value for key, value in wish.labels.items() if not is_reserved(key)}
    await node_store.replace_labels(tx, node_id, LabelSource.WORKER, labels)
    if approves:
        await node_store.update_node(tx, node_id, {"approved_labels": labels})
    await node_store.refresh_automatic_labels(tx, node)
