"""The flows about collections as one value, for the routes."""

from __future__ import annotations

from dataclasses import dataclass

from corral.domain.run import RunKind
from corral.knowledge.agent_memory import AgentMemory
from corral.knowledge.ingest import IngestService
from corral.knowledge.reader import SourceReader, SourceReaderDeps
from corral.knowledge.service import CollectionService, CollectionServiceDeps
from corral.knowledge.vector_tables import VectorTables
from corral.ports.files import Fetcher
from corral.reconcile.leader import LeaderElector


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeFlows:
    """Bundles the services of a frontend for collections of documents, for the API routes."""

    tables: VectorTables
    collections: CollectionService
    ingest: IngestService
    memory: AgentMemory
    reader: SourceReader


def make_knowledge_flows(
    deps: CollectionServiceDeps, leader: LeaderElector, fetcher: Fetcher, *, allows_private: bool
) -> KnowledgeFlows:
    """Make the services about collections, and register the handler of their kind of runs."""
    collections = CollectionService(deps)
    ingest = IngestService(deps.database, deps.artifacts, deps.tables)
    deps.runs.add_kind(RunKind.INGEST, ingest)
    reader = SourceReader(
        SourceReaderDeps(
            database=deps.database,
            ids=deps.ids,
            leader=leader,
            fetcher=fetcher,
            artifacts=deps.artifacts,
            collections=collections,
            allows_private=allows_private,
        )
    )
    return KnowledgeFlows(
        tables=deps.tables,
        collections=collections,
        ingest=ingest,
        memory=AgentMemory(collections, deps.artifacts, deps.ids),
        reader=reader,
    )
