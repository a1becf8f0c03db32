"""Reads sources that are due, and starts runs for entries that no run reads yet. Runs on the leader.

Guarantees: a source is claimed under its row's lock for long enough to fetch it, so a frontend that is killed delays it
and nothing else. A document that has not changed is not read again. Addresses lead to the open internet only, unless
the operator allows others. What one source or entry needs and does not get holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

import structlog

from corral.domain.access import Owner, parse_owner
from corral.domain.artifact import Artifact, ArtifactKind
from corral.domain.collection import CollectionEntry, CollectionSource, EntryState
from corral.domain.errors import CorralError, LeaseLost, NotFound, StoreUnavailable, Unavailable
from corral.knowledge.service import CollectionService
from corral.policy import documents as policy
from corral.ports.files import Fetcher, FetchRequest
from corral.ports.runtime import IdGenerator
from corral.reconcile.leader import LeaderElector
from corral.runs.artifacts import ArtifactService, UploadDescription
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import artifacts as artifact_store
from corral.store import collections as store
from corral.store.collections import NewEntry
from corral.store.database import Database, Transaction

log = structlog.get_logger(__name__)
INTERVAL_S = 10.0
FETCH_TIMEOUT_S = 60.0
# A page that is larger is no page; each is held in memory while it is fetched.
SOURCE_BYTES_MAX = 16 * 1024**2
# Sources that are fetched at the same time.
FETCHES_MAX = 4
# Sources of one pass; the next one goes on with the others.
SOURCES_PER_PASS = 40
# Longer than a fetch takes: only a source whose frontend was killed is claimed again.
_CLAIM_S = 300.0
# A source that could not be read is tried again this soon, or at its interval if that is sooner.
_RETRY_S = 900.0
STARTED_PER_PASS = 100
_ABANDONED = "The run that was to read it was cancelled. Upload the document again."


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReaderDeps:
    """Dependencies of the loop that reads sources of collections."""

    database: Database
    ids: IdGenerator
    leader: LeaderElector
    fetcher: Fetcher
    artifacts: ArtifactService
    collections: CollectionService
    # Whether sources may be in private networks.
    allows_private: bool = False


class SourceReader:
    """Fetches sources of collections when they are due, and has new documents read by workers."""

    def __init__(self, deps: SourceReaderDeps) -> None:
        self._deps = deps

    async def tick(self) -> int:
        """Read what is due, and return how many sources and entries were looked at."""
        # As values: a group would wrap the errors, which say whether PostgreSQL or the lead is lost.
        async with asyncio.TaskGroup() as group:
            lanes = [group.create_task(attempt(self._read_sources)) for _ in range(FETCHES_MAX)]
        looked_at = 0
        for outcome in (lane.result() for lane in lanes):
            if isinstance(outcome, AttemptFailure):
                raise outcome.error
            looked_at += outcome.value
        return looked_at + await self._start_waiting()

    async def _read_sources(self) -> int:
        for count in range(SOURCES_PER_PASS // FETCHES_MAX):
            async with self._deps.database.transaction() as tx:
                await self._deps.leader.fence(tx)
                claimed = await store.claim_due_source(tx, _CLAIM_S)
            if claimed is None:
                return count
            await self._read_guarded(*claimed)
        return SOURCES_PER_PASS // FETCHES_MAX

    async def _read_guarded(self, source: CollectionSource, owner: str) -> None:
        outcome = await attempt(partial(self._read, source, parse_owner(owner)))
        problem, next_s = "", source.interval_s
        if isinstance(outcome, AttemptFailure):
            if isinstance(outcome.error, StoreUnavailable | LeaseLost):
                raise outcome.error
            problem, next_s = outcome.sentence, min(source.interval_s, _RETRY_S)
            log.info("a source could not be read", source=source.id, problem=problem)
        async with self._deps.database.transaction() as tx:
            await store.record_source_read(tx, source.id, next_s, problem)

    async def _read(self, source: CollectionSource, owner: Owner) -> None:
        request = FetchRequest(
            url=source.url,
            limit_bytes=SOURCE_BYTES_MAX,
            timeout_s=FETCH_TIMEOUT_S,
            is_public_only=not self._deps.allows_private,
        )
        response = await self._deps.fetcher.fetch(request)
        if response.status != HTTPStatus.OK:
            raise Unavailable(f"The source answers with {response.status}.", code="source_unavailable")
        media_type = response.headers.get("content-type", "")[:100]
        name = policy.make_entry_name(source.url, media_type)
        policy.require_document_kind(name, media_type)
        description = UploadDescription(name=name, media_type=media_type, purpose="")
        artifact = await self._deps.artifacts.receive(
            owner, _iter_once(response.body), description, kind=ArtifactKind.COLLECTION
        )
        await self._store(source, artifact)

    async def _store(self, source: CollectionSource, artifact: Artifact) -> None:
        async with self._deps.database.transaction() as tx:
            collection = await store.find_collection_by_id(tx, source.collection_id)
            if collection is None or await store.find_source(tx, source.collection_id, source.url) is None:
                await artifact_store.delete_artifact(tx, artifact.id)
                return
            entry = await store.find_entry_of_source(tx, source.id)
            if entry is not None and entry.sha256 == artifact.sha256 and entry.state is not EntryState.FAILED:
                await artifact_store.delete_artifact(tx, artifact.id)
                return
            new = NewEntry(
                id=self._deps.ids.new_id(),
                collection_id=collection.id,
                name=entry.name if entry else await _find_free_name(tx, source, artifact.name),
                media_type=artifact.media_type,
                size_bytes=artifact.size_bytes,
                sha256=artifact.sha256,
                artifact_id=artifact.id,
                key_id=source.key_id,
                owner_name=source.owner_name,
                source_id=source.id,
            )
            await self._deps.collections.put_entry(tx, collection, new)

    # --- entries without a run ---

    async def _start_waiting(self) -> int:
        async with self._deps.database.transaction() as tx:
            await self._deps.leader.fence(tx)
            await store.fail_abandoned(tx, _ABANDONED)
            waiting = await store.list_waiting(tx, STARTED_PER_PASS)
        for entry in waiting:
            outcome = await attempt(partial(self._start, entry))
            if isinstance(outcome, AttemptFailure):
                if not isinstance(outcome.error, CorralError) or isinstance(
                    outcome.error, StoreUnavailable | LeaseLost
                ):
                    raise outcome.error
                await self._note(entry, outcome.error)
        return len(waiting)

    async def _start(self, entry: CollectionEntry) -> None:
        # A memory may be the first entry of all.
        await self._deps.collections.require_tables()
        async with self._deps.database.transaction() as tx:
            await self._deps.leader.fence(tx)
            collection = await store.find_collection_by_id(tx, entry.collection_id)
            found = collection and await store.find_entry(tx, entry.collection_id, entry.name, locks=True)
            if collection and found and found.run_id is None and found.state is EntryState.QUEUED:
                await self._deps.collections.start_reading(tx, collection, found)

    async def _note(self, entry: CollectionEntry, error: CorralError) -> None:
        """Say in the entry why it waits; one that no run can ever read has failed."""
        values: dict[str, object] = {"message": error.message[: store.MESSAGE_MAX]}
        if isinstance(error, NotFound):
            values["state"] = EntryState.FAILED
        async with self._deps.database.transaction() as tx:
            await store.update_entry(tx, entry.id, values)


async def _find_free_name(tx: Transaction, source: CollectionSource, name: str) -> str:
    """Return the name of the entry of a source. If it is that of another source, whose address differs in its query or
    scheme, or of an upload, a part of the address's hash is put behind it."""
    if await store.find_entry(tx, source.collection_id, name) is None:
        return name
    return policy.make_distinct_name(name, source.url)


async def _iter_once(content: bytes) -> AsyncIterator[bytes]:
    yield content
