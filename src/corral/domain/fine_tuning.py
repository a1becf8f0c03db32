"""A fine-tuning: a run that trains a model on examples, its checkpoints, and what was made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from corral.domain.run import RunId, RunState


class FineTunePhase(StrEnum):
    """Names what the worker of a fine-tuning does now, in the order in which it does it."""

    DOWNLOADING = "downloading"  # the files of the base model come to the node
    LOADING_MODEL = "loading_model"
    LOADING_DATASET = "loading_dataset"
    TRAINING = "training"
    MERGING = "merging"  # an export only: the adapter becomes a part of the weights
    SAVING = "saving"  # files go into the library


class FineTuneStatus(StrEnum):
    """Names the state of a fine-tuning job, in LocalAI's words."""

    QUEUED = "queued"
    LOADING_MODEL = "loading_model"
    LOADING_DATASET = "loading_dataset"
    TRAINING = "training"
    SAVING = "saving"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"


class TrainingMethod(StrEnum):
    """Names what a model learns from its examples: to write them, to prefer some, or to be rewarded."""

    SFT = "sft"  # examples of answers
    DPO = "dpo"  # pairs of a better and a worse answer
    KTO = "kto"  # answers that are good or bad
    GRPO = "grpo"  # questions; functions judge the model's answers
    RLOO = "rloo"
    REWARD = "reward"  # pairs; the result judges answers and writes none


class ExportFormat(StrEnum):
    """Names what an export of a fine-tuning makes of a checkpoint."""

    LORA = "lora"  # the adapter as it is
    MERGED_16BIT = "merged_16bit"  # a whole model
    GGUF = "gguf"  # a whole model, quantised


class ExportStatus(StrEnum):
    """Names the state of an export of a fine-tuning, in LocalAI's words."""

    EXPORTING = "exporting"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """Describes a file that a run's program has made and that is in the library, such as a part of a checkpoint."""

    run_id: str
    folder: str
    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Describes the state of a training behind one step, from which it can go on or be exported."""

    step: int
    epoch: float | None
    loss: float | None
    created_at: datetime
    size_bytes: int
    # A copy of a checkpoint of another job, from which this one goes on.
    is_inherited: bool = False

    @property
    def name(self) -> str:
        return make_checkpoint_name(self.step)


def make_checkpoint_name(step: int) -> str:
    return f"checkpoint-{step}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTuneExport:
    """Describes one export of a fine-tuning: what was requested, and the model that it has become."""

    id: str
    job_id: RunId
    # The run that makes the files; None: none is needed.
    run_id: RunId | None
    format: ExportFormat
    weight_type: str
    name: str
    step: int
    status: ExportStatus
    message: str
    registered_name: str
    created_at: datetime
    # Disk and memory that its run takes of its node.
    needs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTune:
    """Describes one fine-tuning: what is trained on what, how far it is, and what came out."""

    # The id of its run.
    id: RunId
    owner: str
    owner_name: str
    key_id: str
    run_state: RunState
    error_code: str
    error_text: str
    message: str
    node_name: str
    model: str
    backend: str
    method: TrainingMethod
    training_type: str
    dataset_id: str
    dataset_name: str
    # All settings of the training, defaults included.
    parameters: Mapping[str, Any]
    # The job and the step that it goes on from; empty: it begins.
    resumed_from: str
    # Whether the end with a checkpoint was requested.
    is_stopping: bool
    # The last line of the trainer.
    result: Mapping[str, Any]
    # The newest entry of its curve.
    latest: Mapping[str, Any]
    phase: str
    percent: float
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    needs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Describes a dataset of examples that belongs to a person: its file, its form, and the columns of its rows."""

    # The id of its file.
    id: str
    owner: str
    name: str
    format: str
    rows: int
    columns: tuple[str, ...]
    size_bytes: int
    sha256: str
    created_at: datetime
