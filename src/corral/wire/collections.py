"""Bodies about collections of documents. Names of fields are LocalAI's where they mean the same here."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from corral.domain.collection import AUTO_LANGUAGE, CHUNK_OVERLAP, CHUNK_SIZE, SEARCH_RESULTS
from corral.wire.base import LenientModel, StrictModel

_Name = Annotated[str, StringConstraints(max_length=255)]
_Url = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class CollectionIn(StrictModel):
    """Body of `POST /api/agents/collections`: the collection to create."""

    name: _Name = Field(examples=["manuals"])
    embedding_model: _Name = Field(
        default="", description="Empty: the setting `embedding_model`, else the only model that serves embeddings."
    )
    chunk_size: int = Field(default=CHUNK_SIZE, description="Characters of one chunk: 50 to 8,000.")
    chunk_overlap: int = Field(default=CHUNK_OVERLAP, description="Characters that a chunk repeats of the one before.")
    language: _Name = Field(
        default=AUTO_LANGUAGE,
        description="By which words are searched for: auto (that of each document), simple (whole words), or a text "
        "search configuration of PostgreSQL such as english or german.",
    )


class CollectionOut(LenientModel):
    """A collection of documents: how its text is cut and embedded, and how much is in it."""

    name: str
    owner: str = Field(default="", description="user:… or key:…")
    embedding_model: str
    dimension: int | None = Field(default=None, description="The length of the embeddings, once there are some.")
    chunk_size: int
    chunk_overlap: int
    language: str = AUTO_LANGUAGE
    entries: int
    chunks: int
    created_at: datetime


class CollectionListOut(LenientModel):
    """Response of `GET /api/agents/collections`: your collections; `collections` are the names alone, for LocalAI."""

    items: list[CollectionOut]
    collections: list[str]
    count: int


class CollectionEntryOut(LenientModel):
    """One document of a collection, and how far it has been read."""

    name: str
    state: str = Field(description="queued, reading, ready or failed.")
    message: str = Field(default="", description="Why it failed, or what it waits for.")
    size_bytes: int
    chunks: int
    language: str = Field(default="", description="The language that its words are searched for in, once it is read.")
    run_id: str | None = Field(default=None, description="The run that reads it.")
    is_source: bool = Field(default=False, description="Whether it is kept up to date with a source.")
    updated_at: datetime


class CollectionUploadOut(LenientModel):
    """Response of an upload to a collection: the entry, which a worker reads next."""

    status: str = "ok"
    filename: str
    entry: CollectionEntryOut


class EntryListOut(LenientModel):
    """Response with the entries of a collection, by name; `entries` are the names alone, for LocalAI."""

    items: list[CollectionEntryOut]
    entries: list[str]
    count: int
    has_more: bool = False


class EntryContentOut(LenientModel):
    """Response with the text of a collection's entry, as its chunks and in one piece."""

    entry: CollectionEntryOut
    chunks: list[str]
    content: str
    chunk_count: int


class EntryRefIn(StrictModel):
    """Body that names an entry of a collection."""

    entry: _Name


class CollectionSearchIn(StrictModel):
    """Body of `POST /api/agents/collections/{name}/search`: what to search for, and how many results."""

    query: Annotated[str, StringConstraints(min_length=1, max_length=8000)]
    max_results: Annotated[int, Field(ge=1, le=50)] = SEARCH_RESULTS


class FoundChunkOut(LenientModel):
    """One result of a search in a collection."""

    id: str
    content: str
    similarity: float = Field(description="The cosine between the embeddings of query and text.")
    score: float = Field(description="The sum of the reciprocal ranks by meaning and by words: orders the results.")
    metadata: dict[str, str] = Field(description="file_name, source (an address), chunk (its number).")


class CollectionSearchOut(LenientModel):
    """Response of a search in a collection, best results first."""

    results: list[FoundChunkOut]
    count: int


class CollectionSourceIn(StrictModel):
    """Body that adds a source to a collection."""

    url: _Url = Field(examples=["https://example.com/manual.html"])
    update_interval: float | Annotated[str, StringConstraints(max_length=20)] = Field(
        default=60.0, description="Minutes, or a duration such as 1d."
    )


class CollectionSourceRefIn(StrictModel):
    """Body that names a source of a collection."""

    url: _Url


class CollectionSourceOut(LenientModel):
    """An address that a collection is kept up to date with."""

    url: str
    update_interval: float = Field(description="Minutes.")
    last_update: datetime | None = None
    next_update: datetime | None = None
    problem: str = Field(default="", description="Why it could not be read the last time.")


class CollectionSourceListOut(LenientModel):
    """Response with the sources of a collection."""

    sources: list[CollectionSourceOut]
    count: int


# --- between frontends and workers ---


class DocumentSliceOut(LenientModel):
    """Bytes of a document, in base64, for the worker that reads it."""

    content: str


class DocumentChunksIn(LenientModel):
    """Body with which a worker delivers chunks of a document. With `total` they are the last ones."""

    boot_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    # Not required, so that a caller without a credential is refused before its body is judged.
    job_id: Annotated[str, StringConstraints(max_length=64)] = ""
    first: Annotated[int, Field(ge=0, le=10**6)] = 0
    contents: Annotated[list[str], Field(max_length=1000)] = Field(default_factory=list)
    # Each in base64: 32-bit floats.
    embeddings: Annotated[list[str], Field(max_length=1000)] = Field(default_factory=list)
    total: Annotated[int, Field(ge=0, le=10**6)] | None = None


class DocumentChunksOut(LenientModel):
    """Response to a worker that delivered chunks: how many the document has so far."""

    stored: int


class RunSearchIn(LenientModel):
    """Body with which the worker of a turn searches the collection of its agent."""

    boot_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    job_id: Annotated[str, StringConstraints(max_length=64)] = ""
    query: Annotated[str, StringConstraints(max_length=8000)] = ""
    # In base64: 32-bit floats.
    embedding: Annotated[str, StringConstraints(max_length=100_000)] = ""


class RunSearchOut(LenientModel):
    """Response to the search of a turn: results with their files."""

    results: list[dict[str, Any]] = Field(default_factory=list)


class RunMemoryIn(LenientModel):
    """Body with which the worker of a turn stores what the agent wants to remember."""

    boot_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    job_id: Annotated[str, StringConstraints(max_length=64)] = ""
    call_id: Annotated[str, StringConstraints(max_length=64)] = ""
    text: Annotated[str, StringConstraints(max_length=200_000)] = ""


class RunMemoryOut(LenientModel):
    """Response to a memory that was stored: the name of its entry."""

    entry: str
