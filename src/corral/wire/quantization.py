"""Quantisations on the wire, in LocalAI's form with more fields, and what their workers read and send."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from corral.wire.base import LenientModel, StrictModel
from corral.wire.models import ModelProvenanceOut

_Text = Annotated[str, StringConstraints(max_length=255)]
_Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class QuantizationBackendOut(StrictModel):
    """An item of `GET /api/quantization/backends`: a backend that quantises models."""

    name: str
    description: str = ""
    tags: list[str] = Field(default_factory=list)


class QuantizationIn(LenientModel):
    """Body of `POST /api/quantization/jobs`: starts a quantisation of a model of the catalog."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=255)] = Field(
        description="A model of the catalog, with GGUF or safetensors files."
    )
    quantization_type: Annotated[str, StringConstraints(min_length=1, max_length=40)] = Field(
        default="q4_k_m", description="The type of the weights, such as q4_k_m, q8_0 or f16."
    )
    name: _Text = Field(
        default="", description="The name under which the result is registered as a model; empty: it is not registered."
    )
    backend: _Text = Field(default="", description="The backend that quantises; empty: llama-cpp-quantization.")
    imatrix: Annotated[str, StringConstraints(max_length=1024)] = Field(
        default="", description="The path of an importance matrix among the model's files."
    )
    base: _Text = Field(default="", description="If the model is a PEFT LoRA adapter: the GGUF model that it changes.")


class QuantizationOut(StrictModel):
    """A quantisation: a run that makes a model smaller, with its progress and its result. LocalAI's fields first."""

    id: str
    user_id: str
    model: str
    backend: str
    quantization_type: str
    status: str = Field(description="queued, downloading, converting, quantizing, completed, failed or stopped.")
    message: str
    output_file: str = Field(default="", description="The name of the result's file.")
    import_status: str = Field(default="", description="completed, failed or empty: whether the result is a model.")
    import_message: str = ""
    import_model_name: str = Field(default="", description="The model that the result has become.")
    created_at: datetime
    progress_percent: float
    phase: str = Field(description="downloading, converting, quantizing, uploading, or empty before the first.")
    run_id: str
    node_name: str
    name: str = Field(description="The name that the result gets.")
    error_code: str = ""
    size_bytes: int | None = None
    sha256: str = ""
    provenance: ModelProvenanceOut | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class QuantizationListOut(StrictModel):
    """Response of `GET /api/quantization/jobs`: quantisations, newest first."""

    jobs: list[QuantizationOut]


class QuantizationImportIn(LenientModel):
    """Body of `POST /api/quantization/jobs/{id}/import`: registers a result as a model."""

    name: _Text = Field(default="", description="The name of the model; empty: made of the source and the type.")


class QuantizationImportOut(StrictModel):
    """Response of `POST /api/quantization/jobs/{id}/import`: the model that the result has become."""

    status: Literal["completed"] = "completed"
    message: str
    name: str


class QuantizationSizeOut(StrictModel):
    """The size that a model is expected to have with one type of weights, and the nodes on which it would fit."""

    quantization_type: str
    bits_per_weight: float
    size_bytes: int | None = Field(description="Expected; null: nothing is known of the model yet.")
    fits_on: list[str] = Field(description="Nodes whose free GPU memory, or RAM without a GPU, holds the weights.")


class QuantizationPlanOut(StrictModel):
    """Response of `GET /api/quantization/plan`: what each type would make of a model."""

    model: str
    quantization_type: str = Field(description="The type of the model's weights now; empty if unknown.")
    size_bytes: int | None
    is_requantized: bool = Field(description="True if the weights are quantised already.")
    can_run_on: list[str] = Field(description="Nodes that could quantise it now.")
    types: list[QuantizationSizeOut]


# --- workers ---


class QuantizationSourceIn(LenientModel):
    """Body of `POST /api/node/{node_id}/runs/{run_id}/quantization/source`: where does the worker get the files?"""

    boot_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    # Not required, so that a caller without a credential is refused before its body is judged.
    job_id: Annotated[str, StringConstraints(max_length=64)] = ""
    # The operation that an earlier answer has named.
    operation_id: Annotated[str, StringConstraints(max_length=64)] = ""


class QuantizationSourceOut(LenientModel):
    """Response of `POST /api/node/{node_id}/runs/{run_id}/quantization/source`: the files with their addresses.

    While an operation brings the files into the library, only the operation and its progress.
    """

    is_ready: bool
    operation_id: str = ""
    percent: float = 0.0
    model: str = ""
    revision: str = ""
    # In the form of bus messages: path, sha256, size_bytes.
    files: list[dict[str, Any]] = Field(default_factory=list)
    # Where they are fetched from, in the form of bus messages.
    sources: list[dict[str, Any]] = Field(default_factory=list, repr=False)
    # The file that the quantiser is given.
    entry: str = ""


class QuantizationResultIn(LenientModel):
    """Body of `POST /api/node/{node_id}/runs/{run_id}/quantization/result`: a worker has sent the file it has made."""

    boot_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    job_id: Annotated[str, StringConstraints(max_length=64)] = ""
    # Not required, so that a caller without a credential is refused before its body is judged.
    sha256: _Sha256 | None = None
    tool: Annotated[str, StringConstraints(max_length=200)] = ""
    source_types: Annotated[list[Annotated[str, StringConstraints(max_length=40)]], Field(max_length=50)] = Field(
        default_factory=list
    )
    is_requantized: bool = False


class QuantizationResultOut(LenientModel):
    """Response of `POST /api/node/{node_id}/runs/{run_id}/quantization/result`: the model that the file has become."""

    file_name: str
    size_bytes: int
    model: str = ""
    problem: str = ""
