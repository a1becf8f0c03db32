"""Files of models: what nodes read (`/api/node/{node_id}/blobs`), and what admins send and see (`/api/files`)."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from corral.api.errors import envelope, request_id_of
from corral.api.parts import OperateIn, Parts, PartsIn, bearer
from corral.domain.errors import NotAllowed, NotFound
from corral.domain.model import Blob
from corral.ports.credentials import FRONTENDS, READS_BLOBS
from corral.store import nodes as node_store
from corral.store import staged
from corral.store.files import Held
from corral.transfer.inbox import Answer, Inbox, Upload
from corral.transfer.tickets import verify_ticket
from corral.wire.errors import ErrorOut
from corral.wire.files import (
    CollectedFileOut,
    CopyCheckOut,
    FileOut,
    FilesCollectedOut,
    FilesOut,
    FileTakenOut,
    HolderOut,
)

router = APIRouter(tags=["files"])
Sha256 = Annotated[str, Path(pattern="^[0-9a-fA-F]{64}$", description="64 hexadecimal digits.")]
_BYTES: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {"description": "All of it.", "content": _BYTES},
    206: {"description": "The bytes that were asked for.", "content": _BYTES},
    416: {"model": ErrorOut, "description": "There are no such bytes."},
}
_SENT: dict[int | str, dict[str, Any]] = {
    200: {"model": FileTakenOut, "description": "All of it is here, and is right."},
    308: {"description": "So far good; `X-File-Size` says how much is here."},
    416: {
        "model": ErrorOut,
        "description": "The piece does not begin where the file ends; `X-File-Size` says where that is.",
    },
}
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_PAGE_MAX = 1000


# --- for nodes ---


@router.get(
    "/api/node/{node_id}/blobs/{sha256}", response_class=Response, responses=_CONTENT, tags=["node self-service"]
)
async def read_blob(
    request: Request,
    parts: PartsIn,
    node_id: str,
    sha256: Sha256,
    range: Annotated[str, Header(description="One range of bytes; several are answered with all of it.")] = "",  # noqa: A002 - the header's name
) -> Response:
    """A content that this frontend holds, all of it or a range; HEAD tells its size. Who else has it stands in the
    details of a 404."""
    blob = await _held(request, parts, node_id, sha256)
    headers = _headers(blob)
    span = _span(range, blob.size_bytes)
    if span is None:
        return _out_of_range(request, blob)
    start, length = span
    is_part = length < blob.size_bytes
    if is_part:
        headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{blob.size_bytes}"
    return StreamingResponse(
        parts.library.read(blob.sha256, start, length),
        status_code=206 if is_part else 200,
        headers=headers | {"Content-Length": str(length)},
        media_type="application/octet-stream",
    )


@router.head("/api/node/{node_id}/blobs/{sha256}", include_in_schema=False)
async def probe_blob(request: Request, parts: PartsIn, node_id: str, sha256: Sha256) -> Response:
    """Whether this frontend holds a content, and how large it is; described with GET."""
    blob = await _held(request, parts, node_id, sha256)
    headers = _headers(blob) | {"Content-Length": str(blob.size_bytes)}
    return Response(headers=headers, media_type="application/octet-stream")


@router.get(
    "/api/node/{node_id}/blobs/{sha256}/chunks",
    response_class=Response,
    responses={200: {"description": "32 bytes for each chunk, one after the other.", "content": _BYTES}},
    tags=["node self-service"],
)
async def read_chunks(request: Request, parts: PartsIn, node_id: str, sha256: Sha256) -> Response:
    """The sha256 of each chunk of a content that the cluster knows; `X-File-Size` is the size of the content."""
    await _approved(request, parts, node_id)
    blob = await parts.library.blob(sha256.lower())
    return Response(blob.chunks, headers=_headers(blob), media_type="application/octet-stream")


@router.post("/api/node/{node_id}/blobs/{sha256}/damage", tags=["node self-service"])
async def report_damage(request: Request, parts: PartsIn, node_id: str, sha256: Sha256) -> CopyCheckOut:
    """Reports that bytes of a content which this frontend gave were wrong. It hashes its copy, at most once in
    ten minutes; a damaged one is thrown away and fetched again from its source."""
    await _approved(request, parts, node_id)
    blob = await parts.library.blob(sha256.lower())
    return CopyCheckOut(is_right=parts.library.report_damage(blob.sha256))


async def _approved(request: Request, parts: Parts, node_id: str) -> None:
    """A node that was approved; or a peer of this frontend, in the place of a node, with a ticket of theirs."""
    if node_id == FRONTENDS:
        key, now = parts.credentials.ticket_key(), parts.clock.wall()
        verify_ticket(bearer(request) or "", key, audience=FRONTENDS, scopes=(READS_BLOBS,), now=now)
        return
    node = await parts.directory.node(node_id, bearer(request))
    if node.is_approved:
        return
    # The approval may be on its way to this frontend's memory.
    async with parts.database.transaction() as tx:
        found = await node_store.get_node(tx, node.id)
    if found.approved_at is None:
        raise NotAllowed("A pending node gets no files.", hint="Wait for approval.", code="node_pending")


async def _held(request: Request, parts: Parts, node_id: str, sha256: str) -> Blob:
    """What is here and known. Otherwise the 404 names those who have it, and the storage with an address."""
    await _approved(request, parts, node_id)
    wanted = sha256.lower()
    blob = await parts.library.blob(wanted)
    if parts.library.can_serve(blob):
        return blob
    holders = [holder.name for holder in await parts.library.missed(wanted)]
    places = await parts.library.places_for((wanted,))
    raise NotFound(
        "This frontend does not hold that content.",
        hint="Ask one of those that hold it." if holders else "It has to be fetched from its source again.",
        code="blob_not_here",
        details={"holders": holders, "urls": [place.url for place in places if place.kind == "storage"]},
    )


def _out_of_range(request: Request, blob: Blob) -> Response:
    sentence = f"The content has {blob.size_bytes} bytes, and others were asked for."
    body = envelope(request.url.path, "wrong_range", sentence, request_id=request_id_of(request))
    headers = _headers(blob) | {"Content-Range": f"bytes */{blob.size_bytes}"}
    return JSONResponse(body, status_code=416, headers=headers)


def _headers(blob: Blob) -> dict[str, str]:
    return {
        "Accept-Ranges": "bytes",
        "ETag": f'"{blob.sha256}"',
        "X-Content-SHA256": blob.sha256,
        "X-File-Size": str(blob.size_bytes),
    }


def _span(header: str, size_bytes: int) -> tuple[int, int] | None:
    """Where to begin and how much; None if there are no such bytes. What is not understood is no range, says HTTP."""
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
    parts: PartsIn,
    _operator: OperateIn,
    model: Annotated[str | None, Query(max_length=255, description="Only the files of this model.")] = None,
    after: Annotated[str, Query(pattern="^[0-9a-f]{0,64}$")] = "",
    limit: Annotated[int, Query(ge=1, le=_PAGE_MAX)] = _PAGE_MAX,
) -> FilesOut:
    """Every content that the cluster knows: its size, the models that are made of it, and who holds it."""
    found = await parts.library.list_held(model=model, after=after, limit=limit)
    async with parts.database.transaction() as tx:
        nodes = await staged.list_whole_at(tx, [held.sha256 for held in found])
    files = [_out(held, nodes.get(held.sha256, [])) for held in found]
    return FilesOut(files=files, next=found[-1].sha256 if len(found) == limit else None)


@router.post("/api/files/collect")
async def collect_files(
    parts: PartsIn,
    _operator: OperateIn,
    dry_run: Annotated[bool, Query(description="Only tell.")] = False,  # noqa: FBT002 - the framework calls it by name
) -> FilesCollectedOut:
    """Throws away what the library of this frontend, or the storage, has held for no model for an hour."""
    collected = await parts.library.collect(dry_run=dry_run)
    return FilesCollectedOut(
        dry_run=dry_run,
        freed_bytes=collected.freed_bytes,
        files=[CollectedFileOut(sha256=file.sha256, size_bytes=file.size_bytes) for file in collected.files],
    )


@router.head("/api/files/{sha256}", include_in_schema=False)
async def probe_file(request: Request, parts: PartsIn, _operator: OperateIn, sha256: Sha256) -> Response:
    """How much of a file has arrived; described with PUT."""
    wanted = sha256.lower()
    if await parts.library.has(wanted):
        return Response(headers=_headers(await parts.library.blob(wanted)))
    answer = await _inbox(parts).probe(wanted, wanted)
    if answer.status == 200 and "X-Content-SHA256" in answer.headers:
        # It was all here when the process before us died.
        return Response(headers=_headers(await parts.library.take(_inbox(parts).path(wanted), wanted)))
    return _rendered(request, answer)


@router.put("/api/files/{sha256}", response_model=FileTakenOut, responses=_SENT)
async def send_file(
    request: Request,
    parts: PartsIn,
    _operator: OperateIn,
    sha256: Sha256,
    content_range: Annotated[
        str, Header(description="bytes first-last/total: a piece, which the next ones follow.")
    ] = "",
) -> Response:
    """Sends a file under its sha256, at once or piece by piece; a model names it as `upload:<sha256>`. Sending again
    what is here already is a success. HEAD tells how much has arrived: `X-Target-SHA256` with `X-File-Size`, or
    `X-Content-SHA256` when it is all here."""
    wanted = sha256.lower()
    if await parts.library.has(wanted):
        return _taken(await parts.library.blob(wanted))
    inbox = _inbox(parts)
    answer = await inbox.receive(wanted, Upload(body=request.stream(), sha256=wanted, content_range=content_range))
    if answer.status != 200:
        return _rendered(request, answer)
    return _taken(await parts.library.take(inbox.path(wanted), wanted))


def _inbox(parts: Parts) -> Inbox:
    """Where pieces gather; one for each frontend, because it knows who is sending what."""
    if parts.inbox is None:
        parts.inbox = Inbox(parts.library.shelf.uploads)
    return parts.inbox


def _taken(blob: Blob) -> Response:
    body = FileTakenOut(sha256=blob.sha256, size_bytes=blob.size_bytes)
    return JSONResponse(body.model_dump(), headers=_headers(blob))


def _rendered(request: Request, answer: Answer) -> Response:
    """What the inbox says, in the form of every other answer."""
    headers = dict(answer.headers)
    told = (answer.body or {}).get("error")
    if told is None:
        return Response(status_code=answer.status, headers=headers)
    body = envelope(request.url.path, told["code"], told["message"], request_id=request_id_of(request))
    return JSONResponse(body, status_code=answer.status, headers=headers)


def _out(held: Held, nodes: list[str]) -> FileOut:
    return FileOut(
        sha256=held.sha256,
        size_bytes=held.size_bytes,
        models=list(held.models),
        holders=[HolderOut(name=holder.name, is_shared=holder.is_shared) for holder in held.holders],
        nodes=nodes,
        created_at=held.created_at,
    )
