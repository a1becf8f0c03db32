"""What the runner knows: the jobs, the newest generations, the cancellations that came first. All of it is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeVar

from corral.bus.messages import BackendCommand, JobEvent, LoadModel, StageModel
from corral.domain.backend import Build
from corral.domain.errors import InvalidRequest, Unprocessable
from corral.domain.operation import JobState
from corral.policy.gallery import build_from_json
from corral.worker.jobs.record import Command, JobKind, Seen
from corral.worker.jobs.telling import Job
from corral.worker.processes.keys import ProcessKey

V = TypeVar("V")

# Ended jobs that are still answered for.
MAX_ENDED = 50
# More than this is no plan but a mistake; each has a task and a file.
MAX_UNFINISHED = 200
MAX_GENERATIONS = 2000
MAX_CANCELLED = 500
# Longer than any id or name of ours.
MAX_TEXT = 255


@dataclass(slots=True)
class Memory:
    node_id: str | None = None
    # In the order in which they were accepted.
    jobs: dict[str, Job] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    cancelled: dict[str, bool] = field(default_factory=dict)
    _number: int = 0

    def load(self, seen: Seen) -> None:
        self.node_id = seen.node_id
        self.generations.update(seen.generations)
        self.cancelled.update(seen.cancelled)

    def add(self, job: Job) -> None:
        self.jobs[job.id] = job
        self._number = max(self._number, job.number)

    def next_number(self) -> int:
        return self._number + 1

    def seen(self) -> Seen:
        return Seen(node_id=self.node_id, generations=dict(self.generations), cancelled=dict(self.cancelled))

    def become(self, node_id: str) -> None:
        self.node_id = node_id
        self.generations.clear()
        self.cancelled.clear()

    def is_ours(self, backend: str, generation: int) -> bool:
        """Whether this generation was told to the node that we are now."""
        return generation <= self.generations.get(backend, 0)

    def event(self, job_id: str) -> JobEvent | None:
        """Where a job is; one that was cancelled before it came is at its end."""
        job = self.jobs.get(job_id)
        if job is not None:
            return job.event
        if job_id in self.cancelled:
            state = JobState.PAUSED if self.cancelled[job_id] else JobState.CANCELLED
            return JobEvent(job_id=job_id, seq=1, state=str(state))
        return None

    def unfinished(self, backend: str | None = None) -> list[Job]:
        jobs = (job for job in self.jobs.values() if not job.is_ended)
        return [job for job in jobs if backend is None or job.backend == backend]

    def outdated(self) -> Iterator[Job]:
        """Unfinished changes of which a newer one has been seen."""
        for job in self.unfinished():
            if job.kind.is_change and job.generation < self.generations.get(job.backend, 0):
                yield job

    def see(self, backend: str, generation: int) -> bool:
        """Whether this generation is news."""
        if generation <= self.generations.get(backend, 0):
            return False
        self.generations.pop(backend, None)
        self.generations[backend] = generation
        _keep_last(self.generations, MAX_GENERATIONS)
        return True

    def cancel_unknown(self, job_id: str, *, keeps_partial: bool) -> None:
        self.cancelled.pop(job_id, None)
        self.cancelled[job_id] = keeps_partial
        _keep_last(self.cancelled, MAX_CANCELLED)

    def take_surplus(self) -> list[str]:
        """Ended jobs that are too many, oldest first; they are forgotten."""
        ended = [job.id for job in self.jobs.values() if job.is_ended]
        surplus = ended[: max(0, len(ended) - MAX_ENDED)]
        for job_id in surplus:
            del self.jobs[job_id]
        return surplus

    def name_of(self, name: str) -> str | None:
        """The concrete name of what is only just being installed under this name, if there is one such thing."""
        builds = (job.build for job in self.unfinished() if job.build is not None)
        names = {build.name for build in builds if name in (build.name, build.meta, build.alias)}
        return names.pop() if len(names) == 1 else None


def build_of(kind: JobKind, command: Command) -> Build | None:
    """What is to be installed; a command that needs one and has none that can be read is refused."""
    if isinstance(command, LoadModel):
        if command.build is None:
            return None
    elif not isinstance(command, BackendCommand) or not kind.needs_build:
        return None
    if command.build is None:
        raise Unprocessable(f"The command to {kind} {command.backend} says not what.", code="bad_manifest")
    try:
        return build_from_json(command.build)
    except InvalidRequest as error:
        raise Unprocessable(error.message, hint=error.hint, code="bad_manifest") from error


def check_command(command: Command) -> None:
    texts = {"job_id": command.job_id}
    if not isinstance(command, StageModel):
        texts["backend"] = command.backend
    if isinstance(command, LoadModel | StageModel):
        texts["revision"] = command.revision
        # It says what is wrong with the model's name.
        ProcessKey(model=command.model, replica=command.replica if isinstance(command, LoadModel) else 0)
    for name, text in texts.items():
        if not text or len(text) > MAX_TEXT:
            raise InvalidRequest(f"{name} has {len(text)} characters; it needs 1 to {MAX_TEXT}.")
    if isinstance(command, LoadModel):
        _check_entry(command.entry)


def _check_entry(entry: str) -> None:
    path = PurePosixPath(entry)
    if path.is_absolute() or ".." in path.parts or "\0" in entry:
        raise InvalidRequest(f"{entry[:80]!r} does not lie in the model's folder.", code="bad_entry")


def _keep_last(values: dict[str, V], count: int) -> None:
    while len(values) > count:
        del values[next(iter(values))]
