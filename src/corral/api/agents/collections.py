"""`/api/agents/collections`: the caller's collections of documents (LocalAI-compatible).

Uploads are stored as they arrive and read by a worker; the query of a search is embedded by the collection's model, in
the name of the caller. A collection of another owner does not exist for the caller.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from corral.api.agents.collection_actor import ActorIn, CollectionActor
from corral.api.agents.query_embedder import embed_query
from corral.api.deps import ApiDeps, DepsIn
from corral.api.dialects.uploads import UploadReceiver
from corral.api.downloads import FILE_RESPONSES, make_download
from corral.api.errors import get_request_id
from corral.api.idempotency import create_once
from corral.api.intervals import parse_interval_s
from corral.api.openai.file_form import FileFormReader, parse_boundary
from corral.backends.sources import refuse_private
from corral.domain.access import Principal
from corral.domain.collection import SEARCH_RESULTS, Collection, CollectionEntry, FoundChunk, SearchQuery
from corral.domain.errors import InvalidRequest, NotAllowed
from corral.gateway.request.request_builder import make_model_filter
from corral.knowledge.service import CollectionSpec
from corral.policy import documents as policy
from corral.policy.tasks import check_address
from corral.runs.artifacts import UploadDescription
from corral.store.database import Transaction
from corral.wire.collections import (
    CollectionEntryOut,
    CollectionIn,
    CollectionListOut,
    CollectionOut,
    CollectionSearchIn,
    CollectionSearchOut,
    CollectionSourceIn,
    CollectionSourceListOut,
    CollectionSourceOut,
    CollectionSourceRefIn,
    CollectionUploadOut,
    EntryContentOut,
    EntryListOut,
    EntryRefIn,
    FoundChunkOut,
)

router = APIRouter(prefix="/api/agents/collections", tags=["collections"])
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            }
        },
    }
}


def _require_person(caller: Principal) -> None:
    if caller.node_id is not None:
        raise NotAllowed(
            f"{caller.name} is a key of an agent node, and nodes own no collections.",
            hint="Use the key of a person or a program.",
        )


# --- collections ---


@router.get("")
async def list_collections(
    deps: DepsIn,
    actor: ActorIn,
    *,
    all_users: Annotated[bool, Query(description="For admins: those of all owners.")] = False,
) -> CollectionListOut:
    """List your collections by name: as `items`, and as names for LocalAI's page."""
    if all_users and not actor.caller.is_admin:
        raise NotAllowed("Only admins see the collections of other users.", hint="Leave all_users out.")
    found = await deps.knowledge.collections.list_collections(None if all_users else actor.owner)
    items = [_to_wire(one) for one in found]
    return CollectionListOut(items=items, collections=[one.name for one in items], count=len(items))


@router.post("", status_code=201, response_model=CollectionOut)
async def create_collection(request: Request, deps: DepsIn, actor: ActorIn, body: CollectionIn) -> Response:
    """Create a collection. Without an embedding model it has the one of the setting `embedding_model`, else the only
    model that serves embeddings."""
    _require_person(actor.caller)
    await deps.knowledge.collections.require_tables()
    spec = CollectionSpec(
        name=body.name,
        embedding_model=body.embedding_model,
        chunk_size=body.chunk_size,
        chunk_overlap=body.chunk_overlap,
        language=body.language,
    )
    if spec.embedding_model:
        await deps.gateway.router.resolve(spec.embedding_model, make_model_filter(actor.caller))

    async def work(tx: Transaction) -> CollectionOut:
        return _to_wire(await deps.knowledge.collections.create(tx, actor.owner, spec, actor=actor.caller.name))

    return await create_once(request, deps.database, actor.caller, work)


@router.get("/{name}")
async def show_collection(deps: DepsIn, actor: ActorIn, name: str) -> CollectionOut:
    """Show one of your collections."""
    return _to_wire(await deps.knowledge.collections.get(actor.owner, name))


@router.delete("/{name}", status_code=204)
async def delete_collection(deps: DepsIn, actor: ActorIn, name: str) -> None:
    """Delete a collection with its entries, their files and its sources."""
    await deps.knowledge.collections.delete(actor.owner, name, actor=actor.caller.name)


@router.post("/{name}/reset")
async def reset_collection(deps: DepsIn, actor: ActorIn, name: str) -> CollectionOut:
    """Delete all entries and sources of a collection. Its next document may have embeddings of another length."""
    return _to_wire(await deps.knowledge.collections.reset(actor.owner, name, actor=actor.caller.name))


# --- entries ---


@router.post("/{name}/upload", status_code=201, openapi_extra=_FORM)
async def upload_entry(request: Request, deps: DepsIn, actor: ActorIn, name: str) -> CollectionUploadOut:
    """Upload a document as `file` of a form: text, Markdown, HTML, PDF, DOCX, PPTX or XLSX, at most 64 MiB. A worker
    reads it; the entry says how far that is. A document of the same name is replaced once the new one is read."""
    _require_person(actor.caller)
    boundary = parse_boundary(request.headers.get("content-type", ""))
    form = FileFormReader(boundary, UploadReceiver(request.receive).iter_pieces())
    description = UploadDescription()
    async with aclosing(form.iter_file()) as pieces:
        receiver = _FormReceiver(form, description)
        entry = await deps.knowledge.collections.receive(actor.acting, name, receiver.iter_pieces(pieces), description)
    return CollectionUploadOut(filename=entry.name, entry=_entry_to_wire(entry))


class _FormReceiver:
    """Copies the name and the type of an uploaded file into its description when the form has ended."""

    def __init__(self, form: FileFormReader, description: UploadDescription) -> None:
        self._form = form
        self._description = description

    async def iter_pieces(self, pieces: Any) -> Any:
        async for piece in pieces:
            yield piece
        self._description.name = self._form.file_name
        self._description.media_type = self._form.media_type


@router.get("/{name}/entries")
async def list_entries(
    deps: DepsIn,
    actor: ActorIn,
    name: str,
    after: Annotated[str, Query(max_length=255, description="The name of the last entry of the page before.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> EntryListOut:
    """List the entries of a collection by name, with what is known of their reading."""
    found = await deps.knowledge.collections.list_entries(actor.owner, name, after=after, limit=limit + 1)
    items = [_entry_to_wire(entry) for entry in found[:limit]]
    return EntryListOut(
        items=items, entries=[entry.name for entry in items], count=len(items), has_more=len(found) > limit
    )


@router.get("/{name}/entries/{entry:path}")
async def read_entry(
    deps: DepsIn,
    actor: ActorIn,
    name: str,
    entry: str,
    start: Annotated[int, Query(ge=0, le=10**6, description="The number of the first chunk.")] = 0,
) -> EntryContentOut:
    """Show the text of an entry as its chunks, at most 1,000 from a number on."""
    found = await deps.knowledge.collections.read_entry(actor.owner, name, entry, start)
    return EntryContentOut(
        entry=_entry_to_wire(found.entry),
        chunks=list(found.chunks),
        content="\n\n".join(found.chunks),
        chunk_count=found.entry.chunks,
    )


@router.get("/{name}/entries-raw/{entry:path}", response_class=StreamingResponse, responses=FILE_RESPONSES)
async def download_entry(deps: DepsIn, actor: ActorIn, name: str, entry: str) -> StreamingResponse:
    """Download the file that an entry was made of."""
    artifact = await deps.knowledge.collections.get_raw_file(actor.owner, name, entry)
    return make_download(deps.artifacts.iter_content(artifact), artifact)


@router.delete("/{name}/entry/delete")
async def delete_entry(deps: DepsIn, actor: ActorIn, name: str, body: EntryRefIn) -> EntryListOut:
    """Delete an entry with its file, and list the others."""
    await deps.knowledge.collections.delete_entry(actor.owner, name, body.entry)
    return await list_entries(deps, actor, name, limit=1000)


# --- search ---


@router.post("/{name}/search")
async def search_collection(
    request: Request, deps: DepsIn, actor: ActorIn, name: str, body: CollectionSearchIn
) -> CollectionSearchOut:
    """Search a collection by meaning and by words. The query is embedded by the collection's model, which counts as
    your request. 409 if that model's embeddings have another length by now."""
    return await _search(deps, actor, name, body, get_request_id(request))


@router.get("/{name}/search")
async def query_collection(
    request: Request,
    deps: DepsIn,
    actor: ActorIn,
    name: str,
    query: Annotated[str, Query(max_length=2000, description="What to search for.")] = "",
    max_results: Annotated[int, Query(ge=1, le=50, description="How many results at most.")] = SEARCH_RESULTS,
) -> CollectionSearchOut:
    """Search a collection as with POST, for callers that only read."""
    if not query:
        raise InvalidRequest("query: the text is empty.", hint="Send a text.", code="empty_query")
    body = CollectionSearchIn(query=query, max_results=max_results)
    return await _search(deps, actor, name, body, get_request_id(request))


async def _search(
    deps: ApiDeps, actor: CollectionActor, name: str, body: CollectionSearchIn, request_id: str | None
) -> CollectionSearchOut:
    collection = await deps.knowledge.collections.get(actor.owner, name)
    await deps.knowledge.collections.require_tables()
    embedding = await embed_query(deps, actor.caller, collection.embedding_model, body.query, request_id)
    query = SearchQuery(text=body.query, embedding=embedding, results=body.max_results)
    found = await deps.knowledge.collections.search(collection, query)
    results = [_found_to_wire(collection, one) for one in found]
    return CollectionSearchOut(results=results, count=len(results))


# --- sources ---


@router.get("/{name}/sources")
async def list_sources(deps: DepsIn, actor: ActorIn, name: str) -> CollectionSourceListOut:
    """List the addresses that a collection is kept up to date with."""
    found = await deps.knowledge.collections.list_sources(actor.owner, name)
    sources = [
        CollectionSourceOut(
            url=source.url,
            update_interval=source.interval_s / 60,
            last_update=source.last_read_at,
            next_update=source.next_read_at,
            problem=source.problem,
        )
        for source in found
    ]
    return CollectionSourceListOut(sources=sources, count=len(sources))


@router.post("/{name}/sources", status_code=201)
async def add_source(deps: DepsIn, actor: ActorIn, name: str, body: CollectionSourceIn) -> CollectionSourceListOut:
    """Add an address that is read now, and again at its interval. Adding it again changes the interval."""
    _require_person(actor.caller)
    check_address(body.url)
    await _refuse_private(deps, body.url)
    interval_s = parse_interval_s("update_interval", body.update_interval)
    await deps.knowledge.collections.add_source(actor.acting, name, body.url, interval_s)
    return await list_sources(deps, actor, name)


@router.delete("/{name}/sources")
async def delete_source(
    deps: DepsIn, actor: ActorIn, name: str, body: CollectionSourceRefIn
) -> CollectionSourceListOut:
    """Delete a source with the entry that was made of it, and list the others."""
    await deps.knowledge.collections.delete_source(actor.owner, name, body.url)
    return await list_sources(deps, actor, name)


async def _refuse_private(deps: ApiDeps, url: str) -> None:
    if not deps.allows_private_sources:
        await refuse_private(url, deps.fetcher)


def _to_wire(collection: Collection) -> CollectionOut:
    return CollectionOut(
        name=collection.name,
        owner=collection.owner,
        embedding_model=collection.embedding_model,
        dimension=collection.dimension,
        chunk_size=collection.chunk_size,
        chunk_overlap=collection.chunk_overlap,
        language=collection.language,
        entries=collection.entries,
        chunks=collection.chunks,
        created_at=collection.created_at,
    )


def _entry_to_wire(entry: CollectionEntry) -> CollectionEntryOut:
    return CollectionEntryOut(
        name=entry.name,
        state=entry.state,
        message=entry.message,
        size_bytes=entry.size_bytes,
        chunks=entry.chunks,
        language=entry.language,
        run_id=entry.run_id,
        is_source=entry.source_id is not None,
        updated_at=entry.updated_at,
    )


def _found_to_wire(collection: Collection, found: FoundChunk) -> FoundChunkOut:
    address = policy.make_raw_address(collection.name, found.entry_name)
    return FoundChunkOut(
        id=found.id,
        content=found.text,
        similarity=found.similarity,
        score=found.score,
        metadata={"file_name": found.entry_name, "source": found.source_url or address, "chunk": str(found.number)},
    )
