"""Loading and unloading models, and where one would go, over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from corral.wire.base import Lenient, Strict
from corral.wire.nodes import Bytes

_Name = Annotated[str, StringConstraints(min_length=1, max_length=255)]
_Nodes = Annotated[list[_Name], Field(min_length=1, max_length=1000)]


class LoadIn(Strict):
    """Replicas more, each on another node."""

    count: int = Field(default=1, ge=1, le=1000, description="How many replicas more.")
    nodes: _Nodes | None = Field(default=None, description="Names or ids of nodes; absent: wherever it is best.")


class UnloadIn(Strict):
    """End replicas."""

    nodes: _Nodes | None = Field(default=None, description="Names or ids of nodes; absent: everywhere.")
    force: bool = Field(default=False, description="Do not wait for what is being answered.")
    delete_files: bool = Field(
        default=False, description="These nodes also remove their copies of the files. The model stays."
    )


class NodeModelIn(Lenient):
    """A model on one node, as LocalAI's clients name it."""

    model_name: _Name
    force: bool = Field(default=False, description="Do not wait for what is being answered.")


class PlanIn(LoadIn):
    model: _Name


class ModelNameIn(Lenient):
    """As the ancestor's clients send it."""

    model: _Name


class PlacedOut(Lenient):
    """A replica on a node. Seconds are an estimate."""

    node_id: str
    node_name: str
    index: int
    threads: int
    vram_bytes: Bytes | None = None
    ram_bytes: Bytes | None = None
    fetch_bytes: Bytes | None = Field(default=None, description="What the node has still to get of the files.")
    backend: str = ""
    version: str = ""
    installs_backend: bool = False
    ready_s: float = Field(description="Until it could answer.")
    cost: dict[str, float] = Field(default_factory=dict, description="What the choice was made by, in seconds.")


class FittingOut(Lenient):
    """A node on which it would fit, too, with its cost."""

    node_id: str
    node_name: str
    cost_s: float
    cost: dict[str, float] = Field(default_factory=dict)


class NotThereOut(Lenient):
    """Why it would not go to a node."""

    node_id: str
    node_name: str
    reason: str = Field(examples=["vram"])
    sentence: str


class VictimOut(Lenient):
    """A replica that would have to go."""

    model: str
    node_id: str
    index: int


class LoadPlanOut(Lenient):
    """Where a model would go now, and why not elsewhere. Nothing was done."""

    plan: Literal[True] = True
    model: str
    fits: bool
    message: str
    code: str = Field(default="", description="Of the refusal, if it has no place.")
    fetches_files: bool = Field(description="A frontend has to fetch its files first.")
    choices: list[PlacedOut] = Field(default_factory=list)
    evicts: list[VictimOut] = Field(default_factory=list)
    others: list[FittingOut] = Field(default_factory=list, description="Where it would fit, too; the best first.")
    refused: list[NotThereOut] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class LoadStatusOut(Lenient):
    """How far a load is. What is not known is absent."""

    model: str
    operation_id: str | None = None
    state: str
    node: str | None = None
    progress: float = Field(description="0 to 100, over all files.")
    bytes_sent: Bytes | None = None
    total_bytes: Bytes | None = None
    file_name: str | None = Field(default=None, description="The file that moved last.")
    file_index: int | None = Field(default=None, description="Which of the model's files that is, from 1.")
    total_files: int | None = None
    eta_seconds: float | None = None
    message: str = ""


class TakenOut(Lenient):
    """What a report of a worker changed: keys of processes."""

    adopted: list[str] = Field(default_factory=list)
    stopping: list[str] = Field(default_factory=list)
    removed: list[str] = Field(default_factory=list)
