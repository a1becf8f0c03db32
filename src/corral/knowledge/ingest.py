"""Runs that read documents: what their workers get and deliver, and what follows from their end.

Guarantees: only the worker that holds the run reads the file and stores chunks, and only while its entry is to be read
by that run. Chunks are numbered; a delivery that is repeated, by this worker or the next, stores each once. Searches
find either the text of before or the new one: an entry becomes ready in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corral.domain.collection import AUTO_LANGUAGE, Collection, CollectionEntry, EntryState
from corral.domain.errors import Conflict, NotFound, Unprocessable
from corral.domain.node import NodeId
from corral.domain.run import Run, RunKind, RunState
from corral.domain.state_words import say_run_state
from corral.knowledge.service import make_dimension_error
from corral.knowledge.vector_tables import VectorTables
from corral.policy import documents as policy
from corral.runs.artifacts import ArtifactService
from corral.runs.held_runs import lock_held, require_held
from corral.runs.pool import RunEnding
from corral.store import chunks as chunk_store
from corral.store import collections as store
from corral.store import runs as run_store
from corral.store.chunks import ChunkTarget, NewChunk
from corral.store.database import Database, Transaction

# How many bytes of the file a worker reads at a time.
SLICE_BYTES_MAX = 1024**2
# Of one delivery; the worker embeds as many at a time.
CHUNKS_PER_DELIVERY = 64
# A chunk may be a little longer than its limit, which counts characters and not bytes.
CONTENT_CHARS_MAX = policy.CHUNK_SIZE_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkDelivery:
    """Chunks of a document that a worker delivers, from a number on; with `total` they are the last ones."""

    first: int
    contents: Sequence[str]
    embeddings: Sequence[tuple[float, ...]]
    total: int | None = None


class IngestService:
    """Serves the workers that read documents of collections. Implements `RunKindHandler`."""

    def __init__(self, database: Database, artifacts: ArtifactService, tables: VectorTables) -> None:
        self._database = database
        self._artifacts = artifacts
        self._tables = tables

    async def build_spec(self, tx: Transaction, run: Run) -> dict[str, Any]:
        collection, entry = await _require_entry(tx, run)
        await store.update_entry(tx, entry.id, {"state": EntryState.READING, "message": ""})
        return {
            "model": collection.embedding_model,
            "extra": {
                "name": entry.name,
                "media_type": entry.media_type,
                "size_bytes": entry.size_bytes,
                "chunk_size": collection.chunk_size,
                "chunk_overlap": collection.chunk_overlap,
                "next_chunk": await chunk_store.count_chunks(tx, entry.id, entry.version),
                "slice_bytes": SLICE_BYTES_MAX,
                "chunks_per_delivery": CHUNKS_PER_DELIVERY,
            },
        }

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None:
        entry = await store.find_entry_of_run(tx, ending.run.id, locks=True)
        if entry is None or entry.state in (EntryState.READY, EntryState.FAILED):
            return
        text = ending.fault.text if ending.fault else say_run_state("The run that reads it", ending.state)
        if ending.state is RunState.COMPLETED:
            text = "The worker has delivered no text."
        await store.update_entry(tx, entry.id, {"state": EntryState.FAILED, "message": text[: store.MESSAGE_MAX]})

    async def read_file(self, node_id: NodeId, run_id: str, job_id: str, start_byte: int, limit: int) -> bytes:
        """Return bytes of the document to the worker that holds the run."""
        async with self._database.transaction() as tx:
            found = await run_store.find_run(tx, run_id, reads_request=False)
            run = require_held(found, node_id, job_id, kind=RunKind.INGEST)
            _, entry = await _require_entry(tx, run)
        return await self._artifacts.read_range(entry.artifact_id or "", start_byte, min(limit, SLICE_BYTES_MAX))

    async def store_chunks(self, node_id: NodeId, run_id: str, job_id: str, delivery: ChunkDelivery) -> int:
        """Store chunks and return how many the document has so far. With the last ones the entry becomes ready."""
        dimension = _check_delivery(delivery)
        if dimension:
            await self._tables.require_index(dimension)
        async with self._database.transaction() as tx:
            run = await lock_held(tx, run_id, node_id, job_id, kind=RunKind.INGEST)
            found, _ = await _require_entry(tx, run)
            collection = await store.lock_collection(tx, found.id)
            assert collection is not None, "its entry was just read"
            _, entry = await _require_entry(tx, run)
            await self._check_dimension(tx, collection, dimension)
            stored = await chunk_store.count_chunks(tx, entry.id, entry.version)
            if delivery.first > stored:
                raise Conflict(f"Chunk {stored} is missing before these.", code="chunk_missing")
            language = await _find_language(tx, collection, entry, delivery)
            target = ChunkTarget(
                collection_id=collection.id, entry_id=entry.id, version=entry.version, language=language
            )
            await chunk_store.insert_chunks(tx, target, _make_chunks(delivery))
            stored = await chunk_store.count_chunks(tx, entry.id, entry.version)
            if delivery.total is not None:
                await self._complete(tx, target, stored, delivery.total)
        return stored

    async def _check_dimension(self, tx: Transaction, collection: Collection, dimension: int) -> None:
        if not dimension:
            return
        if collection.dimension is None:
            await store.set_dimension(tx, collection.id, dimension)
        elif collection.dimension != dimension:
            raise make_dimension_error(collection, dimension)

    async def _complete(self, tx: Transaction, target: ChunkTarget, stored: int, total: int) -> None:
        if stored != total:
            raise Conflict(f"{stored} of {total} chunks are stored.", code="chunk_missing")
        await chunk_store.delete_other_versions(tx, target.entry_id, target.version)
        values = {
            "state": EntryState.READY,
            "message": "",
            "ready_version": target.version,
            "language": target.language,
            "chunks": total,
        }
        await store.update_entry(tx, target.entry_id, values)


async def _find_language(
    tx: Transaction, collection: Collection, entry: CollectionEntry, delivery: ChunkDelivery
) -> str:
    """Return the text search configuration of a document: that of its collection, else that of its first chunks."""
    if collection.language != AUTO_LANGUAGE:
        return collection.language
    known = await chunk_store.read_language(tx, entry.id, entry.version)
    return known or await chunk_store.find_language(tx, policy.make_sample(delivery.contents))


async def _require_entry(tx: Transaction, run: Run) -> tuple[Collection, CollectionEntry]:
    """Return the entry that a run is to read, with its collection. Raises if it was deleted or replaced."""
    entry = await store.find_entry_of_run(tx, run.id)
    if entry is None or entry.artifact_id is None:
        raise NotFound("The document of this run was deleted or replaced.", code="entry_not_found")
    collection = await store.find_collection_by_id(tx, entry.collection_id)
    assert collection is not None, "an entry goes with its collection"
    return collection, entry


def _check_delivery(delivery: ChunkDelivery) -> int:
    """Return the length of the embeddings, 0 without any. Raises `Unprocessable` for what cannot be stored."""
    lengths = {len(embedding) for embedding in delivery.embeddings}
    is_whole = len(delivery.contents) == len(delivery.embeddings) <= CHUNKS_PER_DELIVERY and len(lengths) <= 1
    if not is_whole or any(len(content) > CONTENT_CHARS_MAX for content in delivery.contents):
        raise Unprocessable("The chunks do not fit to each other, or are too many.", code="bad_chunks")
    if delivery.first + len(delivery.contents) > policy.CHUNKS_MAX:
        raise Unprocessable(
            f"A document has at most {policy.CHUNKS_MAX} chunks.",
            hint="Divide it, or make larger chunks.",
            code="document_too_large",
        )
    for embedding in delivery.embeddings:
        policy.check_embedding(embedding, chunk_store.DIMENSIONS_MAX)
    return lengths.pop() if lengths else 0


def _make_chunks(delivery: ChunkDelivery) -> list[NewChunk]:
    pieces = zip(delivery.contents, delivery.embeddings, strict=True)
    return [
        NewChunk(number=delivery.first + index, content=content, embedding=embedding)
        for index, (content, embedding) in enumerate(pieces)
    ]
