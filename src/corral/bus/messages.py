"""The messages of the bus, as plain values.

Unknown fields are ignored when a message is read, so that a newer sender can add some; a field without a default
is required. A field is never renamed or given another meaning: old workers meet new frontends. No reply has a field
called `error`: that word is how a handler says that it failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """Who are you?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDescription:
    """What a worker says of itself and of its machine."""

    node_id: str
    boot_id: str
    name: str
    version: str
    uptime_s: float
    hardware: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeNode:
    """Something about you has changed: send a heartbeat now and read your state again."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopNode:
    """Finish and end the worker process."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAnswer:
    """Whether the worker will stop, and which process of it has answered."""

    accepted: bool
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A worker is on the bus, after a start or after a broken connection."""

    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeFrontends:
    """The outbox has moved: read it now."""


# --- jobs: a command is accepted within two seconds, and what becomes of it is told by events ---


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCommand:
    """Install, replace, remove or roll back one backend.

    The sender has chosen `job_id`: the same command sent twice is one job. A `generation` older than one that the
    worker has seen for this backend is refused (`stale_generation`). `build` is what to install
    (`policy/gallery.py` reads it); a removal and a rollback have none.
    """

    job_id: str
    generation: int
    backend: str
    build: Mapping[str, object] | None = None
    operation_id: str = ""
    # Only in an install: replace it even if it is there. Old workers know this, and no upgrade.
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartBackend:
    """Run an engine as the process `model#replica`; without a model it is only tried out."""

    job_id: str
    backend: str
    model: str
    replica: int = 0
    model_path: str = ""
    threads: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    # Of a replica; empty for a process that is only tried out.
    revision: str = ""
    operation_id: str = ""
    ready_s: float | None = None
    # The ticket of the load; told again with the process (`RunningProcess.ticket`).
    ticket: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileItem:
    """A file of a model, as content; `path` is where it belongs in the model's folder."""

    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobPlace:
    """Where a content can be had. They are tried in order, and any of them may have only a part of it by now.

    `kind`: node (another worker; `url` is its port and `ticket` lets this one in), library (the frontends that this
    worker knows, or the one at `url`) or storage (an address that needs nothing more). Without a sha256 it is for all
    files.
    """

    kind: str
    url: str = ""
    ticket: str = field(default="", repr=False)
    sha256: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageModel:
    """Have the files of a model; a job. What is there already, and right, is not fetched again."""

    job_id: str
    model: str
    revision: str
    files: tuple[FileItem, ...] = ()
    places: tuple[BlobPlace, ...] = ()
    operation_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadModel:
    """Run one replica: install the backend if it is missing, have the files, start the process, wait until it is ready.

    One job. Sent twice it is still one; after a worker's restart it goes on where it was. `revision` is the model's run
    hash: the process carries it, and a running one with another is ended first.
    """

    job_id: str
    model: str
    replica: int
    revision: str
    # The concrete name, and what to install if it is not there.
    backend: str
    build: Mapping[str, object] | None = None
    files: tuple[FileItem, ...] = ()
    places: tuple[BlobPlace, ...] = ()
    # What the engine is given, relative to the model's folder; empty: the folder itself.
    entry: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    # Options that count only if the engine knows them and `options` does not say otherwise.
    defaults: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    # How long the engine may take until it is ready. None: what its manifest says.
    ready_s: float | None = None
    operation_id: str = ""
    # Signed by the frontends: this node was asked to run this replica of this run hash.
    ticket: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """Where a job is. `seq` grows by one with every event of a job; the last one has a final state.

    `state`: queued, running, done, failed, cancelled, paused (`domain.operation.JobState`). Bytes that are not known
    are absent. `stopped` are the keys of processes that the job has ended, also when it failed.
    """

    job_id: str
    seq: int
    state: str
    backend: str = ""
    operation_id: str = ""
    generation: int = 0
    phase: str = ""
    percent: float = 0.0
    current_bytes: int | None = None
    total_bytes: int | None = None
    file_name: str = ""
    error_code: str = ""
    error_text: str = ""
    stopped: tuple[str, ...] = ()
    # What came out: version, digest and uri of an installation, the address of a started process.
    result: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAccepted:
    """The worker has the job, in its journal on disk. `job` is where it is now: it may have ended long ago."""

    boot_id: str
    job: JobEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob:
    """Stop it and throw its partial files away, or keep them for when it goes on."""

    job_id: str
    keeps_partial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled:
    """`job` is absent if the worker knows no such job: then there is nothing to stop."""

    boot_id: str
    job: JobEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetJobs:
    """Where these jobs are, or without ids all that run and the last that ended."""

    job_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    boot_id: str
    jobs: tuple[JobEvent, ...] = ()


# --- what is installed and what runs ---


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBackends:
    """What have you installed?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledItem:
    """As `domain.backend.InstalledBackend`; `installed_at` is ISO 8601, for people's eyes."""

    name: str
    meta: str = ""
    alias: str = ""
    version: str = ""
    digest: str = ""
    uri: str = ""
    gallery: str = ""
    generation: int = 0
    size_bytes: int | None = None
    previous_version: str = ""
    is_system: bool = False
    installed_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """`removed`: backends that are not there any more, with the generation of their removal."""

    boot_id: str
    backends: tuple[InstalledItem, ...] = ()
    removed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectBackends:
    """Throw away what takes room and is of no use, or only tell what that would be."""

    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedItem:
    """A file or folder, as it is called below the worker's folder of backends."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendsCollected:
    """`items` are the largest; `count` and `freed_bytes` are about all of them. After a dry run everything is there."""

    items: tuple[CollectedItem, ...] = ()
    count: int = 0
    freed_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StopBackend:
    """End the processes of one backend, or all of them; an empty message ends nothing."""

    backend: str = ""
    all: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendStopped:
    """`survivors` could not be ended and go on running."""

    stopped: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StopModel:
    """End exactly this process. With another address than expected it is left alone."""

    process_key: str
    expected_address: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStopped:
    """Told after the process has ended. A key that does not exist counts as terminated, and did not match."""

    process_key: str
    matched: bool
    terminated: bool
    address: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteModel:
    """Remove a model's files. Contents that another model of the node uses stay."""

    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDeleted:
    model: str
    files: int = 0
    freed_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRunning:
    """Which processes run?"""

    # Measure memory and processor of each now, which takes a fraction of a second.
    measures: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProcess:
    key: str
    model: str
    replica: int
    backend: str
    version: str
    address: str
    pid: int
    # starting, ready, unhealthy (idle, and silent when asked) or backing_off after crashes; dead and stopping ones are
    # not told.
    state: str = "ready"
    restarts: int = 0
    # The run hash that it was loaded with; empty: it was started by hand, and no request goes to it.
    revision: str = ""
    operation_id: str = ""
    # The job that has started it.
    job_id: str = ""
    threads: int = 1
    # What it takes of the machine; absent if nobody has measured it.
    vram_bytes: int | None = None
    ram_bytes: int | None = None
    # How much of the processors it uses, 100 for each; absent unless it was asked for.
    cpu_percent: float | None = None
    # What to show to it; empty if it checks nothing.
    engine_key: str = field(default="", repr=False)
    # The ticket that its load came with: without one, a process that no row knows is not adopted.
    ticket: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    boot_id: str
    processes: tuple[RunningProcess, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """Lines of a process after a number, waiting a little for the first. Without a key: which logs there are."""

    key: str = ""
    after: int = 0
    limit: int = 500
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    number: int
    at: str
    stream: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """`next` is what to ask for afterwards. Lines that were rotated away are gone: `first` is the oldest there is."""

    keys: tuple[str, ...] = ()
    lines: tuple[LogLine, ...] = ()
    first: int = 0
    next: int = 0


# --- between frontends ---


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDelta:
    """How far one node of an operation is."""

    node: str
    node_name: str
    state: str
    percent: float = 0.0
    phase: str = ""
    current_bytes: int | None = None
    total_bytes: int | None = None
    file_name: str = ""
    error_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDelta:
    """How far an operation is, for eyes that watch; the row has the same a moment later. Only targets that moved."""

    operation_id: str
    rev: int
    state: str
    percent: float = 0.0
    phase: str = ""
    current_bytes: int | None = None
    total_bytes: int | None = None
    message: str = ""
    targets: tuple[TargetDelta, ...] = ()
    # The frontend that tells it: its own words come back to it, and are nothing new there.
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceNumbers:
    """What passes through a frontend for a model at a replica; without a replica, what has reached none.

    `rates` are requests, errors, tokens of prompts and tokens, each in a second. Times are told as buckets of
    `insight/histogram.py`: number of the bucket, how many, number, how many; empty ones are left out.
    """

    model: str = ""
    replica: str = ""
    waiting: int = 0
    in_flight: int = 0
    rates: tuple[float, ...] = ()
    first_byte: tuple[int, ...] = ()
    inter_token: tuple[int, ...] = ()
    queue: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontendNumbers:
    """What passes through a frontend, once a second; `places` only while somebody looks at any frontend."""

    origin: str
    streams_open: int = 0
    # Of all places together.
    total: PlaceNumbers
    places: tuple[PlaceNumbers, ...] = ()
    # Somebody looks at this one.
    is_watched: bool = False
