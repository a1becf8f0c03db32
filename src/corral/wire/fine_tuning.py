"""Fine-tunings on the wire, in LocalAI's form with more fields, and what their workers read and send."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints

from corral.wire.base import LenientModel, StrictModel
from corral.wire.quantization import QuantizationSourceOut

_Text = Annotated[str, StringConstraints(max_length=255)]
_Id = Annotated[str, StringConstraints(max_length=64)]
_Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
_Step = Annotated[int, Field(ge=0, le=1_000_000_000)]


class FineTuneBackendOut(StrictModel):
    """An item of `GET /api/fine-tuning/backends`: a backend that trains models."""

    name: str
    description: str = ""
    tags: list[str] = Field(default_factory=list)


class FineTuneIn(LenientModel):
    """Body of `POST /api/fine-tuning/jobs`: starts a fine-tuning. Settings that are left out have their defaults."""

    # A field that is not known here may hold an access token, which is refused, so they are kept.
    model_config = ConfigDict(extra="allow")

    model: Annotated[str, StringConstraints(min_length=1, max_length=255)] = Field(
        description="A model of the catalog, with config.json, tokenizer and safetensors."
    )
    dataset_source: _Text = Field(default="", description="Id or name of an uploaded dataset.")
    backend: _Text = Field(default="", description="The backend that trains; empty: trl.")
    training_method: str | None = Field(default=None, description="sft, dpo, kto, grpo, rloo or reward.")
    training_type: str | None = Field(default=None, description="lora, or full for all weights.")
    adapter_rank: int | None = Field(default=None, description="16 if it is left out.")
    adapter_alpha: int | None = Field(default=None, description="16 if it is left out.")
    adapter_dropout: float | None = None
    target_modules: list[str] | None = Field(default=None, description="Layers that get an adapter; empty: all linear.")
    learning_rate: float | None = Field(default=None, description="2e-4 if it is left out.")
    num_epochs: float | None = Field(default=None, description="3 if it is left out.")
    max_steps: int | None = Field(default=None, description="Ends the training earlier; 0: with its epochs.")
    batch_size: int | None = Field(default=None, description="2 if it is left out.")
    gradient_accumulation_steps: int | None = Field(default=None, description="4 if it is left out.")
    warmup_steps: int | None = Field(default=None, description="5 if it is left out.")
    weight_decay: float | None = Field(default=None, description="0.01 if it is left out.")
    optimizer: str | None = Field(default=None, description="adamw_torch, adafactor or sgd.")
    gradient_checkpointing: bool | None = Field(default=None, description="Takes less memory and more time.")
    save_steps: int | None = Field(default=None, description="A checkpoint after so many steps; 500 if it is left out.")
    seed: int | None = Field(default=None, description="3407 if it is left out.")
    max_length: int | None = Field(default=None, description="Tokens of an example; 512 if it is left out.")
    eval_split: float | None = Field(default=None, description="The share of examples held out; 0.1 if it is left out.")
    num_generations: int | None = Field(default=None, description="Answers to each question, for grpo and rloo.")
    resume_from_checkpoint: _Text = Field(
        default="", description="A job, or one of its checkpoints: ID/checkpoint-20. Its newest one if none is named."
    )
    reward_functions: list[Any] | None = Field(
        default=None,
        description="For grpo and rloo: format, reasoning_accuracy, length, xml_tags, no_repetition, code_syntax, or"
        ' {"type": "inline", "name", "code"} if the operator allows it.',
    )
    extra_options: dict[str, Any] | None = Field(default=None, description="Settings by these names, too.")


class CheckpointOut(StrictModel):
    """A checkpoint of a fine-tuning: the state of the training behind one step."""

    name: str
    path: str = Field(description="What resume_from_checkpoint takes: the job and the name.")
    step: int
    epoch: float | None
    loss: float | None
    size_bytes: int
    is_inherited: bool = Field(description="True if the job began with it.")
    created_at: datetime


class FineTuneExportOut(StrictModel):
    """An export of a fine-tuning: what was made of which checkpoint, and the model that it has become."""

    id: str
    export_format: str
    quantization_method: str = ""
    name: str
    checkpoint: str
    status: str = Field(description="exporting, completed or failed.")
    message: str
    model_name: str = Field(description="The model that it has become; empty: none yet.")
    run_id: str = ""
    created_at: datetime


class FineTuneOut(StrictModel):
    """A fine-tuning: a run that trains a model, with its progress and its exports. LocalAI's fields first."""

    id: str
    user_id: str
    model: str
    backend: str
    training_type: str
    training_method: str
    status: str = Field(
        description="queued, loading_model, loading_dataset, training, saving, completed, failed or stopped."
    )
    message: str
    export_status: str = Field(default="", description="Of the newest export: exporting, completed, failed or empty.")
    export_message: str = ""
    export_model_name: str = ""
    created_at: datetime
    dataset_source: str
    dataset_id: str
    progress_percent: float
    current_step: int = 0
    total_steps: int = 0
    current_epoch: float | None = None
    loss: float | None = None
    eval_loss: float | None = None
    eta_seconds: float | None = None
    phase: str
    is_stopping: bool = Field(description="True once a stop with a checkpoint was requested.")
    run_id: str
    node_name: str
    error_code: str = ""
    parameters: dict[str, Any] = Field(description="All settings of the training, defaults included.")
    resumed_from: str = ""
    result: dict[str, Any] = Field(description="The last line of the trainer: steps, loss, seconds, versions.")
    exports: list[FineTuneExportOut] = Field(default_factory=list)
    started_at: datetime | None = None
    finished_at: datetime | None = None


class FineTuneListOut(StrictModel):
    """Response of `GET /api/fine-tuning/jobs`: fine-tunings, newest first."""

    jobs: list[FineTuneOut]


class FineTunePointOut(LenientModel):
    """One point of the curve of a fine-tuning. A value that was not measured then is null."""

    step: int
    total: int = 0
    epoch: float | None = None
    loss: float | None = None
    learning_rate: float | None = None
    grad_norm: float | None = None
    eval_loss: float | None = None
    reward: float | None = None
    eta_seconds: float | None = None


class FineTuneCurveOut(StrictModel):
    """Response of `GET /api/fine-tuning/jobs/{id}/curve`: all points of a training, in their order."""

    points: list[FineTunePointOut]


class CheckpointListOut(StrictModel):
    """Response of `GET /api/fine-tuning/jobs/{id}/checkpoints`: the checkpoints that are kept, newest first."""

    checkpoints: list[CheckpointOut]


class FineTuneExportIn(LenientModel):
    """Body of `POST /api/fine-tuning/jobs/{id}/export`: makes a model of a checkpoint."""

    name: _Text = Field(default="", description="The name of the model; empty: made of the base and the job.")
    checkpoint_path: _Text = Field(default="", description="A checkpoint, such as checkpoint-20; empty: the newest.")
    export_format: str = Field(default="lora", description="lora, merged_16bit or gguf.")
    quantization_method: _Text = Field(default="", description="The type of the weights of a gguf; empty: q4_k_m.")


class DatasetOut(StrictModel):
    """A dataset of examples, as it was found when it was uploaded."""

    id: str
    name: str
    format: str = Field(description="jsonl, csv or json.")
    rows: int
    columns: list[str] = Field(description="The columns that all rows have.")
    size_bytes: int
    sha256: str
    created_at: datetime


class DatasetListOut(StrictModel):
    """Response of `GET /api/fine-tuning/datasets`: your datasets, newest first."""

    datasets: list[DatasetOut]


# --- workers ---


class FineTuneSourceOut(QuantizationSourceOut):
    """Response of `POST /api/node/{node_id}/runs/{run_id}/fine-tuning/source`: the files of the model, as for a
    quantisation, and those of the checkpoint that the program begins with."""

    # The folder of the model's files in which its configuration lies.
    folder: str = "."
    checkpoint_files: list[dict[str, Any]] = Field(default_factory=list)
    checkpoint_sources: list[dict[str, Any]] = Field(default_factory=list, repr=False)


class DatasetSliceOut(LenientModel):
    """Response of `GET /api/node/{node_id}/runs/{run_id}/fine-tuning/dataset`: bytes of a dataset."""

    # In base64.
    content: str


class FineTuneStateIn(LenientModel):
    """Body of `POST /api/node/{node_id}/runs/{run_id}/fine-tuning/state`: should the training end now?"""

    boot_id: _Id | None = None
    # Not required, so that a caller without a credential is refused before its body is judged.
    job_id: _Id = ""


class FineTuneStateOut(LenientModel):
    """Response of `POST /api/node/{node_id}/runs/{run_id}/fine-tuning/state`: whether the training is to end with a
    checkpoint behind the present step."""

    must_stop: bool = False


class RunFileIn(LenientModel):
    """Body of `POST /api/node/{node_id}/runs/{run_id}/result-files`: a worker has sent a file that belongs to a run."""

    boot_id: _Id | None = None
    job_id: _Id = ""
    folder: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,64}$")] = "export"
    path: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$")] = "file"
    # Not required, so that a caller without a credential is refused before its body is judged.
    sha256: _Sha256 | None = None


class RunFileOut(LenientModel):
    """Response of `POST /api/node/{node_id}/runs/{run_id}/result-files`: the size of the file that was recorded."""

    size_bytes: int


class CheckpointIn(LenientModel):
    """Body of `POST /api/node/{node_id}/runs/{run_id}/fine-tuning/checkpoint`: all files of a checkpoint were sent."""

    boot_id: _Id | None = None
    job_id: _Id = ""
    step: _Step = 0
    epoch: Annotated[float, Field(allow_inf_nan=False)] | None = None
    loss: Annotated[float, Field(allow_inf_nan=False)] | None = None


class CheckpointKeptOut(LenientModel):
    """Response of `POST /api/node/{node_id}/runs/{run_id}/fine-tuning/checkpoint`: the checkpoints that are kept."""

    steps: list[int]


class ExportResultIn(LenientModel):
    """Body of `POST /api/node/{node_id}/runs/{run_id}/fine-tuning/export`: all files of an export were sent."""

    boot_id: _Id | None = None
    job_id: _Id = ""


class ExportResultOut(LenientModel):
    """Response of `POST /api/node/{node_id}/runs/{run_id}/fine-tuning/export`: the model that the files have become."""

    model: str = ""
    problem: str = ""
