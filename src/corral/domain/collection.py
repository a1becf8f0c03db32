"""Collections: documents of a person, cut into chunks that are found by meaning and by words.

collection      a name, an embedding model and an owner
entry           one document of it: an upload, a web page, or what an agent remembers
chunk           a piece of an entry's text with its embedding
source          the address of a web page or a file that is read again every so often
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

# The language of a collection whose documents have one each, which PostgreSQL's lists of stop words find.
AUTO_LANGUAGE = "auto"
# LocalAI's defaults, in characters.
CHUNK_SIZE = 400
CHUNK_OVERLAP = 0
SOURCE_INTERVAL_S = 3600.0
SEARCH_RESULTS = 5
# Names of entries that agents have added begin with it.
MEMORY_PREFIX = "memory/"


class EntryState(StrEnum):
    """Names the state of an entry of a collection, from its upload until its text can be found."""

    QUEUED = "queued"  # waits until a worker reads it
    READING = "reading"
    READY = "ready"
    FAILED = "failed"  # the message says why


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Describes a collection as stored in PostgreSQL: whose it is, and how its text is cut and embedded."""

    id: str
    # `user:<id>` or `key:<id>`.
    owner: str
    name: str
    embedding_model: str
    # The length of the embeddings; None until the first chunk is stored.
    dimension: int | None
    chunk_size: int
    chunk_overlap: int
    # A text search configuration of PostgreSQL, or `AUTO_LANGUAGE`: each document has its own.
    language: str
    entries: int
    chunks: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionEntry:
    """Describes one document of a collection, and how far it has been read."""

    id: str
    collection_id: str
    name: str
    media_type: str
    size_bytes: int
    sha256: str
    # The file as it was uploaded; None if its owner has deleted it.
    artifact_id: str | None
    source_id: str | None
    state: EntryState
    message: str
    # Grows with each time that it is read; `ready_version` is the one that searches find, None before the first.
    version: int
    ready_version: int | None
    # The text search configuration of `ready_version`; empty before the first.
    language: str
    chunks: int
    # The run that reads it or has read it; None: none was started yet.
    run_id: str | None
    # Whose models and limits count while it is read.
    key_id: str
    owner_name: str
    created_at: datetime
    updated_at: datetime
    # Whether an agent has remembered it; then it has a retention.
    is_memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionSource:
    """Describes an address of which a collection keeps the newest text."""

    id: str
    collection_id: str
    url: str
    interval_s: float
    next_read_at: datetime
    last_read_at: datetime | None
    # Why it could not be read the last time; empty if it could.
    problem: str
    key_id: str
    owner_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundChunk:
    """A chunk that a search has found. `similarity` is the cosine of the angle between it and the query."""

    entry_id: str
    entry_name: str
    number: int
    text: str
    similarity: float
    # The sum of the reciprocal ranks in both searches: the order of the results.
    score: float
    source_url: str = ""

    @property
    def id(self) -> str:
        return f"{self.entry_id}:{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """A search in a collection: the words, their embedding, and how many results it returns."""

    text: str
    embedding: tuple[float, ...] = field(repr=False)
    results: int = SEARCH_RESULTS
