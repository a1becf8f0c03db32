"""The public keys that nodes have bus tokens for: each belongs to one node, and all of them are revoked with it."""

from __future__ import annotations

from sqlalchemy import text

from corral.domain.node import NodeId
from corral.store.database import Transaction

_PUT = text("""
    INSERT INTO bus_keys (public_key, node_id, expires_at)
    VALUES (:public_key, CAST(:node_id AS uuid), corral_now() + make_interval(secs => :ttl_s))
    ON CONFLICT (public_key) DO UPDATE SET expires_at = GREATEST(bus_keys.expires_at, excluded.expires_at)
     WHERE bus_keys.node_id = excluded.node_id
    RETURNING public_key
""")
_FORGET_EXPIRED = text("""
    DELETE FROM bus_keys WHERE node_id = CAST(:node_id AS uuid) AND public_key <> :public_key
       AND expires_at < corral_now()
""")
_LIST = text("SELECT public_key FROM bus_keys WHERE node_id = CAST(:node_id AS uuid) ORDER BY public_key")


async def put_key(tx: Transaction, node_id: NodeId, public_key: str, ttl_s: float) -> bool:
    """Remember that the node has a token for this key, for so long. False if the key is another node's.

    Keys of the node whose tokens have all run out are forgotten, except for this one.
    """
    values = {"node_id": node_id, "public_key": public_key}
    if (await tx.execute(_PUT, values | {"ttl_s": ttl_s})).one_or_none() is None:
        return False
    await tx.execute(_FORGET_EXPIRED, values)
    return True


async def list_keys(tx: Transaction, node_id: NodeId) -> list[str]:
    return [row.public_key for row in await tx.execute(_LIST, {"node_id": node_id})]
