"""A job as it stands in the journal: what was asked, where it is, and what has to be known after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from corral.bus.messages import BackendCommand, JobEvent, LoadModel, StageModel, StartBackend

Command = BackendCommand | StartBackend | LoadModel | StageModel


class JobKind(StrEnum):
    INSTALL = "install"
    UPGRADE = "upgrade"
    ROLLBACK = "rollback"
    DELETE = "delete"
    START = "start"
    LOAD = "load"  # one replica of a model: its backend, its files, its process
    STAGE = "stage"  # the files of a model

    @property
    def needs_build(self) -> bool:
        return self in (JobKind.INSTALL, JobKind.UPGRADE)

    @property
    def is_change(self) -> bool:
        """Of a backend, with a generation."""
        return self in (JobKind.INSTALL, JobKind.UPGRADE, JobKind.ROLLBACK, JobKind.DELETE)


class Stop(StrEnum):
    """Why a job is to end before its time."""

    CANCEL = "cancel"
    PAUSE = "pause"
    REPLACE = "replace"  # a newer command wants something else of the same backend


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    kind: JobKind
    # Which of them it is can be told from its fields alone; the journal relies on it.
    command: Command
    # The concrete name, as it was resolved when the job was accepted; empty if it is about files only.
    backend: str
    event: JobEvent
    # No event of this life has a larger number; the next life goes on from here.
    reserved_seq: int
    # The order in which jobs were accepted.
    number: int
    stop: Stop | None = None
    keeps_partial: bool = False
    # How often a worker has begun it; one that takes the worker down with it must not do so for ever.
    lives: int = 1

    @property
    def job_id(self) -> str:
        return self.command.job_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What must not be forgotten with the jobs: it refuses what comes late.

    All of it was said to one node. The same machine as another node, of another cluster perhaps, begins anew.
    """

    node_id: str | None = None
    # The newest generation of each concrete backend.
    generations: Mapping[str, int] = field(default_factory=dict)
    # Jobs that were cancelled before they came; True: paused.
    cancelled: Mapping[str, bool] = field(default_factory=dict)
