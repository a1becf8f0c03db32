"""OpenAI's files and batches on the wire, and what workers read and write of a batch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from corral.wire.base import LenientModel, StrictModel

MetadataText = Annotated[str, StringConstraints(max_length=512)]
MetadataName = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class OpenAiFileOut(StrictModel):
    """A file that a user uploaded or a batch wrote, in the form of OpenAI's files API (`/v1/files`)."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int = Field(description="Seconds since 1970.")
    expires_at: int | None = None
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"


class OpenAiFileListOut(StrictModel):
    """Response of `GET /v1/files`: a page of the caller's files."""

    object: Literal["list"] = "list"
    data: list[OpenAiFileOut]
    first_id: str | None = None
    last_id: str | None = None
    has_more: bool = False


class OpenAiFileDeletedOut(StrictModel):
    """Response of `DELETE /v1/files/{file_id}`: confirms that the file was deleted."""

    id: str
    object: Literal["file"] = "file"
    deleted: bool = True


class BatchIn(LenientModel):
    """Body of `POST /v1/batches`: starts a batch, which answers all inference requests of an uploaded file."""

    input_file_id: Annotated[str, StringConstraints(min_length=1, max_length=100)] = Field(
        description="A file with the purpose `batch`."
    )
    endpoint: Annotated[str, StringConstraints(max_length=64)] = Field(
        description="/v1/chat/completions, /v1/completions, /v1/embeddings or /v1/responses."
    )
    completion_window: Annotated[str, StringConstraints(max_length=16)] = Field(
        default="24h", description="How long the batch may take: 24h."
    )
    metadata: Annotated[dict[MetadataName, MetadataText], Field(max_length=16)] | None = None


class BatchCountsOut(StrictModel):
    """Counts of a batch: how many inference requests it has, and how many completed or failed."""

    total: int
    completed: int
    failed: int


class BatchErrorOut(StrictModel):
    """One error of a batch of inference requests: in a line of its input file, or in the batch as a whole."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class BatchErrorListOut(StrictModel):
    """The errors for which a batch of inference requests has failed, in the form of OpenAI's API."""

    object: Literal["list"] = "list"
    data: list[BatchErrorOut]


class BatchOut(StrictModel):
    """A batch of inference requests with its state, in the form of OpenAI's API. Times are seconds since 1970."""

    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    input_file_id: str
    completion_window: str
    status: str
    errors: BatchErrorListOut | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    created_at: int
    in_progress_at: int | None = None
    expires_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    request_counts: BatchCountsOut
    metadata: dict[str, str] | None = None
    run_id: str = Field(description="The run that answers the lines; `corral runs show` shows it.")


class BatchListOut(StrictModel):
    """Response of `GET /v1/batches`: a page of batches of inference requests."""

    object: Literal["list"] = "list"
    data: list[BatchOut]
    first_id: str | None = None
    last_id: str | None = None
    has_more: bool = False


# --- workers ---


class BatchInputOut(LenientModel):
    """Response of `GET /api/node/{node_id}/runs/{run_id}/batch/input`: bytes of the batch's input, for its worker."""

    content: str = Field(description="In base64; empty at the end of the input.")


class BatchValidationIn(LenientModel):
    """Body of `POST /api/node/{node_id}/runs/{run_id}/batch/validation`.

    The worker that executes a batch tells whether the lines of the input file are valid.
    """

    boot_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    # Not required, so that a caller without a credential is refused before its body is judged.
    job_id: Annotated[str, StringConstraints(max_length=64)] = ""
    total: Annotated[int, Field(ge=0)] = 0
    errors: Annotated[list[dict[str, Any]], Field(max_length=200)] = Field(default_factory=list)


class BatchAnswersIn(LenientModel):
    """Body of `POST /api/node/{node_id}/runs/{run_id}/batch/answers`.

    The worker that executes a batch delivers lines for the output files, and the position in the input behind them.
    """

    boot_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    job_id: Annotated[str, StringConstraints(max_length=64)] = ""
    from_byte: Annotated[int, Field(ge=0, le=2**53)] = 0
    to_byte: Annotated[int, Field(ge=0, le=2**53)] = 0
    to_line: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    completed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    failed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    # Whole lines of ASCII.
    output: str = ""
    errors: str = ""


class BatchCursorOut(LenientModel):
    """Response that tells the worker of a batch up to which byte of the input file the answers are stored."""

    next_byte: int
    next_line: int
