"""The registry of the bus: every subject, who sends on it, who listens, what it carries and how long it may take.

The client, the minted permissions, the reference page and the tests are made from `SUBJECTS`. A subject that is not
listed here cannot be used: no credential allows it. Node ids become one token by the same function everywhere.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

from corral.bus.messages import (
    BackendCommand,
    CallMcpServer,
    CallMcpServerReply,
    CancelJob,
    CancelJobReply,
    CollectBackends,
    CollectBackendsReply,
    DeleteModel,
    DeleteModelReply,
    DescribeNode,
    FrontendTraffic,
    GetJobs,
    GetJobsReply,
    JobAcceptedReply,
    JobEvent,
    ListBackends,
    ListBackendsReply,
    ListRunning,
    ListRunningReply,
    LoadModel,
    NodeDescription,
    OperationDelta,
    ReadLog,
    ReadLogReply,
    RunDelta,
    StageModel,
    StartBackend,
    StartRun,
    StopBackend,
    StopBackendReply,
    StopModel,
    StopModelReply,
    StopNode,
    StopNodeReply,
    WakeFrontends,
    WakeNode,
    WakeRun,
    WorkerHello,
)
from corral.domain.errors import InvalidRequest

Q = TypeVar("Q")
R = TypeVar("R")

INBOX = "_INBOX"
NODE_FIELD = "{node}"


class BusRole(StrEnum):
    """Names who uses NATS: a frontend, a worker, or an agent node, which has no engines."""

    FRONTEND = "frontend"
    WORKER = "worker"
    AGENT = "agent"

    @property
    def is_node(self) -> bool:
        """Return whether the role is that of a node, which sees only its own subjects; a frontend sees those of every
        node."""
        return self is not BusRole.FRONTEND


class SubjectKind(StrEnum):
    """Names whether a NATS subject carries requests with replies or publications."""

    REQUEST = "request"
    PUBLISH = "publish"


FRONTENDS = frozenset({BusRole.FRONTEND})
NODES = frozenset({BusRole.WORKER, BusRole.AGENT})
# An agent node never gets a backend or a model, so it does not subscribe to these.
WORKERS = frozenset({BusRole.WORKER})
# The reply "accepted" comes within this time; the work itself may take longer.
ACCEPT_S = 2.0
# Stopping and reading wait for processes and people; so many of them at a time are enough for one machine.
SLOW_AT_A_TIME = 16
# More than a worker accepts: those beyond are refused at once instead of waiting in line.
MCP_CALLS_AT_A_TIME = 200
# Connecting, the longest call, and what the worker and the server need to give up.
MCP_CALL_S = 60.0 + 360.0 + 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectSpec(Generic[Q, R]):
    """Describes one NATS subject. A request has a reply type and a timeout; a publication has neither."""

    name: str
    template: str
    kind: SubjectKind
    senders: frozenset[BusRole]
    receivers: frozenset[BusRole]
    request: type[Q]
    reply: type[R] | None = None
    timeout_s: float | None = None
    # How many messages of one subscription are handled at a time. One keeps their order; more is for handlers that
    # wait, so that one that waits does not delay the others.
    parallel: int = 1
    doc: str

    def __post_init__(self) -> None:
        is_request = self.kind is SubjectKind.REQUEST
        assert (self.reply is not None) == is_request, f"{self.name}: only a request has a reply"
        assert (self.timeout_s is not None) == is_request, f"{self.name}: only a request has a timeout"

    @property
    def is_per_node(self) -> bool:
        return NODE_FIELD in self.template


@dataclass(frozen=True, slots=True, kw_only=True)
class BusPermissions:
    """Lists the NATS subjects that one credential may publish and subscribe to."""

    publish_allow: tuple[str, ...]
    subscribe_allow: tuple[str, ...]
    allow_responses: bool

    def __post_init__(self) -> None:
        # For NATS an empty list means "everything", which is the opposite of what it says.
        assert self.publish_allow, "a credential without a publish list may publish everything"
        assert self.subscribe_allow, "a credential without a subscribe list may subscribe to everything"


NODE_DESCRIBE = SubjectSpec(
    name="node.describe",
    template="nodes.{node}.describe",
    kind=SubjectKind.REQUEST,
    senders=FRONTENDS,
    receivers=NODES,
    request=DescribeNode,
    reply=NodeDescription,
    timeout_s=2.0,
    doc="Asks a worker to describe itself and its machine.",
)
NODE_WAKE: SubjectSpec[WakeNode, None] = SubjectSpec(
    name="node.wake",
    template="nodes.{node}.wake",
    kind=SubjectKind.PUBLISH,
    senders=FRONTENDS,
    receivers=NODES,
    request=WakeNode,
    doc="Hints that the worker should send a heartbeat now and read its state again.",
)
NODE_STOP = SubjectSpec(
    name="node.stop",
    template="nodes.{node}.stop",
    kind=SubjectKind.REQUEST,
    senders=FRONTENDS,
    receivers=NODES,
    request=StopNode,
    reply=StopNodeReply,
    timeout_s=2.0,
    doc="Asks a worker to finish and end.",
)
NODE_HELLO: SubjectSpec[WorkerHello, None] = SubjectSpec(
    name="node.hello",
    template="nodes.{node}.hello",
    kind=SubjectKind.PUBLISH,
    senders=NODES,
    receivers=FRONTENDS,
    request=WorkerHello,
    doc="Tells the frontends that a worker is on the bus; sent after every connect.",
)
FRONTENDS_WAKE: SubjectSpec[WakeFrontends, None] = SubjectSpec(
    name="frontends.wake",
    template="frontends.wake",
    kind=SubjectKind.PUBLISH,
    senders=FRONTENDS,
    receivers=FRONTENDS,
    request=WakeFrontends,
    doc="Hints that the outbox has moved.",
)


def _make_command(
    name: str, request: type[Q], reply: type[R], doc: str, *, timeout_s: float = ACCEPT_S, parallel: int = 1
) -> SubjectSpec[Q, R]:
    return SubjectSpec(
        name=name,
        template=f"nodes.{{node}}.{name}",
        kind=SubjectKind.REQUEST,
        senders=FRONTENDS,
        receivers=WORKERS,
        request=request,
        reply=reply,
        timeout_s=timeout_s,
        parallel=parallel,
        doc=doc,
    )


BACKEND_INSTALL = _make_command("backend.install", BackendCommand, JobAcceptedReply, "Install a backend; a job.")
BACKEND_UPGRADE = _make_command(
    "backend.upgrade",
    BackendCommand,
    JobAcceptedReply,
    "Replace the installed build, also by the same one; a job.",
)
BACKEND_ROLLBACK = _make_command(
    "backend.rollback", BackendCommand, JobAcceptedReply, "Return to the previous version; a job."
)
BACKEND_DELETE = _make_command("backend.delete", BackendCommand, JobAcceptedReply, "Remove a backend; a job.")
BACKEND_START = _make_command("backend.start", StartBackend, JobAcceptedReply, "Run an engine as a process; a job.")
BACKEND_LIST = _make_command("backend.list", ListBackends, ListBackendsReply, "List the installed backends.")
BACKEND_COLLECT = _make_command(
    "backend.collect",
    CollectBackends,
    CollectBackendsReply,
    "Delete files that no backend uses, or list them.",
    timeout_s=30.0,
    parallel=SLOW_AT_A_TIME,
)
BACKEND_STOP = _make_command(
    "backend.stop",
    StopBackend,
    StopBackendReply,
    "End the processes of a backend; replies when they have ended.",
    timeout_s=30.0,
    parallel=SLOW_AT_A_TIME,
)
BACKEND_LOGS = _make_command(
    "backend.logs", ReadLog, ReadLogReply, "Read lines of a process's output.", timeout_s=10.0, parallel=SLOW_AT_A_TIME
)
JOBS_GET = replace(
    _make_command("jobs.get", GetJobs, GetJobsReply, "List the states of jobs, also of ended ones."), receivers=NODES
)
JOBS_CANCEL = replace(
    _make_command("jobs.cancel", CancelJob, CancelJobReply, "Stop a job, with or without its partial files."),
    receivers=NODES,
)
RUN_START = replace(_make_command("run.start", StartRun, JobAcceptedReply, "Execute a run; a job."), receivers=NODES)
RUN_WAKE: SubjectSpec[WakeRun, None] = SubjectSpec(
    name="run.wake",
    template="nodes.{node}.run.wake",
    kind=SubjectKind.PUBLISH,
    senders=FRONTENDS,
    receivers=NODES,
    request=WakeRun,
    doc="Hints that a decision about a run is there for its worker to fetch.",
)
MCP_CALL = replace(
    _make_command(
        "mcp.call",
        CallMcpServer,
        CallMcpServerReply,
        "Call an MCP server of a model; replies when it has answered.",
        timeout_s=MCP_CALL_S,
        parallel=MCP_CALLS_AT_A_TIME,
    ),
    receivers=NODES,
)
MODEL_LOAD = _make_command("model.load", LoadModel, JobAcceptedReply, "Run a replica: engine, files, process; a job.")
MODEL_STAGE = _make_command("model.stage", StageModel, JobAcceptedReply, "Fetch the files of a model; a job.")
MODEL_STOP = _make_command(
    "model.stop",
    StopModel,
    StopModelReply,
    "End exactly one process; replies when it has ended.",
    timeout_s=30.0,
    parallel=SLOW_AT_A_TIME,
)
MODEL_DELETE = _make_command(
    "model.delete", DeleteModel, DeleteModelReply, "Remove a model's files.", timeout_s=30.0, parallel=SLOW_AT_A_TIME
)
MODELS_RUNNING = _make_command("models.running", ListRunning, ListRunningReply, "List the running processes.")
JOB_EVENT: SubjectSpec[JobEvent, None] = SubjectSpec(
    name="jobs.event",
    template="nodes.{node}.jobs.event",
    kind=SubjectKind.PUBLISH,
    senders=NODES,
    receivers=FRONTENDS,
    request=JobEvent,
    doc="The state of a job: at most four times a second, and always the final one.",
)
OPERATION_DELTA: SubjectSpec[OperationDelta, None] = SubjectSpec(
    name="frontends.operation",
    template="frontends.operation",
    kind=SubjectKind.PUBLISH,
    senders=FRONTENDS,
    receivers=FRONTENDS,
    request=OperationDelta,
    doc="The progress of an operation, for watchers at other frontends.",
)
RUN_DELTA: SubjectSpec[RunDelta, None] = SubjectSpec(
    name="frontends.run",
    template="frontends.run",
    kind=SubjectKind.PUBLISH,
    senders=FRONTENDS,
    receivers=FRONTENDS,
    request=RunDelta,
    doc="Hints that the trace of a run has grown or ended, for its readers and its driver at other frontends.",
)
FRONTEND_NUMBERS: SubjectSpec[FrontendTraffic, None] = SubjectSpec(
    name="frontends.numbers",
    template="frontends.numbers",
    kind=SubjectKind.PUBLISH,
    senders=FRONTENDS,
    receivers=FRONTENDS,
    request=FrontendTraffic,
    doc="The traffic of a frontend, once a second, so that each can show the sum.",
)

SUBJECTS: tuple[SubjectSpec[Any, Any], ...] = (
    NODE_DESCRIBE,
    NODE_WAKE,
    NODE_STOP,
    NODE_HELLO,
    FRONTENDS_WAKE,
    BACKEND_INSTALL,
    BACKEND_UPGRADE,
    BACKEND_ROLLBACK,
    BACKEND_DELETE,
    BACKEND_START,
    BACKEND_LIST,
    BACKEND_COLLECT,
    BACKEND_STOP,
    BACKEND_LOGS,
    JOBS_GET,
    JOBS_CANCEL,
    JOB_EVENT,
    MODEL_LOAD,
    MODEL_STAGE,
    MODEL_STOP,
    MODEL_DELETE,
    MODELS_RUNNING,
    RUN_START,
    RUN_WAKE,
    MCP_CALL,
    OPERATION_DELTA,
    RUN_DELTA,
    FRONTEND_NUMBERS,
)


def sanitise_token(text: str) -> str:
    """Return the text as one token of a subject: characters with a meaning in NATS, and invisible ones, become `-`."""
    if not text:
        raise InvalidRequest("A subject cannot be built from an empty id.")
    return "".join("-" if _is_reserved(character) else character for character in text)


def format_subject(spec: SubjectSpec[Any, Any], *, node: str | None = None) -> str:
    """Return the subject for one node, or the only one if the template names none."""
    if spec.is_per_node != (node is not None):
        problem = "needs a node id" if spec.is_per_node else "does not belong to a node"
        raise InvalidRequest(f"The subject {spec.name} {problem}.")
    return spec.template if node is None else spec.template.replace(NODE_FIELD, sanitise_token(node))


def format_pattern(spec: SubjectSpec[Any, Any], *, node: str | None = None) -> str:
    """Return the pattern to subscribe to: the subject of one node or, without one, that of every node."""
    return format_subject(spec, node=node) if node is not None else spec.template.replace(NODE_FIELD, "*")


def parse_node(spec: SubjectSpec[Any, Any], concrete: str) -> str | None:
    """Return the node token of a received subject."""
    if not spec.is_per_node:
        return None
    before, after = spec.template.split(NODE_FIELD)
    return concrete.removeprefix(before).removesuffix(after)


def make_inbox_prefix(owner_id: str) -> str:
    """Return the prefix of the inbox for replies to this credential; no other credential may listen there."""
    return f"{INBOX}.{sanitise_token(owner_id)}"


def make_permissions(role: BusRole, owner_id: str) -> BusPermissions:
    """Return the permissions of a role. `owner_id` is the node's id or the frontend's."""
    node = owner_id if role.is_node else None
    sent = [spec for spec in SUBJECTS if role in spec.senders]
    received = [spec for spec in SUBJECTS if role in spec.receivers]
    return BusPermissions(
        publish_allow=tuple(_format_allowed(spec, node) for spec in sent),
        subscribe_allow=(*(_format_allowed(spec, node) for spec in received), f"{make_inbox_prefix(owner_id)}.>"),
        allow_responses=any(spec.kind is SubjectKind.REQUEST for spec in received),
    )


def render_reference() -> str:
    """Render the reference page: one row for each subject."""
    rows = [
        "| subject | kind | from | to | carries | answer | timeout | what for |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for spec in SUBJECTS:
        cells = (
            f"`{spec.template.replace(NODE_FIELD, '<node>')}`",
            str(spec.kind),
            ", ".join(sorted(spec.senders)),
            ", ".join(sorted(spec.receivers)),
            f"`{spec.request.__name__}`",
            f"`{spec.reply.__name__}`" if spec.reply else "-",
            f"{spec.timeout_s:g} s" if spec.timeout_s else "-",
            spec.doc,
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _format_allowed(spec: SubjectSpec[Any, Any], node: str | None) -> str:
    return format_pattern(spec, node=node if spec.is_per_node else None)


def _is_reserved(character: str) -> bool:
    # Categories C*: control, format and unassigned characters; Z*: every kind of space.
    return character in ".*>" or character.isspace() or unicodedata.category(character)[0] in "CZ"
