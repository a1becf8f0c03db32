"""Bus keys of nodes: which keys tokens were minted for, so that all of them can be revoked.

Guarantees: a key belongs to one node, so a node that shows another's public key gets no token for it, and cannot have
it revoked. Whatever a node was given a token for is known until that token has run out. Limit: a node has at most
`KEYS_MAX` keys at a time.
"""

from __future__ import annotations

from corral.domain.errors import Conflict
from corral.domain.node import Node
from corral.store import bus_keys as store
from corral.store.database import Transaction

# A worker makes a new key when it is removed and joins again; this is far more than that.
KEYS_MAX = 16


async def record_key(tx: Transaction, node: Node, public_key: str, ttl_s: float) -> None:
    """Write down that the node is given a token for this key. Call it in the transaction that has locked the node."""
    if not await store.put_key(tx, node.id, public_key, ttl_s):
        raise Conflict(
            "This bus key belongs to another node.",
            hint="Two workers were started from one copy of a worker's home: give each its own.",
            code="bus_key_taken",
        )
    keys = await store.list_keys(tx, node.id)
    if len(keys) > KEYS_MAX:
        raise Conflict(
            f"Node {node.name} has {KEYS_MAX} keys on the bus already.",
            hint="Keep one key; those that are no longer used are forgotten when their tokens have run out.",
            code="too_many_bus_keys",
        )
