"""The messages of the bus, as plain values.

Unknown fields are ignored when a message is read, so that a newer sender can add some; a field without a default
is required. A field is never renamed or given another meaning: old workers meet new frontends. No reply has a field
called `error`: that word is how a handler says that it failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeNode:
    """Command: asks a worker to describe itself and its machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDescription:
    """Describes a worker and its machine, in the worker's own words."""

    node_id: str
    boot_id: str
    name: str
    version: str
    uptime_s: float
    hardware: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeNode:
    """Command: tells a worker that something about its node has changed, so it sends a heartbeat and reads its state
    now."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopNode:
    """Command: tells a worker to finish and exit."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopNodeReply:
    """Reply to `StopNode`: whether the worker will stop, and which process of it answered."""

    accepted: bool
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHello:
    """Event: a worker is on the bus, after a start or after a broken connection."""

    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeFrontends:
    """Event: the outbox has moved, so frontends read it now."""


# --- jobs: a command is accepted within two seconds, and its fate is reported by events ---


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCommand:
    """Command: installs, replaces, removes or rolls back one backend.

    The sender has chosen `job_id`: the same command sent twice is one job. A `generation` older than one that the
    worker has seen for this backend is refused (`stale_generation`). `build` is what to install
    (`policy/gallery.py` reads it); a removal and a rollback have none.
    """

    job_id: str
    generation: int
    backend: str
    build: Mapping[str, object] | None = None
    operation_id: str = ""
    # Only in an install: replace an installed backend. Old workers know this, and no upgrade.
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartBackend:
    """Command: runs an engine as the process `model#replica`; without a model it is only tried out."""

    job_id: str
    backend: str
    model: str
    replica: int = 0
    model_path: str = ""
    threads: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    # The run hash of a replica; empty for a process that is only tried out.
    revision: str = ""
    operation_id: str = ""
    ready_s: float | None = None
    # The ticket of the load; reported again with the process (`RunningProcess.ticket`).
    ticket: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFileItem:
    """Names a file of a model by its content; `path` is where it belongs in the model's folder."""

    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobSource:
    """Says where a content can be fetched from: a node, a frontend's library or shared storage. Tried in order.

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
    """Command: brings the files of a model to the node; a job. Right files that exist already are not fetched again."""

    job_id: str
    model: str
    revision: str
    files: tuple[ModelFileItem, ...] = ()
    places: tuple[BlobSource, ...] = ()
    operation_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadModel:
    """Command: runs one replica: install the backend if it is missing, get the files, start the process, wait until
    it is ready.

    One job. Sent twice it is still one; after a worker's restart it goes on where it was. `revision` is the model's run
    hash: the process carries it, and a running one with another is ended first.
    """

    job_id: str
    model: str
    replica: int
    revision: str
    # The concrete name, and the build to install if it is missing.
    backend: str
    build: Mapping[str, object] | None = None
    files: tuple[ModelFileItem, ...] = ()
    places: tuple[BlobSource, ...] = ()
    # The path that the engine is given, relative to the model's folder; empty: the folder itself.
    entry: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    # Options that count only if the engine knows them and `options` does not set them.
    defaults: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    # How long the engine may take until it is ready. None: as its manifest says.
    ready_s: float | None = None
    operation_id: str = ""
    # Signed by the frontends: this node was commanded to run this replica of this run hash.
    ticket: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """Event: the state of a job. `seq` grows by one with every event of a job; the last one has a final state.

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
    # The result: version, digest and uri of an installation, the address of a started process.
    result: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAcceptedReply:
    """Reply to a command that is a job: the worker has written it to its journal. `job` is its current state."""

    boot_id: str
    job: JobEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob:
    """Command: stops a job and deletes its partial files, or keeps them for a resume."""

    job_id: str
    keeps_partial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJobReply:
    """Reply to `CancelJob`. `job` is absent if the worker knows no such job."""

    boot_id: str
    job: JobEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetJobs:
    """Command: asks for the state of these jobs; without ids, of all that run and the last that ended."""

    job_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetJobsReply:
    """Reply to `GetJobs`: the states of the jobs."""

    boot_id: str
    jobs: tuple[JobEvent, ...] = ()


# --- what is installed and what runs ---


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBackends:
    """Command: asks which backends are installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledBackendItem:
    """Describes one installed backend, as `domain.backend.InstalledBackend`; `installed_at` is ISO 8601."""

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
class ListBackendsReply:
    """Reply to `ListBackends`. `removed`: backends that are gone, with the generation of their removal."""

    boot_id: str
    backends: tuple[InstalledBackendItem, ...] = ()
    removed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectBackends:
    """Command: deletes files that no backend uses, or only lists them."""

    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageItem:
    """Names a file or folder below the worker's folder of backends that is of no use."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectBackendsReply:
    """Reply to `CollectBackends`. `items` are the largest; `count` and `freed_bytes` are about all of them."""

    items: tuple[GarbageItem, ...] = ()
    count: int = 0
    freed_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StopBackend:
    """Command: ends the processes of one backend, or all of them; an empty message ends nothing."""

    backend: str = ""
    all: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopBackendReply:
    """Reply to `StopBackend`. `survivors` could not be ended and go on running."""

    stopped: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StopModel:
    """Command: ends exactly this process. With another address than expected it is left alone."""

    process_key: str
    expected_address: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopModelReply:
    """Reply to `StopModel`, sent after the process has ended. An unknown key counts as terminated and not matched."""

    process_key: str
    matched: bool
    terminated: bool
    address: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteModel:
    """Command: removes a model's files. Contents that another model of the node uses stay."""

    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteModelReply:
    """Reply to `DeleteModel`: how many files went, and the bytes that this freed."""

    model: str
    files: int = 0
    freed_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRunning:
    """Command: asks which processes run."""

    # Measure memory and CPU of each process now, which takes a fraction of a second.
    measures: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProcess:
    """Describes one engine process on a node: model, backend, address, state and measured use."""

    key: str
    model: str
    replica: int
    backend: str
    version: str
    address: str
    pid: int
    # starting, ready, unhealthy (idle, and silent when probed) or backing_off after crashes; dead and stopping ones are
    # not reported.
    state: str = "ready"
    restarts: int = 0
    # The run hash that the process was loaded with; empty: it was started by hand, and no request goes to it.
    revision: str = ""
    operation_id: str = ""
    # The job that has started the process.
    job_id: str = ""
    threads: int = 1
    # The measured memory; absent if it was not measured.
    vram_bytes: int | None = None
    ram_bytes: int | None = None
    # The CPU use, 100 for each core; absent unless requested.
    cpu_percent: float | None = None
    # The key to send to the engine; empty if it checks nothing.
    engine_key: str = field(default="", repr=False)
    # The ticket of its load: without one, a process that no row knows is not adopted.
    ticket: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRunningReply:
    """Reply to `ListRunning`: the processes of one worker."""

    boot_id: str
    processes: tuple[RunningProcess, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """Command: reads lines of a process after a number, waiting a little for the first. Without a key: lists the
    logs."""

    key: str = ""
    after: int = 0
    limit: int = 500
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """Holds one line of a process's output."""

    number: int
    at: str
    stream: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLogReply:
    """Reply to `ReadLog`. `next` is the number to ask for afterwards; `first` is the oldest line there is."""

    keys: tuple[str, ...] = ()
    lines: tuple[LogLine, ...] = ()
    first: int = 0
    next: int = 0


# --- between frontends ---


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDelta:
    """Says how far one node of an operation is."""

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
    """Event: the progress of an operation for its watchers, with the targets that moved."""

    operation_id: str
    rev: int
    state: str
    percent: float = 0.0
    phase: str = ""
    current_bytes: int | None = None
    total_bytes: int | None = None
    message: str = ""
    targets: tuple[TargetDelta, ...] = ()
    # The frontend that publishes it: its own messages come back to it, and are nothing new there.
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTraffic:
    """Holds what one frontend sends to a model at one replica; without a replica, what has reached none.

    `rates` are requests, errors, tokens of prompts and tokens, each in a second. Times are sent as buckets of
    `insight/tally.py`: number of the bucket, how many, number, how many; empty ones are left out.
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
class FrontendTraffic:
    """Event: the traffic of one frontend, once a second. `places` is only sent while a client watches."""

    origin: str
    streams_open: int = 0
    # The sum over all places.
    total: ReplicaTraffic
    places: tuple[ReplicaTraffic, ...] = ()
    # True while a client watches this frontend.
    is_watched: bool = False
