"""Collections as routes use them: create, upload, list, search, reset and delete.

Guarantees: a file is stored before its entry is returned, and the entry with the run that reads it, or none of them. An
entry that is uploaded again is found with its earlier text until the new one is ready. What belongs to others does not
exist for a caller.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from corral.domain.access import Owner, Principal, parse_owner
from corral.domain.artifact import Artifact, ArtifactKind
from corral.domain.collection import (
    AUTO_LANGUAGE,
    CHUNK_OVERLAP,
    CHUNK_SIZE,
    Collection,
    CollectionEntry,
    CollectionSource,
    FoundChunk,
    SearchQuery,
)
from corral.domain.errors import Conflict, InvalidRequest, LimitReached, NotFound, TooLarge
from corral.domain.run import RunBudgets, RunId, RunKind
from corral.knowledge.vector_tables import VectorTables
from corral.operations import actions
from corral.policy import documents as policy
from corral.ports.runtime import IdGenerator
from corral.runs.artifacts import ArtifactService, UploadDescription
from corral.runs.service import RunService
from corral.store import access as access_store
from corral.store import artifacts as artifact_store
from corral.store import chunks as chunk_store
from corral.store import collections as store
from corral.store.collections import NewCollection, NewEntry, NewSource
from corral.store.database import Database, Transaction
from corral.store.runs import NewRun

# A person keeps some dozens; more are a script out of control.
COLLECTIONS_MAX = 200
ENTRIES_MAX = 100_000
SOURCES_MAX = 500
# A document of many pages, and an embedding model that is busy.
INGEST_WALL_S = 3600.0
# Chunks of one entry in one response.
CONTENTS_MAX = 1000
ENTRIES_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionServiceDeps:
    """Dependencies of a frontend's service for collections."""

    database: Database
    ids: IdGenerator
    runs: RunService
    artifacts: ArtifactService
    tables: VectorTables
    # Returns the embedding model of collections that name none; None if it is not clear which.
    find_default_model: Callable[[], str | None]
    # Up to how many chunks a search looks at all of them.
    exact_chunks_max: int = chunk_store.EXACT_CHUNKS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionSpec:
    """A request for a collection: its name, and how its documents are cut and embedded."""

    name: str
    embedding_model: str = ""
    chunk_size: int = CHUNK_SIZE
    chunk_overlap: int = CHUNK_OVERLAP
    # A text search configuration of PostgreSQL; auto: each document has its own.
    language: str = AUTO_LANGUAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryContent:
    """The text of an entry as its chunks, from a number on."""

    entry: CollectionEntry
    chunks: Sequence[str]


class CollectionService:
    """Creates, fills, searches and deletes collections of documents."""

    def __init__(self, deps: CollectionServiceDeps) -> None:
        self._deps = deps
        # A hint for the loop that starts runs for entries without one.
        self.wake_reader: Callable[[], None] = lambda: None

    # --- collections ---

    async def list_collections(self, owner: Owner | None) -> list[Collection]:
        """Return the collections of an owner by name; None: those of all owners."""
        async with self._deps.database.transaction() as tx:
            return await store.list_collections(tx, None if owner is None else str(owner))

    async def get(self, owner: Owner, name: str) -> Collection:
        async with self._deps.database.transaction() as tx:
            return await store.get_collection(tx, str(owner), name)

    async def require_tables(self) -> None:
        """Make the tables of collections. Raises `Unavailable` if PostgreSQL lacks the extension for them."""
        await self._deps.tables.require()

    async def create(self, tx: Transaction, owner: Owner, spec: CollectionSpec, *, actor: str) -> Collection:
        """Create a collection inside a larger transaction, behind `require_tables`."""
        policy.check_collection_name(spec.name)
        policy.check_chunks(spec.chunk_size, spec.chunk_overlap)
        await _require_language(tx, spec.language)
        model = spec.embedding_model or self._deps.find_default_model()
        if not model:
            raise InvalidRequest(
                "The collection names no embedding model, and it is not clear which one to use.",
                hint="Install one (corral models install all-minilm-l6-v2), or name one: --embedding-model MODEL "
                "(`embedding_model`).",
                code="no_embedding_model",
            )
        if await store.count_collections(tx, str(owner)) >= COLLECTIONS_MAX:
            raise LimitReached(
                f"You have {COLLECTIONS_MAX} collections, which is the limit.",
                hint="Delete one: corral collections delete NAME",
                code="too_many_collections",
            )
        new = NewCollection(
            id=self._deps.ids.new_id(),
            owner=owner,
            name=spec.name,
            embedding_model=model,
            chunk_size=spec.chunk_size,
            chunk_overlap=spec.chunk_overlap,
            language=spec.language,
        )
        await store.insert_collection(tx, new)
        await access_store.record_audit(tx, actor, "collection.create", new.id, new.name)
        return await store.get_collection(tx, str(owner), spec.name)

    async def reset(self, owner: Owner, name: str, *, actor: str) -> Collection:
        """Delete all entries and sources of a collection. Its next document may have embeddings of another length."""
        collection = await self.get(owner, name)
        await self._empty(collection)
        async with self._deps.database.transaction() as tx:
            await access_store.record_audit(tx, actor, "collection.reset", collection.id, collection.name)
        return await self.get(owner, name)

    async def _empty(self, collection: Collection) -> None:
        async with self._deps.database.transaction() as tx:
            for source in await store.list_sources(tx, collection.id):
                await store.delete_source(tx, source.id)
        await self._delete_entries(collection)
        async with self._deps.database.transaction() as tx:
            # A document may have come meanwhile, and its embeddings have a length.
            locked = await store.lock_collection(tx, collection.id)
            if locked is not None and not locked.entries:
                await store.set_dimension(tx, collection.id, None)

    async def delete(self, owner: Owner, name: str, *, actor: str) -> None:
        """Delete a collection with everything in it."""
        collection = await self.get(owner, name)
        await self._empty(collection)
        async with self._deps.database.transaction() as tx:
            await store.delete_collection(tx, collection.id)
            await access_store.record_audit(tx, actor, "collection.delete", collection.id, collection.name)

    async def _delete_entries(self, collection: Collection) -> None:
        while True:
            async with self._deps.database.transaction() as tx:
                found = await store.list_entries(tx, collection.id, limit=store.DELETED_PER_STEP)
                cancelled = [run_id for entry in found for run_id in await self._delete_entry(tx, entry)]
            await self._deps.runs.announce_cancelled(cancelled)
            if not found:
                return

    # --- entries ---

    async def receive(
        self, caller: Principal, name: str, pieces: AsyncIterator[bytes], description: UploadDescription
    ) -> CollectionEntry:
        """Store an upload as it arrives, and start the run that reads it. `description` is complete at its end."""
        collection = await self.get(caller.owner, name)
        await self.require_tables()

        def check() -> None:
            policy.check_entry_name(description.name)
            policy.require_document_kind(description.name, description.media_type)

        bounded = _limit_bytes(pieces)
        artifact = await self._deps.artifacts.receive(
            caller.owner, bounded, description, check, kind=ArtifactKind.COLLECTION
        )
        return await self.add_file(collection, caller, artifact)

    async def add_file(self, collection: Collection, caller: Principal, artifact: Artifact) -> CollectionEntry:
        """Make an entry of a stored file, or replace the one of its name, and start the run that reads it."""
        new = NewEntry(
            id=self._deps.ids.new_id(),
            collection_id=collection.id,
            name=artifact.name,
            media_type=artifact.media_type,
            size_bytes=artifact.size_bytes,
            sha256=artifact.sha256,
            artifact_id=artifact.id,
            key_id=caller.key_id,
            owner_name=caller.name,
        )
        async with self._deps.database.transaction() as tx:
            entry, cancelled = await self.put_entry(tx, collection, new)
            await self.start_reading(tx, collection, entry)
            entry = await self._get_entry(tx, collection, entry.name)
        await self._deps.runs.announce_cancelled(cancelled)
        return entry

    async def put_entry(
        self, tx: Transaction, collection: Collection, new: NewEntry
    ) -> tuple[CollectionEntry, list[RunId]]:
        """Insert an entry, or replace the one of its name. Return it, and the runs that were cancelled for it."""
        await artifact_store.keep_forever(tx, new.artifact_id)
        previous = await store.find_entry(tx, collection.id, new.name)
        if previous is None:
            # The row of the collection makes two uploads of one name wait for each other.
            locked = await store.lock_collection(tx, collection.id)
            if locked is None:
                raise NotFound("The collection was deleted meanwhile.", code="collection_not_found")
            previous = await store.find_entry(tx, collection.id, new.name)
            if previous is None and locked.entries >= ENTRIES_MAX:
                raise LimitReached(f"A collection has at most {ENTRIES_MAX} entries.", code="too_many_entries")
        if previous is None:
            await store.insert_entry(tx, new)
            return await self._get_entry(tx, collection, new.name), []
        cancelled = await self._cancel_reading(tx, previous)
        await store.replace_entry(tx, previous.id, new)
        if previous.artifact_id and previous.artifact_id != new.artifact_id:
            await artifact_store.delete_artifact(tx, previous.artifact_id)
        return await self._get_entry(tx, collection, new.name), cancelled

    async def start_reading(self, tx: Transaction, collection: Collection, entry: CollectionEntry) -> None:
        """Start the run that reads an entry. Raises `Unavailable` if no node could take it."""
        new = NewRun(
            kind=RunKind.INGEST,
            owner=parse_owner(collection.owner),
            owner_name=entry.owner_name,
            key_id=entry.key_id,
            subject=collection.name,
            request={"entry": entry.name},
            budgets=RunBudgets(wall_s=INGEST_WALL_S, steps=None),
        )
        run_id = await self._deps.runs.admission.start(tx, new)
        await store.update_entry(tx, entry.id, {"run_id": run_id})

    async def list_entries(
        self, owner: Owner, name: str, *, after: str = "", limit: int = ENTRIES_PAGE
    ) -> list[CollectionEntry]:
        async with self._deps.database.transaction() as tx:
            collection = await store.get_collection(tx, str(owner), name)
            return await store.list_entries(tx, collection.id, after=after, limit=limit)

    async def read_entry(self, owner: Owner, name: str, entry_name: str, start: int = 0) -> EntryContent:
        """Return the text of an entry as its chunks."""
        async with self._deps.database.transaction() as tx:
            collection = await store.get_collection(tx, str(owner), name)
            entry = await self._get_entry(tx, collection, entry_name)
            chunks: Sequence[str] = ()
            if entry.ready_version is not None:
                chunks = await chunk_store.list_contents(tx, entry.id, entry.ready_version, start, CONTENTS_MAX)
        return EntryContent(entry=entry, chunks=chunks)

    async def get_raw_file(self, owner: Owner, name: str, entry_name: str) -> Artifact:
        """Return the file that an entry was made of."""
        async with self._deps.database.transaction() as tx:
            collection = await store.get_collection(tx, str(owner), name)
            entry = await self._get_entry(tx, collection, entry_name)
            return await artifact_store.get_artifact(tx, entry.artifact_id or "", owner=str(owner))

    async def delete_entry(self, owner: Owner, name: str, entry_name: str) -> None:
        async with self._deps.database.transaction() as tx:
            collection = await store.get_collection(tx, str(owner), name)
            cancelled = await self._delete_entry(tx, await self._get_entry(tx, collection, entry_name))
        await self._deps.runs.announce_cancelled(cancelled)

    async def _delete_entry(self, tx: Transaction, entry: CollectionEntry) -> list[RunId]:
        cancelled = await self._cancel_reading(tx, entry)
        await store.delete_entry(tx, entry.id)
        if entry.artifact_id:
            await artifact_store.delete_artifact(tx, entry.artifact_id)
        return cancelled

    async def _cancel_reading(self, tx: Transaction, entry: CollectionEntry) -> list[RunId]:
        is_open = entry.run_id is not None and entry.state.value in ("queued", "reading")
        if is_open and entry.run_id and await actions.cancel_run_in(tx, entry.run_id, "a change of the entry"):
            return [RunId(entry.run_id)]
        return []

    async def _get_entry(self, tx: Transaction, collection: Collection, name: str) -> CollectionEntry:
        found = await store.find_entry(tx, collection.id, name)
        if found is None:
            raise NotFound(
                f"The collection {collection.name} has no entry {name[:100]!r}.",
                hint=f"`corral collections entries {collection.name}` shows them.",
                code="entry_not_found",
            )
        return found

    # --- search ---

    async def search(self, collection: Collection, query: SearchQuery) -> list[FoundChunk]:
        """Return the chunks that are nearest to a query, in meaning and in words. Raises `Conflict` if its embedding
        is not as long as those of the collection."""
        policy.check_embedding(query.embedding, chunk_store.DIMENSIONS_MAX)
        if collection.dimension is None:
            return []
        if len(query.embedding) != collection.dimension:
            raise make_dimension_error(collection, len(query.embedding))
        uses_index = collection.chunks > self._deps.exact_chunks_max
        async with self._deps.database.transaction() as tx:
            return await chunk_store.search_chunks(tx, collection.id, query, uses_index=uses_index)

    # --- sources ---

    async def list_sources(self, owner: Owner, name: str) -> list[CollectionSource]:
        async with self._deps.database.transaction() as tx:
            collection = await store.get_collection(tx, str(owner), name)
            return await store.list_sources(tx, collection.id)

    async def add_source(self, caller: Principal, name: str, url: str, interval_s: float) -> None:
        """Add an address that is read now and again every `interval_s`. Adding it again changes its interval."""
        if not policy.SOURCE_INTERVAL_MIN_S <= interval_s <= policy.SOURCE_INTERVAL_MAX_S:
            raise InvalidRequest(
                "The interval of a source is out of range.", hint="1 minute to 31 days.", code="bad_interval"
            )
        await self.require_tables()
        async with self._deps.database.transaction() as tx:
            collection = await store.get_collection(tx, str(caller.owner), name)
            await store.lock_collection(tx, collection.id)
            known = await store.list_sources(tx, collection.id)
            previous = next((source for source in known if source.url == url), None)
            if previous is None and len(known) >= SOURCES_MAX:
                raise LimitReached(f"A collection has at most {SOURCES_MAX} sources.", code="too_many_sources")
            new = NewSource(
                id=previous.id if previous else self._deps.ids.new_id(),
                collection_id=collection.id,
                url=url,
                interval_s=interval_s,
                key_id=caller.key_id,
                owner_name=caller.name,
            )
            await store.put_source(tx, new)
        self.wake_reader()

    async def delete_source(self, owner: Owner, name: str, url: str) -> None:
        """Delete a source with the entry that was made of it."""
        async with self._deps.database.transaction() as tx:
            collection = await store.get_collection(tx, str(owner), name)
            source = await store.find_source(tx, collection.id, url)
            if source is None:
                raise NotFound("The collection has no such source.", code="source_not_found")
            entry = await store.find_entry_of_source(tx, source.id)
            cancelled = await self._delete_entry(tx, entry) if entry else []
            await store.delete_source(tx, source.id)
        await self._deps.runs.announce_cancelled(cancelled)


async def _require_language(tx: Transaction, name: str) -> None:
    policy.check_language_name(name)
    if name != AUTO_LANGUAGE and not await chunk_store.has_language(tx, name):
        known = ", ".join(await chunk_store.list_languages(tx))
        raise InvalidRequest(
            f"PostgreSQL has no text search configuration {name!r}.", hint=f"One of: auto, {known}", code="bad_language"
        )


def make_dimension_error(collection: Collection, dimension: int) -> Conflict:
    return Conflict(
        f"The embedding model {collection.embedding_model} has changed: its embeddings have {dimension} numbers, and "
        f"those of the collection {collection.name} have {collection.dimension}.",
        hint=f"Load the earlier model, or delete all entries: corral collections reset {collection.name}",
        code="embedding_dimension_changed",
        details={"expected": collection.dimension, "found": dimension},
    )


def decode_embedding(text: str) -> tuple[float, ...]:
    """Return the numbers of an embedding in base64, as 32-bit little-endian floats, which is OpenAI's form."""
    try:
        data = base64.b64decode(text, validate=True)
        return struct.unpack(f"<{len(data) // 4}f", data)
    except (ValueError, struct.error) as error:
        raise InvalidRequest("An embedding is not valid base64 of 32-bit floats.", code="bad_embedding") from error


async def _limit_bytes(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    size_bytes = 0
    async for piece in pieces:
        size_bytes += len(piece)
        if size_bytes > policy.ENTRY_BYTES_MAX:
            raise TooLarge(
                f"A document has at most {policy.ENTRY_BYTES_MAX // 1024**2} MiB.",
                hint="Divide it into several files.",
                code="document_too_large",
            )
        yield piece
