"""Routes for model files: reading by nodes (`/api/node/{node_id}/blobs`), uploads and lists (`/api/files`)."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from corral.api.deps import ApiDeps, DepsIn, OperatorIn, get_bearer_secret
from corral.api.errors import get_request_id
from corral.domain.errors import NotAllowed, NotFound
from corral.domain.model import Blob
from corral.gateway.errors import make_envelope
from corral.ports.credentials import BLOB_READ_SCOPE, FRONTENDS_AUDIENCE
from corral.store import holdings
from corral.store import nodes as node_store
from corral.store.files import HeldContent
from corral.transfer.inbox import Inbox, InboxResponse, InboxUpload
from corral.transfer.tickets import verify_ticket
from corral.wire.base import ErrorOut
from corral.wire.files import (
    CopyCheckOut,
    FileGarbageOut,
    FileHolderOut,
    FileOut,
    FilesOut,
    GarbageFileOut,
    UploadedFileOut,
)

router = APIRouter(tags=["files"])
Sha256 = Annotated[str, Path(pattern="^[0-9a-fA-F]{64}$", description="64 hexadecimal digits.")]
_BYTES: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_CONTENT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The whole content.", "content": _BYTES},
    206: {"description": "The requested bytes.", "content": _BYTES},
    416: {"model": ErrorOut, "description": "The range is outside the content."},
}
UPLOAD_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"model": UploadedFileOut, "description": "The whole file has arrived and is intact."},
    308: {"description": "The piece was stored; `X-File-Size` says how much has arrived."},
    416: {
        "model": ErrorOut,
        "description": "The piece does not begin at the end of the stored part; `X-File-Size` says where that is.",
    },
}
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_PAGE_MAX = 1000


# --- for nodes ---


@router.get(
    "/api/node/{node_id}/blobs/{sha256}",
    response_class=Response,
    responses=_CONTENT_RESPONSES,
    tags=["node self-service"],
)
async def read_blob(
    request: Request,
    deps: DepsIn,
    node_id: str,
    sha256: Sha256,
    range: Annotated[str, Header(description="One range of bytes; several get the whole content.")] = "",  # noqa: A002 - the header's name
) -> Response:
    """Read a content of this frontend, whole or a range; HEAD returns its size. The details of a 404 name other
    holders."""
    blob = await _get_held_blob(request, deps, node_id, sha256)
    headers = _make_blob_headers(blob)
    span = _parse_range(range, blob.size_bytes)
    if span is None:
        return _make_range_error(request, blob)
    start, length = span
    is_part = length < blob.size_bytes
    if is_part:
        headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{blob.size_bytes}"
    return StreamingResponse(
        deps.library.read(blob.sha256, start, length),
        status_code=206 if is_part else 200,
        headers=headers | {"Content-Length": str(length)},
        media_type="application/octet-stream",
    )


@router.head("/api/node/{node_id}/blobs/{sha256}", include_in_schema=False)
async def probe_blob(request: Request, deps: DepsIn, node_id: str, sha256: Sha256) -> Response:
    """Return whether this frontend holds a content, and its size; described with GET."""
    blob = await _get_held_blob(request, deps, node_id, sha256)
    headers = _make_blob_headers(blob) | {"Content-Length": str(blob.size_bytes)}
    return Response(headers=headers, media_type="application/octet-stream")


@router.get(
    "/api/node/{node_id}/blobs/{sha256}/chunks",
    response_class=Response,
    responses={200: {"description": "32 bytes for each chunk, one after the other.", "content": _BYTES}},
    tags=["node self-service"],
)
async def read_chunks(request: Request, deps: DepsIn, node_id: str, sha256: Sha256) -> Response:
    """Read the SHA-256 of each chunk of a content; `X-File-Size` is the size of the content."""
    await _require_approved_reader(request, deps, node_id)
    blob = await deps.library.get_blob(sha256.lower())
    return Response(blob.chunks, headers=_make_blob_headers(blob), media_type="application/octet-stream")


@router.post("/api/node/{node_id}/blobs/{sha256}/damage", tags=["node self-service"])
async def report_damage(request: Request, deps: DepsIn, node_id: str, sha256: Sha256) -> CopyCheckOut:
    """Reports that bytes of a content which this frontend gave were wrong. It hashes its copy, at most once in
    ten minutes; a damaged one is thrown away and fetched again from its source."""
    await _require_approved_reader(request, deps, node_id)
    blob = await deps.library.get_blob(sha256.lower())
    return CopyCheckOut(is_right=deps.library.report_damage(blob.sha256))


async def _require_approved_reader(request: Request, deps: ApiDeps, node_id: str) -> None:
    """Raise unless the caller is an approved node, or another frontend with a valid ticket in place of a node."""
    if node_id == FRONTENDS_AUDIENCE:
        key, now = deps.credentials.get_ticket_key(), deps.clock.wall()
        verify_ticket(
            get_bearer_secret(request) or "", key, audience=FRONTENDS_AUDIENCE, scopes=(BLOB_READ_SCOPE,), now=now
        )
        return
    node = await deps.directory.authenticate_node(node_id, get_bearer_secret(request))
    if node.is_approved:
        return
    # The event about the approval may not have reached this frontend yet.
    async with deps.database.transaction() as tx:
        found = await node_store.get_node(tx, node.id)
    if found.approved_at is None:
        raise NotAllowed("A node that is not approved gets no files.", hint="Wait for approval.", code="node_pending")


async def _get_held_blob(request: Request, deps: ApiDeps, node_id: str, sha256: str) -> Blob:
    """Return a content that this library holds and the registry knows. Otherwise raise a 404 that names the other
    holders, and the shared storage with an address."""
    await _require_approved_reader(request, deps, node_id)
    key = sha256.lower()
    blob = await deps.library.get_blob(key)
    if deps.library.can_serve(blob):
        return blob
    holders = [holder.name for holder in await deps.library.report_missing(key)]
    sources = await deps.library.list_blob_sources((key,))
    raise NotFound(
        "This frontend does not hold that content.",
        hint="Request it from one of the holders in the details."
        if holders
        else "It has to be downloaded from its source again.",
        code="blob_not_here",
        details={"holders": holders, "urls": [source.url for source in sources if source.kind == "storage"]},
    )


def _make_range_error(request: Request, blob: Blob) -> Response:
    sentence = f"The content has {blob.size_bytes} bytes; the requested range is outside."
    body = make_envelope(request.url.path, "wrong_range", sentence, request_id=get_request_id(request))
    headers = _make_blob_headers(blob) | {"Content-Range": f"bytes */{blob.size_bytes}"}
    return JSONResponse(body, status_code=416, headers=headers)


def _make_blob_headers(blob: Blob) -> dict[str, str]:
    return {
        "Accept-Ranges": "bytes",
        "ETag": f'"{blob.sha256}"',
        "X-Content-SHA256": blob.sha256,
        "X-File-Size": str(blob.size_bytes),
    }


def _parse_range(header: str, size_bytes: int) -> tuple[int, int] | None:
    """Return the start and length of a range; None if it is outside. A range that cannot be parsed is ignored, as HTTP
    requires."""
    found = _RANGE.fullmatch(header.replace(" ", ""))
    if found is None or found.groups() == ("", ""):
        return 0, size_bytes
    first, last = found.groups()
    if not first:
        length = min(int(last), size_bytes)
        return (size_bytes - length, length) if length else None
    start = int(first)
    end = min(int(last) + 1, size_bytes) if last else size_bytes
    if last and int(last) < start:
        return 0, size_bytes
    return (start, end - start) if start < size_bytes else None


# --- for admins ---


@router.get("/api/files")
async def list_files(
    deps: DepsIn,
    _operator: OperatorIn,
    model: Annotated[str | None, Query(max_length=255, description="Only the files of this model.")] = None,
    after: Annotated[str, Query(pattern="^[0-9a-f]{0,64}$")] = "",
    limit: Annotated[int, Query(ge=1, le=_PAGE_MAX)] = _PAGE_MAX,
) -> FilesOut:
    """List the contents of the cluster with their sizes, models and holders."""
    found = await deps.library.list_contents(model=model, after=after, limit=limit)
    async with deps.database.transaction() as tx:
        nodes = await holdings.list_whole_at(tx, [held.sha256 for held in found])
    files = [_to_wire(held, nodes.get(held.sha256, [])) for held in found]
    return FilesOut(files=files, next=found[-1].sha256 if len(found) == limit else None)


@router.post("/api/files/collect")
async def collect_files(
    deps: DepsIn,
    _operator: OperatorIn,
    dry_run: Annotated[bool, Query(description="Dry run: only return what would be removed.")] = False,  # noqa: FBT002 - the framework calls it by name
) -> FileGarbageOut:
    """Delete contents that no model has used for an hour from the library of this frontend or the storage."""
    collected = await deps.library.collect(dry_run=dry_run)
    return FileGarbageOut(
        dry_run=dry_run,
        freed_bytes=collected.freed_bytes,
        files=[GarbageFileOut(sha256=file.sha256, size_bytes=file.size_bytes) for file in collected.files],
    )


@router.head("/api/files/{sha256}", include_in_schema=False)
async def probe_file(request: Request, deps: DepsIn, _operator: OperatorIn, sha256: Sha256) -> Response:
    """Return how much of a file has arrived; described with PUT."""
    return await probe_upload(request, deps, sha256.lower())


async def probe_upload(request: Request, deps: ApiDeps, key: str) -> Response:
    """Answer how much of an upload has arrived. The caller has authorised it."""
    if await deps.library.has(key):
        return Response(headers=_make_blob_headers(await deps.library.get_blob(key)))
    answer = await _ensure_inbox(deps).probe(key, key)
    if answer.status == 200 and "X-Content-SHA256" in answer.headers:
        # All bytes had arrived when an earlier process of this frontend died.
        return Response(
            headers=_make_blob_headers(await deps.library.take_upload(_ensure_inbox(deps).find_file(key), key))
        )
    return _render_inbox_response(request, answer)


@router.put("/api/files/{sha256}", response_model=UploadedFileOut, responses=UPLOAD_RESPONSES)
async def send_file(
    request: Request,
    deps: DepsIn,
    _operator: OperatorIn,
    sha256: Sha256,
    content_range: Annotated[
        str, Header(description="bytes first-last/total: a piece, which the next ones follow.")
    ] = "",
) -> Response:
    """Upload a file by its SHA-256, whole or in pieces; a model names it as `upload:<sha256>`. Uploading an existing
    file again is a success. HEAD returns how much has arrived: `X-Target-SHA256` with `X-File-Size`, or
    `X-Content-SHA256` when it is all here."""
    return await receive_upload(request, deps, sha256.lower(), content_range)


async def receive_upload(request: Request, deps: ApiDeps, key: str, content_range: str) -> Response:
    """Store a piece of an upload, and take the file into the library once it is whole. The caller has authorised it."""
    if await deps.library.has(key):
        return _make_uploaded_response(await deps.library.get_blob(key))
    inbox = _ensure_inbox(deps)
    answer = await inbox.receive(key, InboxUpload(body=request.stream(), sha256=key, content_range=content_range))
    if answer.status != 200:
        return _render_inbox_response(request, answer)
    return _make_uploaded_response(await deps.library.take_upload(inbox.find_file(key), key))


def _ensure_inbox(deps: ApiDeps) -> Inbox:
    """Return the inbox of uploads. Each frontend has only one, because it tracks which uploads are in progress."""
    if deps.inbox is None:
        deps.inbox = Inbox(deps.library.content_store.uploads)
    return deps.inbox


def _make_uploaded_response(blob: Blob) -> Response:
    body = UploadedFileOut(sha256=blob.sha256, size_bytes=blob.size_bytes)
    return JSONResponse(body.model_dump(), headers=_make_blob_headers(blob))


def _render_inbox_response(request: Request, inbox_response: InboxResponse) -> Response:
    """Convert the inbox's response to one in the form of all other routes."""
    headers = dict(inbox_response.headers)
    error = (inbox_response.body or {}).get("error")
    if error is None:
        return Response(status_code=inbox_response.status, headers=headers)
    body = make_envelope(request.url.path, error["code"], error["message"], request_id=get_request_id(request))
    return JSONResponse(body, status_code=inbox_response.status, headers=headers)


def _to_wire(held: HeldContent, nodes: list[str]) -> FileOut:
    return FileOut(
        sha256=held.sha256,
        size_bytes=held.size_bytes,
        models=list(held.models),
        holders=[FileHolderOut(name=holder.name, is_shared=holder.is_shared) for holder in held.holders],
        nodes=nodes,
        created_at=held.created_at,
    )
