"""Bodies about loading, unloading and placing models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from corral.wire.base import LenientModel, StrictModel
from corral.wire.nodes import Bytes

_Name = Annotated[str, StringConstraints(min_length=1, max_length=255)]
_Nodes = Annotated[list[_Name], Field(min_length=1, max_length=1000)]


class LoadIn(StrictModel):
    """Body of `POST /api/models/{name}/load`: how many replicas to add to a model, each on another node."""

    count: int = Field(default=1, ge=1, le=1000, description="Number of replicas to add.")
    nodes: _Nodes | None = Field(default=None, description="Names or ids of nodes; absent: Corral picks the best.")


class UnloadIn(StrictModel):
    """Body of `POST /api/models/{name}/unload`: which replicas of a model to end."""

    nodes: _Nodes | None = Field(default=None, description="Names or ids of nodes; absent: all nodes.")
    force: bool = Field(default=False, description="Do not wait for requests in flight.")
    delete_files: bool = Field(
        default=False, description="Also delete the copies of its files on these nodes. The model stays."
    )


class NodeModelIn(LenientModel):
    """Body that unloads or deletes a model on one node, in the form that LocalAI's clients send."""

    model_name: _Name
    force: bool = Field(default=False, description="Do not wait for requests in flight.")


class LoadPlanIn(LoadIn):
    """Body of `POST /api/plan`: a load of a model for which only the placement is to be computed."""

    model: _Name


class ModelNameIn(LenientModel):
    """Body of LocalAI's `POST /backend/load` and `/backend/shutdown`: the name of a model to load or unload."""

    model: _Name


class PlacementOut(LenientModel):
    """One replica in the plan of a load: the node that would get it, its memory and estimated seconds."""

    node_id: str
    node_name: str
    index: int
    threads: int
    vram_bytes: Bytes | None = None
    ram_bytes: Bytes | None = None
    fetch_bytes: Bytes | None = Field(
        default=None, description="Bytes of the files that the node still has to download."
    )
    backend: str = ""
    version: str = ""
    installs_backend: bool = False
    ready_s: float = Field(description="Estimated seconds until the replica is ready.")
    cost: dict[str, float] = Field(default_factory=dict, description="Cost in seconds by which the node was chosen.")


class FittingNodeOut(LenientModel):
    """A node in the plan of a load that was not chosen although the replica would fit, with its cost."""

    node_id: str
    node_name: str
    cost_s: float
    cost: dict[str, float] = Field(default_factory=dict)


class RefusedNodeOut(LenientModel):
    """A node in the plan of a load that cannot take the replica, and why."""

    node_id: str
    node_name: str
    reason: str = Field(examples=["vram"])
    sentence: str


class EvictionVictimOut(LenientModel):
    """A replica in the plan of a load that would be unloaded to make room."""

    model: str
    node_id: str
    index: int


class LoadPlanOut(LenientModel):
    """Response of `POST /api/plan`: the nodes that would get a model's replicas now, and why others would not.

    Nothing was changed.
    """

    plan: Literal[True] = True
    model: str
    fits: bool
    message: str
    code: str = Field(default="", description="Code of the error, if no node fits.")
    fetches_files: bool = Field(description="A frontend has to download its files first.")
    choices: list[PlacementOut] = Field(default_factory=list)
    evicts: list[EvictionVictimOut] = Field(default_factory=list)
    others: list[FittingNodeOut] = Field(default_factory=list, description="Other nodes that fit, best first.")
    refused: list[RefusedNodeOut] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class LoadStatusOut(LenientModel):
    """Response of `GET /api/models/{name}/load-status`: the progress of loading that model.

    A value that is not known is absent.
    """

    model: str
    operation_id: str | None = None
    state: str
    node: str | None = None
    progress: float = Field(description="Percentage over all files, 0 to 100.")
    bytes_sent: Bytes | None = None
    total_bytes: Bytes | None = None
    file_name: str | None = Field(default=None, description="The file that moved last.")
    file_index: int | None = Field(default=None, description="Number of that file among the model's files, from 1.")
    total_files: int | None = None
    eta_seconds: float | None = None
    message: str = ""


class HoldingsResultOut(LenientModel):
    """Response of `POST /api/node/{node_id}/holdings`: how the worker's report changed the replicas in PostgreSQL.

    The lists hold the keys of engine processes.
    """

    adopted: list[str] = Field(default_factory=list)
    stopping: list[str] = Field(default_factory=list)
    removed: list[str] = Field(default_factory=list)
