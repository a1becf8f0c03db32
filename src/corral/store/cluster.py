"""Stores leases with fencing terms, the frontends that are alive, and settings that admins changed for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from corral.domain.cluster import Frontend, Lease
from corral.domain.errors import LeaseLost
from corral.store.database import Transaction
from corral.store.schema import NOW, cluster_settings, frontends, leases

# A lease that is free or has run out is taken with the next term. The chain counts as unbroken only if the last
# holder gave it back in time; otherwise no frontend was watching for a while.
_ACQUIRE = text("""
    INSERT INTO leases AS l (name, holder, term, acquired_at, expires_at, unbroken_since)
    VALUES (:name, :holder, 1, corral_now(), corral_now() + make_interval(secs => :lease_s), corral_now())
    ON CONFLICT (name) DO UPDATE
       SET holder = :holder,
           term = l.term + 1,
           acquired_at = corral_now(),
           expires_at = corral_now() + make_interval(secs => :lease_s),
           unbroken_since = CASE WHEN l.holder = '' AND l.expires_at > corral_now()
                                 THEN l.unbroken_since ELSE corral_now() END
     WHERE l.holder = '' OR l.expires_at <= corral_now()
    RETURNING *
""")


async def acquire_lease(tx: Transaction, name: str, holder: str, lease_s: float) -> Lease | None:
    row = (await tx.execute(_ACQUIRE, {"name": name, "holder": holder, "lease_s": lease_s})).one_or_none()
    return None if row is None else _to_lease(row)


async def renew_lease(tx: Transaction, held: Lease, lease_s: float) -> Lease:
    """Renew a lease, only while it has not expired: a holder that did not renew in time must start a new term."""
    renewed = await tx.execute(
        update(leases)
        .where(
            leases.c.name == held.name,
            leases.c.holder == held.holder,
            leases.c.term == held.term,
            leases.c.expires_at > func.corral_now(),
        )
        .values(expires_at=func.corral_now() + func.make_interval(0, 0, 0, 0, 0, 0, lease_s))
        .returning(leases)
    )
    row = renewed.one_or_none()
    if row is None:
        raise LeaseLost(f"The lease {held.name} of term {held.term} is held by another process or has run out.")
    return _to_lease(row)


async def release_lease(tx: Transaction, held: Lease) -> None:
    """Release a lease: the row keeps its term and its time, so that the next holder knows there was no gap."""
    await tx.execute(
        update(leases)
        .where(leases.c.name == held.name, leases.c.holder == held.holder, leases.c.term == held.term)
        .values(holder="")
    )


async def require_lease(tx: Transaction, held: Lease) -> None:
    """Fence a write: fails unless this very term still holds, and keeps it so until the transaction ends."""
    row = await tx.execute(
        select(leases.c.term)
        .where(
            leases.c.name == held.name,
            leases.c.holder == held.holder,
            leases.c.term == held.term,
            leases.c.expires_at > func.corral_now(),
        )
        .with_for_update(read=True)
    )
    if row.one_or_none() is None:
        raise LeaseLost(f"The lease {held.name} of term {held.term} no longer holds.")


async def find_lease(tx: Transaction, name: str) -> Lease | None:
    row = (await tx.execute(select(leases).where(leases.c.name == name))).one_or_none()
    return None if row is None else _to_lease(row)


async def is_lease_held(tx: Transaction, name: str) -> bool:
    """Return whether any frontend holds this lease now."""
    held = select(leases.c.name).where(
        leases.c.name == name, leases.c.holder != "", leases.c.expires_at > func.corral_now()
    )
    return (await tx.execute(held)).one_or_none() is not None


async def has_watched_for(tx: Transaction, held: Lease, seconds: float) -> bool:
    """Return whether the chain of holders has been unbroken for that long."""
    statement = text("SELECT corral_now() - unbroken_since >= make_interval(secs => :s) FROM leases WHERE name = :name")
    return bool((await tx.execute(statement, {"s": seconds, "name": held.name})).scalar())


def _to_lease(row: Any) -> Lease:
    return Lease(
        name=row.name,
        holder=row.holder,
        term=row.term,
        acquired_at=row.acquired_at,
        expires_at=row.expires_at,
        unbroken_since=row.unbroken_since,
    )


async def put_frontend(tx: Transaction, values: dict[str, Any]) -> None:
    statement = insert(frontends).values(**values)
    await tx.execute(statement.on_conflict_do_update(index_elements=["id"], set_={**values, "seen_at": NOW}))


async def delete_frontend(tx: Transaction, frontend_id: str) -> None:
    await tx.execute(delete(frontends).where(frontends.c.id == frontend_id))


async def list_frontends(tx: Transaction, alive_within_s: float) -> list[Frontend]:
    recent = frontends.c.seen_at > func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, alive_within_s)
    rows = await tx.execute(select(frontends, recent.label("alive")).order_by(frontends.c.started_at))
    return [
        Frontend(
            id=row.id,
            host=row.host,
            port=row.port,
            pid=row.pid,
            version=row.version,
            started_at=row.started_at,
            seen_at=row.seen_at,
            alive=row.alive,
        )
        for row in rows
    ]


async def has_peer_on_bus(tx: Transaction, frontend_id: str, alive_within_s: float) -> bool:
    """Return whether another frontend was connected to NATS when it was last seen, so many seconds ago at most."""
    recent = frontends.c.seen_at > func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, alive_within_s)
    peers = select(frontends.c.id).where(frontends.c.id != frontend_id, frontends.c.bus_ok.is_(True), recent)
    return (await tx.execute(peers.limit(1))).one_or_none() is not None


async def prune_frontends(tx: Transaction, age_s: float) -> int:
    oldest = func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, age_s)
    return (await tx.execute(delete(frontends).where(frontends.c.seen_at < oldest))).rowcount


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSetting:
    """One setting that was changed at run time, as stored in PostgreSQL: its value, who changed it and when."""

    name: str
    # The value as it would be written in an environment variable.
    value: str
    changed_by: str
    changed_at: datetime


async def list_settings(tx: Transaction) -> dict[str, StoredSetting]:
    """Return every stored setting by its name."""
    rows = await tx.execute(select(cluster_settings).order_by(cluster_settings.c.name))
    return {
        row.name: StoredSetting(name=row.name, value=row.value, changed_by=row.changed_by, changed_at=row.changed_at)
        for row in rows
    }


async def put_setting(tx: Transaction, name: str, value: str, actor: str) -> None:
    values = {"value": value, "changed_by": actor[:255], "changed_at": NOW}
    statement = insert(cluster_settings).values(name=name, **values)
    await tx.execute(statement.on_conflict_do_update(index_elements=["name"], set_=values))


async def delete_setting(tx: Transaction, name: str) -> None:
    await tx.execute(delete(cluster_settings).where(cluster_settings.c.name == name))
