"""A quantisation: a run that makes a model smaller, and the file that it has made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from corral.domain.model import ModelConfig, ModelProvenance
from corral.domain.run import RunId, RunState


class QuantizationPhase(StrEnum):
    """Names what the worker of a quantisation does now, in the order in which it does it."""

    DOWNLOADING = "downloading"  # the files come into the library, and from there to the node
    CONVERTING = "converting"  # safetensors become a GGUF file
    QUANTIZING = "quantizing"
    UPLOADING = "uploading"  # the result goes into the library


class QuantizationStatus(StrEnum):
    """Names the state of a quantisation job, in LocalAI's words."""

    QUEUED = "queued"
    DOWNLOADING = "downloading"
    CONVERTING = "converting"
    QUANTIZING = "quantizing"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightType:
    """Describes a type of quantised weights of GGUF files: its name, and how many bits a weight takes about."""

    name: str
    bits_per_weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """Describes one quantisation: the model, the type, how far it is, and what came out."""

    # The id of its run.
    id: RunId
    owner: str
    owner_name: str
    run_state: RunState
    error_code: str
    error_text: str
    message: str
    node_name: str
    model: str
    backend: str
    weight_type: str
    # The name that the result gets in the catalog; empty: it is not registered.
    name: str
    file_name: str
    sha256: str
    size_bytes: int | None
    provenance: ModelProvenance | None
    config: ModelConfig | None
    registered_name: str
    # Why the result could not be registered under `name`.
    problem: str
    phase: str
    percent: float
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    # Disk and memory that it takes of its node.
    needs: Mapping[str, Any] = field(default_factory=dict)
    # The base of an adapter that is converted, as `policy.quantization.AdapterBase` has it; empty for a model.
    adapter: Mapping[str, Any] = field(default_factory=dict)
    # The path of an importance matrix among the model's files.
    imatrix: str = ""

    @property
    def has_result(self) -> bool:
        return bool(self.sha256)
