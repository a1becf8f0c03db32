"""`/v1/files`: OpenAI's files. Uploads and downloads are streamed; a file of another owner does not exist.

An id is `file-` and the hexadecimal id of an artifact. Files that runs made are listed here, too, with the purpose that
OpenAI gives them.
"""

from __future__ import annotations

from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from corral.api.deps import DepsIn, OwnerIn
from corral.api.dialects.uploads import UploadReceiver
from corral.api.downloads import FILE_RESPONSES, make_download
from corral.api.openai.file_form import FileFormReader, parse_boundary
from corral.domain.artifact import Artifact, ArtifactKind
from corral.domain.errors import InvalidRequest
from corral.runs.artifacts import UploadDescription
from corral.store import artifacts as store
from corral.store.artifacts import ArtifactFilter
from corral.wire.batches import OpenAiFileDeletedOut, OpenAiFileListOut, OpenAiFileOut

router = APIRouter(prefix="/v1/files", tags=["files and batches"])
PURPOSES = ("batch", "assistants", "user_data", "vision", "evals", "fine-tune")
LISTED_MAX = 10_000
_PREFIX = "file-"
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "purpose"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "purpose": {"type": "string", "enum": list(PURPOSES)},
                    },
                }
            }
        },
    }
}


@router.post("", openapi_extra=_FORM)
async def upload_file(request: Request, deps: DepsIn, caller: OwnerIn) -> OpenAiFileOut:
    """Upload a file. It is stored as it arrives, at most 512 MiB, and can be read at every frontend."""
    boundary = parse_boundary(request.headers.get("content-type", ""))
    form = FileFormReader(boundary, UploadReceiver(request.receive).iter_pieces())
    description = UploadDescription()

    def check() -> None:
        description.name, description.media_type = form.file_name or "file", form.media_type
        description.purpose = form.fields.get("purpose", "")
        if description.purpose not in PURPOSES:
            raise InvalidRequest(
                f"{description.purpose[:80]!r} is not a known purpose of a file.",
                hint=f"Send one of: {', '.join(PURPOSES)}.",
                code="invalid_purpose",
            )

    async with aclosing(form.iter_file()) as pieces:
        return file_to_wire(await deps.artifacts.receive(caller.owner, pieces, description, check))


@router.get("")
async def list_files(
    deps: DepsIn,
    caller: OwnerIn,
    purpose: Annotated[str, Query(max_length=32)] = "",
    limit: Annotated[int, Query(ge=1, le=LISTED_MAX)] = LISTED_MAX,
    order: Literal["asc", "desc"] = "desc",
    after: Annotated[str, Query(max_length=100, description="The id of the last file of the page before.")] = "",
) -> OpenAiFileListOut:
    """List your files."""
    owner = str(caller.owner)
    async with deps.database.transaction() as tx:
        position: tuple[datetime, str] | None = None
        if after:
            last = await store.get_artifact(tx, parse_file_id(after), owner=owner)
            position = (last.created_at, last.id)
        found = await store.list_artifacts(
            tx,
            ArtifactFilter(owner=owner, purpose=purpose or None),
            limit=limit + 1,
            after=position,
            oldest_first=order == "asc",
        )
    shown = [file_to_wire(artifact) for artifact in found[:limit]]
    return OpenAiFileListOut(
        data=shown,
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
        has_more=len(found) > limit,
    )


@router.get("/{file_id}")
async def show_file(deps: DepsIn, caller: OwnerIn, file_id: str) -> OpenAiFileOut:
    """Show one of your files."""
    return file_to_wire(await deps.artifacts.get(parse_file_id(file_id), str(caller.owner)))


@router.get("/{file_id}/content", response_class=StreamingResponse, responses=FILE_RESPONSES)
async def read_file_content(deps: DepsIn, caller: OwnerIn, file_id: str) -> StreamingResponse:
    """Download one of your files."""
    artifact = await deps.artifacts.get(parse_file_id(file_id), str(caller.owner))
    return make_download(deps.artifacts.iter_content(artifact), artifact)


@router.delete("/{file_id}")
async def delete_file(deps: DepsIn, caller: OwnerIn, file_id: str) -> OpenAiFileDeletedOut:
    """Delete one of your files. The input of a batch that has not ended is refused with 409."""
    artifact = await deps.artifacts.delete(parse_file_id(file_id), str(caller.owner))
    return OpenAiFileDeletedOut(id=render_file_id(artifact.id))


def render_file_id(artifact_id: str) -> str:
    return f"{_PREFIX}{UUID(artifact_id).hex}"


def parse_file_id(text: str) -> str:
    """Return the id of an artifact; any other text is the id of a file that does not exist."""
    try:
        return str(UUID(hex=text.removeprefix(_PREFIX)))
    except ValueError:
        raise store.make_not_found_error(text) from None


def file_to_wire(artifact: Artifact) -> OpenAiFileOut:
    purpose = artifact.purpose or ("assistants_output" if artifact.kind is ArtifactKind.TOOL else "user_data")
    return OpenAiFileOut(
        id=render_file_id(artifact.id),
        bytes=artifact.size_bytes,
        created_at=int(artifact.created_at.timestamp()),
        expires_at=int(artifact.expires_at.timestamp()) if artifact.expires_at else None,
        filename=artifact.name,
        purpose=purpose,
    )
