"""What agents know and remember: the collection of the run's owner that an agent searches and adds to.

Guarantees: a run searches a collection of its own owner and no other, also if the agent is that of
another owner. What a turn leaves behind
is stored in the transaction that ends it; a memory that cannot be stored never keeps a turn from ending. The same
tool call is remembered once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from corral.domain.access import Owner, parse_owner
from corral.domain.agent import AgentConfig
from corral.domain.artifact import ArtifactKind
from corral.domain.collection import MEMORY_PREFIX, Collection, FoundChunk, SearchQuery
from corral.domain.errors import CorralError, NotFound, Unprocessable
from corral.domain.run import Run
from corral.knowledge.service import CollectionService, CollectionSpec
from corral.policy import documents as policy
from corral.policy.artifacts import make_name_part
from corral.ports.runtime import IdGenerator
from corral.runs.artifacts import ArtifactService
from corral.store import artifacts as artifact_store
from corral.store import collections as store
from corral.store.artifacts import CompletedContent, NewArtifact
from corral.store.collections import NewEntry
from corral.store.database import Transaction

log = structlog.get_logger(__name__)


# A worker sends a memory as a list of two texts.
MEMORY_FIELDS = 2
# Of one turn: the message and the answer.
MEMORIES_MAX = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One text that is remembered of a turn; `part` says which part of it."""

    part: str
    text: str


class AgentMemory:
    """Gives turns of LLM agents the collection of their run's owner, and stores what they remember."""

    def __init__(self, collections: CollectionService, artifacts: ArtifactService, ids: IdGenerator) -> None:
        self._collections = collections
        self._artifacts = artifacts
        self._ids = ids

    async def describe(self, tx: Transaction, run: Run, agent_name: str, config: AgentConfig) -> dict[str, Any]:
        """Return what a worker gets about the knowledge of a turn; empty if the agent has none."""
        if not config.enables_kb and not config.remembers:
            return {}
        name = config.collection or agent_name
        memory = {"memory_mode": config.memory_mode} if config.remembers else {}
        if not config.enables_kb:
            return memory
        collection = await store.find_collection(tx, run.owner, name)
        if collection is None:
            return memory | {"problem": f"The owner of this run has no collection {name}."}
        return memory | {
            "collection": collection.name,
            "embedding_model": collection.embedding_model,
            "searches": config.kb_mode in ("auto_search", "both"),
            "has_tools": config.kb_mode in ("tools", "both"),
            "results": config.kb_results,
        }

    async def find(self, tx: Transaction, run: Run, agent_name: str, config: AgentConfig) -> Collection:
        """Return the collection that a run searches. Raises `NotFound` if its owner has none of the name."""
        if not config.enables_kb:
            raise NotFound("The agent of this run has no collection.", code="collection_not_found")
        return await store.get_collection(tx, run.owner, config.collection or agent_name)

    async def search(self, collection: Collection, query: SearchQuery) -> list[FoundChunk]:
        return await self._collections.search(collection, query)

    async def add(self, tx: Transaction, run: Run, collection: Collection, call_id: str, text: str) -> str:
        """Store what an agent wants to remember, and return the name of its entry. The same call is stored once."""
        if not text.strip():
            raise Unprocessable("The text is empty.", code="empty_memory")
        part = hashlib.sha256(call_id.encode()).hexdigest()[:8]
        return await self._put(tx, run, collection, part, text[: policy.MEMORY_CHARS_MAX])

    async def keep_turn(
        self, tx: Transaction, run: Run, agent_name: str, config: AgentConfig, memories: Sequence[Memory]
    ) -> None:
        """Store what the agent remembers of a turn that has completed."""
        try:
            collection = await self._find_or_create(tx, run, config.collection or agent_name)
            for memory in memories[:MEMORIES_MAX]:
                text = policy.strip_sources(memory.text)[: policy.MEMORY_CHARS_MAX]
                await self._put(tx, run, collection, make_name_part(memory.part, "turn"), text)
        except CorralError as error:
            log.warning("a turn was not remembered", run=run.id, problem=error.message)

    async def _find_or_create(self, tx: Transaction, run: Run, name: str) -> Collection:
        found = await store.find_collection(tx, run.owner, name)
        if found is not None:
            return found
        spec, owner = CollectionSpec(name=name), parse_owner(run.owner)
        return await self._collections.create(tx, owner, spec, actor=run.owner_name)

    async def _put(self, tx: Transaction, run: Run, collection: Collection, part: str, text: str) -> str:
        name = f"{MEMORY_PREFIX}{run.id}-{part}.md"
        if await store.find_entry(tx, collection.id, name) is not None:
            return name
        artifact_id = await self._store_text(tx, parse_owner(run.owner), name, text.encode())
        artifact = await artifact_store.get_artifact(tx, artifact_id)
        new = NewEntry(
            id=self._ids.new_id(),
            collection_id=collection.id,
            name=name,
            media_type=artifact.media_type,
            size_bytes=artifact.size_bytes,
            sha256=artifact.sha256,
            artifact_id=artifact.id,
            key_id=run.key_id,
            owner_name=run.owner_name,
            is_memory=True,
        )
        await self._collections.put_entry(tx, collection, new)
        # The run that reads it is started by a loop: a turn must end also where no worker could take that run.
        tx.on_commit(self._collections.wake_reader)
        return name

    async def _store_text(self, tx: Transaction, owner: Owner, name: str, content: bytes) -> str:
        artifact_id = self._ids.new_id()
        new = NewArtifact(
            id=artifact_id, owner=owner, kind=ArtifactKind.COLLECTION, name=name, media_type="text/markdown"
        )
        await self._artifacts.begin(tx, new)
        await self._artifacts.append(tx, str(owner), artifact_id, content)
        digest = hashlib.sha256(content).hexdigest()
        await artifact_store.complete_artifact(tx, artifact_id, CompletedContent(sha256=digest))
        return artifact_id
