"""Stores collections, their entries and sources. Chunks are in `store/chunks.py`.

Lock order: the run that reads an entry, then the collection, then the entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.sql import Select

from corral.domain.access import Owner
from corral.domain.collection import AUTO_LANGUAGE, Collection, CollectionEntry, CollectionSource, EntryState
from corral.domain.errors import Conflict, NotFound
from corral.store.access import has_active_owner
from corral.store.collection_schema import collection_entries, collection_sources, collections
from corral.store.database import Transaction, is_storable
from corral.store.schema import NOW

LISTED_MAX = 1000
MESSAGE_MAX = 1000
# Of one deletion: the chunks go with their entries, and a statement has seconds.
DELETED_PER_STEP = 20
# Of one deletion of memories: a statement has seconds, and each takes its file and its chunks with it.
PRUNED_PER_PASS = 500


# --- collections ---


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCollection:
    """Values with which a collection is inserted into PostgreSQL."""

    id: str
    owner: Owner
    name: str
    embedding_model: str
    chunk_size: int
    chunk_overlap: int
    language: str = AUTO_LANGUAGE


def _select_collections() -> Select[Any]:
    own = collection_entries.c.collection_id == collections.c.id
    entries = select(func.count()).where(own).scalar_subquery().label("entries")
    chunks = select(func.coalesce(func.sum(collection_entries.c.chunks), 0)).where(own).scalar_subquery()
    return select(collections, entries, chunks.label("chunks"))


def _to_collection(row: Any) -> Collection:
    return Collection(
        id=row.id,
        owner=row.owner,
        name=row.name,
        embedding_model=row.embedding_model,
        dimension=row.dimension,
        chunk_size=row.chunk_size,
        chunk_overlap=row.chunk_overlap,
        language=row.language,
        entries=int(row.entries),
        chunks=int(row.chunks),
        created_at=row.created_at,
    )


async def insert_collection(tx: Transaction, new: NewCollection) -> None:
    """Insert a collection. Raises `Conflict` if its owner has one of this name."""
    await tx.execute(
        text("SELECT pg_advisory_xact_lock(hashtextextended('collections ' || :owner, 0))"), {"owner": str(new.owner)}
    )
    if await find_collection(tx, str(new.owner), new.name) is not None:
        raise Conflict(
            f"You have a collection named {new.name!r} already.",
            hint="Add documents to it, or choose another name.",
            code="collection_exists",
        )
    await tx.execute(
        insert(collections).values(
            id=new.id,
            owner=str(new.owner),
            user_id=new.owner.user_id,
            owner_key_id=new.owner.key_id,
            name=new.name,
            embedding_model=new.embedding_model,
            chunk_size=new.chunk_size,
            chunk_overlap=new.chunk_overlap,
            language=new.language,
        )
    )


async def find_collection(tx: Transaction, owner: str, name: str) -> Collection | None:
    if not is_storable(name):
        return None
    statement = _select_collections().where(collections.c.owner == owner, collections.c.name == name)
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else _to_collection(row)


async def get_collection(tx: Transaction, owner: str, name: str) -> Collection:
    found = await find_collection(tx, owner, name)
    if found is None:
        raise NotFound(
            f"There is no collection {name[:100]!r}.",
            hint="`corral collections list` shows your collections.",
            code="collection_not_found",
        )
    return found


async def find_collection_by_id(tx: Transaction, collection_id: str) -> Collection | None:
    row = (await tx.execute(_select_collections().where(collections.c.id == collection_id))).one_or_none()
    return None if row is None else _to_collection(row)


async def lock_collection(tx: Transaction, collection_id: str) -> Collection | None:
    """Return a collection by its id, and keep it from changing until the transaction ends."""
    locked = select(collections.c.id).where(collections.c.id == collection_id).with_for_update()
    if (await tx.execute(locked)).one_or_none() is None:
        return None
    row = (await tx.execute(_select_collections().where(collections.c.id == collection_id))).one()
    return _to_collection(row)


async def list_collections(tx: Transaction, owner: str | None) -> list[Collection]:
    """List the collections of an owner by name; None: of all owners, at most `LISTED_MAX`."""
    statement = _select_collections().order_by(collections.c.name, collections.c.owner)
    if owner is not None:
        statement = statement.where(collections.c.owner == owner)
    return [_to_collection(row) for row in await tx.execute(statement.limit(LISTED_MAX))]


async def count_collections(tx: Transaction, owner: str) -> int:
    statement = select(func.count()).select_from(collections).where(collections.c.owner == owner)
    return int((await tx.execute(statement)).scalar_one())


async def set_dimension(tx: Transaction, collection_id: str, dimension: int | None) -> None:
    await tx.execute(update(collections).where(collections.c.id == collection_id).values(dimension=dimension))


async def delete_collection(tx: Transaction, collection_id: str) -> None:
    await tx.execute(delete(collections).where(collections.c.id == collection_id))


# --- entries ---


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """Values with which an entry of a collection is inserted into PostgreSQL, or replaced by another file."""

    id: str
    collection_id: str
    name: str
    media_type: str
    size_bytes: int
    sha256: str
    artifact_id: str
    key_id: str
    owner_name: str
    source_id: str | None = None
    run_id: str | None = None
    # True for what an agent has remembered, which has a retention.
    is_memory: bool = False


def _to_entry(row: Any) -> CollectionEntry:
    values = dict(row._mapping)  # noqa: SLF001 - the public way to a row's columns
    return CollectionEntry(**values | {"state": EntryState(row.state)})


async def insert_entry(tx: Transaction, new: NewEntry) -> None:
    values = {name: getattr(new, name) for name in NewEntry.__dataclass_fields__}
    await tx.execute(insert(collection_entries).values(**values))


async def replace_entry(tx: Transaction, entry_id: str, new: NewEntry) -> None:
    """Let an entry be read again, from another file. Searches find its earlier text until then."""
    kept = {"id", "collection_id", "name"}
    values = {name: getattr(new, name) for name in NewEntry.__dataclass_fields__ if name not in kept}
    await tx.execute(
        update(collection_entries)
        .where(collection_entries.c.id == entry_id)
        .values(
            **values,
            state=EntryState.QUEUED,
            message="",
            version=collection_entries.c.version + 1,
            updated_at=NOW,
        )
    )


async def find_entry(tx: Transaction, collection_id: str, name: str, *, locks: bool = False) -> CollectionEntry | None:
    if not is_storable(name):
        return None
    statement = select(collection_entries).where(
        collection_entries.c.collection_id == collection_id, collection_entries.c.name == name
    )
    row = (await tx.execute(statement.with_for_update() if locks else statement)).one_or_none()
    return None if row is None else _to_entry(row)


async def find_entry_of_run(tx: Transaction, run_id: str, *, locks: bool = False) -> CollectionEntry | None:
    """Return the entry that a run is to read; None if it was deleted or replaced meanwhile."""
    statement = select(collection_entries).where(collection_entries.c.run_id == run_id)
    row = (await tx.execute(statement.with_for_update() if locks else statement)).one_or_none()
    return None if row is None else _to_entry(row)


async def find_entry_of_source(tx: Transaction, source_id: str) -> CollectionEntry | None:
    statement = select(collection_entries).where(collection_entries.c.source_id == source_id)
    row = (await tx.execute(statement.order_by(collection_entries.c.created_at).limit(1))).one_or_none()
    return None if row is None else _to_entry(row)


async def list_entries(tx: Transaction, collection_id: str, *, after: str = "", limit: int) -> list[CollectionEntry]:
    """List entries by name, from behind a name on."""
    statement = select(collection_entries).where(collection_entries.c.collection_id == collection_id)
    if after:
        statement = statement.where(collection_entries.c.name > after)
    ordered = statement.order_by(collection_entries.c.name).limit(limit)
    return [_to_entry(row) for row in await tx.execute(ordered)]


async def update_entry(tx: Transaction, entry_id: str, values: Mapping[str, Any]) -> None:
    await tx.execute(
        update(collection_entries).where(collection_entries.c.id == entry_id).values(**values, updated_at=NOW)
    )


async def delete_entry(tx: Transaction, entry_id: str) -> None:
    """Delete an entry with its chunks."""
    await tx.execute(delete(collection_entries).where(collection_entries.c.id == entry_id))


# One that is read now stays until it was read. Its file goes with it; its chunks do by their foreign key.
_PRUNE_MEMORIES = text("""
    WITH old AS (
        SELECT e.id FROM collection_entries e
         WHERE e.is_memory AND e.updated_at < corral_now() - make_interval(secs => :age_s)
           AND e.state IN ('ready', 'failed')
         ORDER BY e.updated_at, e.id LIMIT :limit
    ), gone AS (
        DELETE FROM collection_entries e USING old
         WHERE e.id = old.id AND e.is_memory AND e.state IN ('ready', 'failed')
        RETURNING e.id, e.artifact_id
    ), files AS (
        DELETE FROM artifacts WHERE id IN (SELECT artifact_id FROM gone)
    )
    SELECT count(*) FROM gone
""")


async def prune_memories(tx: Transaction, age_s: float, limit: int = PRUNED_PER_PASS) -> int:
    """Delete what agents have remembered longer ago than this, with its files. Return how many; 0: there are no
    more."""
    return int((await tx.execute(_PRUNE_MEMORIES, {"age_s": age_s, "limit": limit})).scalar_one())


async def list_waiting(tx: Transaction, limit: int) -> list[CollectionEntry]:
    """Return entries that no run reads yet: first those that were looked at longest ago. Those whose owner cannot sign
    in wait for another time."""
    statement = (
        select(collection_entries)
        .join(collections, collections.c.id == collection_entries.c.collection_id)
        .where(
            collection_entries.c.state == EntryState.QUEUED,
            collection_entries.c.run_id.is_(None),
            has_active_owner(collections.c.user_id, collections.c.owner_key_id),
        )
        .order_by(collection_entries.c.updated_at)
        .limit(limit)
    )
    return [_to_entry(row) for row in await tx.execute(statement)]


_FAIL_ABANDONED = text("""
    UPDATE collection_entries e SET state = 'failed', message = :message, updated_at = corral_now()
     WHERE e.state IN ('queued', 'reading') AND e.run_id IS NOT NULL AND NOT EXISTS (
           SELECT FROM runs r WHERE r.id = e.run_id AND r.finished_at IS NULL)
""")


async def fail_abandoned(tx: Transaction, message: str) -> int:
    """Let entries fail whose run has ended without reading them, such as one that was cancelled. Return how many."""
    return (await tx.execute(_FAIL_ABANDONED, {"message": message})).rowcount


async def is_raw_file(tx: Transaction, artifact_id: str) -> bool:
    """Return whether a file is that of an entry."""
    statement = select(collection_entries.c.id).where(collection_entries.c.artifact_id == artifact_id).limit(1)
    return (await tx.execute(statement)).one_or_none() is not None


# --- sources ---


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSource:
    """Values with which a source of a collection is inserted into PostgreSQL."""

    id: str
    collection_id: str
    url: str
    interval_s: float
    key_id: str
    owner_name: str


def _to_source(row: Any) -> CollectionSource:
    return CollectionSource(**dict(row._mapping))  # noqa: SLF001 - the public way to a row's columns


async def put_source(tx: Transaction, new: NewSource) -> None:
    """Insert a source that is due at once, or let one with this id be read now and at this interval."""
    values = {name: getattr(new, name) for name in NewSource.__dataclass_fields__}
    changed = {name: values[name] for name in ("interval_s", "key_id", "owner_name")} | {"next_read_at": NOW}
    statement = postgres_insert(collection_sources).values(**values)
    await tx.execute(statement.on_conflict_do_update(index_elements=["id"], set_=changed))


async def list_sources(tx: Transaction, collection_id: str) -> list[CollectionSource]:
    statement = select(collection_sources).where(collection_sources.c.collection_id == collection_id)
    return [_to_source(row) for row in await tx.execute(statement.order_by(collection_sources.c.url))]


async def find_source(tx: Transaction, collection_id: str, url: str) -> CollectionSource | None:
    statement = select(collection_sources).where(
        collection_sources.c.collection_id == collection_id, collection_sources.c.url == url
    )
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else _to_source(row)


async def delete_source(tx: Transaction, source_id: str) -> None:
    await tx.execute(delete(collection_sources).where(collection_sources.c.id == source_id))


async def claim_due_source(tx: Transaction, seconds: float) -> tuple[CollectionSource, str] | None:
    """Return a source that is due and the name of its owner, and take it for so many seconds; None if none is due."""
    statement = (
        select(collection_sources, collections.c.owner)
        .join(collections, collections.c.id == collection_sources.c.collection_id)
        .where(
            collection_sources.c.next_read_at <= NOW,
            has_active_owner(collections.c.user_id, collections.c.owner_key_id),
        )
        .order_by(collection_sources.c.next_read_at)
        .limit(1)
        .with_for_update(of=collection_sources, skip_locked=True)
    )
    row = (await tx.execute(statement)).one_or_none()
    if row is None:
        return None
    values = dict(row._mapping)  # noqa: SLF001 - the public way to a row's columns
    owner = str(values.pop("owner"))
    await _set_next(tx, row.id, seconds)
    return CollectionSource(**values), owner


async def record_source_read(tx: Transaction, source_id: str, seconds: float, problem: str = "") -> None:
    """Record that a source was read or why not, and when it is read next."""
    values: dict[str, Any] = {"problem": problem[:MESSAGE_MAX]}
    if not problem:
        values["last_read_at"] = NOW
    await tx.execute(update(collection_sources).where(collection_sources.c.id == source_id).values(**values))
    await _set_next(tx, source_id, seconds)


async def _set_next(tx: Transaction, source_id: str, seconds: float) -> None:
    next_at = func.corral_now() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    await tx.execute(
        update(collection_sources).where(collection_sources.c.id == source_id).values(next_read_at=next_at)
    )
