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
    """Bus command: asks a worker to describe itself and its machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDescription:
    """Bus reply to `DescribeNode`: a worker describes itself and its machine."""

    node_id: str
    boot_id: str
    name: str
    version: str
    uptime_s: float
    hardware: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeNode:
    """Bus command: tells a worker that something about its node has changed, so that it sends a heartbeat now."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopNode:
    """Bus command: tells a worker to finish and exit."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopNodeReply:
    """Bus reply to `StopNode`: whether the worker will stop, and which worker process answered."""

    accepted: bool
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHello:
    """Bus event of a worker: it is connected to NATS, after a start or after a broken connection."""

    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeFrontends:
    """Bus event of a frontend to all others: the outbox has new events, so read them now."""


# --- jobs: a command is accepted within two seconds, and its fate is reported by events ---


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCommand:
    """Bus command to a worker: installs, replaces, removes or rolls back one backend.

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
    """Bus command to a worker: starts an engine process with the key `model#replica`.

    Without a model the engine is only tried out.
    """

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
    """One file of a model in a bus command: its sha256, and `path`, where it belongs in the model's folder."""

    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobSource:
    """A source in a bus command from which a worker can fetch a model file; tried in order.

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
    """Bus command to a worker: fetches the files of a model to the node's disk, as a job.

    Right files that exist already are not fetched again.
    """

    job_id: str
    model: str
    revision: str
    files: tuple[ModelFileItem, ...] = ()
    places: tuple[BlobSource, ...] = ()
    operation_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadModel:
    """Bus command to a worker: runs one replica of a model as an engine process.

    One job: install the backend if it is missing, get the files, start the process, wait until it is ready. Sent twice
    it is still one; after a worker's restart it goes on where it was. `revision` is the model's run hash: the process
    carries it, and a running one with another is ended first.
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
    """Bus event of a worker: the state of one of its jobs.

    `seq` grows by one with every event of a job; the last one has a final state.

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
    """Bus reply to a command that starts a job: the worker has written the job to its journal.

    `job` is its current state.
    """

    boot_id: str
    job: JobEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob:
    """Bus command to a worker: stops a job and deletes its partial files, or keeps them for a resume."""

    job_id: str
    keeps_partial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJobReply:
    """Bus reply to `CancelJob`. `job` is absent if the worker knows no such job."""

    boot_id: str
    job: JobEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetJobs:
    """Bus command: asks a worker for the state of these jobs; without ids, of all that run and the last that ended."""

    job_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetJobsReply:
    """Bus reply to `GetJobs`: the states of the worker's jobs."""

    boot_id: str
    jobs: tuple[JobEvent, ...] = ()


# --- runs: work on behalf of a person ---


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRun:
    """Bus command to a worker: executes one attempt of a run (such as an LLM agent's turn), as a job.

    The worker fetches what to do over HTTP with its own credential, so neither texts nor secrets travel on the bus.
    """

    job_id: str
    run_id: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMcpServer:
    """Bus command to a worker: calls an MCP server of a model, outside of any run.

    With the ticket the worker fetches over HTTP, with its own credential, how the server is reached; the ticket is of
    no use to another node.

    `params` are those of `wire.runner_protocol.McpMessage`.
    """

    ticket: str
    action: str
    params: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMcpServerReply:
    """Bus reply to `CallMcpServer`: what the MCP server has answered, or why it has not."""

    boot_id: str
    result: Mapping[str, object] = field(default_factory=dict)
    # Empty if the server has answered.
    problem_code: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeRun:
    """Bus event to the worker of a run: a person has decided something, such as an approval, so ask a frontend now."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDelta:
    """Bus event between frontends: the trace of a run has grown to `last_seq`.

    Its readers then read the new entries from PostgreSQL.
    """

    run_id: str
    last_seq: int
    state: str
    # True if the last entry is the end of an attempt, which the frontend that drives the run has to conclude.
    is_ended: bool = False
    # The frontend that publishes it.
    origin: str = ""


# --- what is installed and what runs ---


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBackends:
    """Bus command: asks a worker which backends are installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledBackendItem:
    """One installed backend in a bus reply, as `domain.backend.InstalledBackend`; `installed_at` is ISO 8601."""

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
    """Bus reply to `ListBackends`. `removed`: backends that are gone, with the generation of their removal."""

    boot_id: str
    backends: tuple[InstalledBackendItem, ...] = ()
    removed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectBackends:
    """Bus command to a worker: deletes files that no engine backend uses, or only lists them."""

    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageItem:
    """One unused file or folder below a worker's engine backends folder, in a bus reply."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectBackendsReply:
    """Bus reply to `CollectBackends`. `items` are the largest; `count` and `freed_bytes` are about all of them."""

    items: tuple[GarbageItem, ...] = ()
    count: int = 0
    freed_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StopBackend:
    """Bus command to a worker: ends the engine processes of one backend, or all of them.

    An empty message ends nothing.
    """

    backend: str = ""
    all: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopBackendReply:
    """Bus reply to `StopBackend`: engine processes that the worker ended. `survivors` could not be ended."""

    stopped: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StopModel:
    """Bus command to a worker: ends the engine process of exactly this replica of a model.

    With another address than expected the process is left alone.
    """

    process_key: str
    expected_address: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopModelReply:
    """Bus reply to `StopModel`, sent after the engine process has ended.

    An unknown key counts as terminated and not matched.
    """

    process_key: str
    matched: bool
    terminated: bool
    address: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteModel:
    """Bus command to a worker: removes a model's files. Files that another model of the node uses stay."""

    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteModelReply:
    """Bus reply to `DeleteModel`: how many files the worker removed, and the bytes that this freed."""

    model: str
    files: int = 0
    freed_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRunning:
    """Bus command: asks a worker which engine processes run."""

    # Measure memory and CPU of each process now, which takes a fraction of a second.
    measures: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProcess:
    """One engine process of a node in a bus reply: model, backend, address, state and measured use."""

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
    """Bus reply to `ListRunning`: the engine processes of one worker."""

    boot_id: str
    processes: tuple[RunningProcess, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """Bus command to a worker: reads log lines of an engine process after a number, waiting a little for the first.

    Without a key: lists the logs.
    """

    key: str = ""
    after: int = 0
    limit: int = 500
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of an engine process's output, in a bus reply."""

    number: int
    at: str
    stream: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLogReply:
    """Bus reply to `ReadLog`: lines of an engine's log.

    `next` is the number to ask for afterwards; `first` is the oldest line there is.
    """

    keys: tuple[str, ...] = ()
    lines: tuple[LogLine, ...] = ()
    first: int = 0
    next: int = 0


# --- between frontends ---


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDelta:
    """Progress of an operation on one of its nodes, inside the bus event `OperationDelta`."""

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
    """Bus event between frontends: the progress of an operation for its watchers.

    It holds only the nodes whose progress has changed.
    """

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
    """Requests that one frontend sends to a model at one replica, inside the bus event `FrontendTraffic`.

    Without a replica: requests that have reached none.

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
    """Bus event of a frontend, once a second: the inference traffic through that frontend.

    `places` is only sent while a client watches.
    """

    origin: str
    streams_open: int = 0
    # The sum over all places.
    total: ReplicaTraffic
    places: tuple[ReplicaTraffic, ...] = ()
    # True while a client watches this frontend.
    is_watched: bool = False
