"""THE registry: every subject of the bus, who sends on it, who listens, what it carries and how long it may take.

The client, the permissions that are minted, the reference page and the tests are made from `SUBJECTS`. A subject that
is not here cannot be used: no credential allows it. Node ids become one token by the same function everywhere.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from corral.bus.messages import (
    BackendCommand,
    Backends,
    BackendsCollected,
    BackendStopped,
    CancelJob,
    CollectBackends,
    DeleteModel,
    Describe,
    FrontendNumbers,
    GetJobs,
    Hello,
    JobAccepted,
    JobCancelled,
    JobEvent,
    Jobs,
    ListBackends,
    ListRunning,
    LoadModel,
    Log,
    ModelDeleted,
    ModelStopped,
    NodeDescription,
    OperationDelta,
    ReadLog,
    Running,
    StageModel,
    StartBackend,
    StopAnswer,
    StopBackend,
    StopModel,
    StopNode,
    WakeFrontends,
    WakeNode,
)
from corral.domain.errors import InvalidRequest

Q = TypeVar("Q")
R = TypeVar("R")

INBOX = "_INBOX"
NODE_FIELD = "{node}"


class Role(StrEnum):
    FRONTEND = "frontend"
    WORKER = "worker"
    AGENT = "agent"

    @property
    def is_node(self) -> bool:
        """A node sees only its own subjects; a frontend sees those of every node."""
        return self is not Role.FRONTEND


class Kind(StrEnum):
    REQUEST = "request"
    PUBLISH = "publish"


FRONTENDS = frozenset({Role.FRONTEND})
NODES = frozenset({Role.WORKER, Role.AGENT})
# An agent node never gets a backend or a model, so it does not even hear of them.
WORKERS = frozenset({Role.WORKER})
# "Accepted" is told within this time; it says nothing about how long the work takes.
ACCEPT_S = 2.0
# Stopping and reading wait for processes and people; so many of them at a time are enough for one machine.
SLOW_AT_A_TIME = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectSpec(Generic[Q, R]):
    """One subject. A request has a reply type and a timeout; a publication has neither."""

    name: str
    template: str
    kind: Kind
    senders: frozenset[Role]
    receivers: frozenset[Role]
    request: type[Q]
    reply: type[R] | None = None
    timeout_s: float | None = None
    # How many messages of one subscription are handled at a time. One keeps their order; more is for handlers that
    # wait for something, so that one that waits does not make the others wait.
    parallel: int = 1
    doc: str

    def __post_init__(self) -> None:
        is_request = self.kind is Kind.REQUEST
        assert (self.reply is not None) == is_request, f"{self.name}: only a request has a reply"
        assert (self.timeout_s is not None) == is_request, f"{self.name}: only a request has a timeout"

    @property
    def is_per_node(self) -> bool:
        return NODE_FIELD in self.template


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """What one credential may do. `allow_responses`: one reply to each request that it received."""

    publish_allow: tuple[str, ...]
    subscribe_allow: tuple[str, ...]
    allow_responses: bool

    def __post_init__(self) -> None:
        # To NATS an empty list means "everything", which is the opposite of what it says.
        assert self.publish_allow, "a credential without a publish list may publish everything"
        assert self.subscribe_allow, "a credential without a subscribe list may subscribe to everything"


NODE_DESCRIBE = SubjectSpec(
    name="node.describe",
    template="nodes.{node}.describe",
    kind=Kind.REQUEST,
    senders=FRONTENDS,
    receivers=NODES,
    request=Describe,
    reply=NodeDescription,
    timeout_s=2.0,
    doc="Asks a worker who it is and what its machine has.",
)
NODE_WAKE: SubjectSpec[WakeNode, None] = SubjectSpec(
    name="node.wake",
    template="nodes.{node}.wake",
    kind=Kind.PUBLISH,
    senders=FRONTENDS,
    receivers=NODES,
    request=WakeNode,
    doc="Hints that the worker should send a heartbeat now and read its state again.",
)
NODE_STOP = SubjectSpec(
    name="node.stop",
    template="nodes.{node}.stop",
    kind=Kind.REQUEST,
    senders=FRONTENDS,
    receivers=NODES,
    request=StopNode,
    reply=StopAnswer,
    timeout_s=2.0,
    doc="Asks a worker to finish and end.",
)
NODE_HELLO: SubjectSpec[Hello, None] = SubjectSpec(
    name="node.hello",
    template="nodes.{node}.hello",
    kind=Kind.PUBLISH,
    senders=NODES,
    receivers=FRONTENDS,
    request=Hello,
    doc="Tells the frontends that a worker is on the bus; sent after every connect.",
)
FRONTENDS_WAKE: SubjectSpec[WakeFrontends, None] = SubjectSpec(
    name="frontends.wake",
    template="frontends.wake",
    kind=Kind.PUBLISH,
    senders=FRONTENDS,
    receivers=FRONTENDS,
    request=WakeFrontends,
    doc="Hints that the outbox has moved.",
)


def _command(
    name: str, request: type[Q], reply: type[R], doc: str, *, timeout_s: float = ACCEPT_S, parallel: int = 1
) -> SubjectSpec[Q, R]:
    return SubjectSpec(
        name=name,
        template=f"nodes.{{node}}.{name}",
        kind=Kind.REQUEST,
        senders=FRONTENDS,
        receivers=WORKERS,
        request=request,
        reply=reply,
        timeout_s=timeout_s,
        parallel=parallel,
        doc=doc,
    )


BACKEND_INSTALL = _command("backend.install", BackendCommand, JobAccepted, "Have a backend; a job.")
BACKEND_UPGRADE = _command(
    "backend.upgrade", BackendCommand, JobAccepted, "Put a build in place of what is there, also the same one; a job."
)
BACKEND_ROLLBACK = _command("backend.rollback", BackendCommand, JobAccepted, "Go back to the version before; a job.")
BACKEND_DELETE = _command("backend.delete", BackendCommand, JobAccepted, "Remove a backend; a job.")
BACKEND_START = _command("backend.start", StartBackend, JobAccepted, "Run an engine as a process; a job.")
BACKEND_LIST = _command("backend.list", ListBackends, Backends, "What is installed.")
BACKEND_COLLECT = _command(
    "backend.collect",
    CollectBackends,
    BackendsCollected,
    "Throw away what no backend uses, or tell what that is.",
    timeout_s=30.0,
    parallel=SLOW_AT_A_TIME,
)
BACKEND_STOP = _command(
    "backend.stop",
    StopBackend,
    BackendStopped,
    "End the processes of a backend; told when they have.",
    timeout_s=30.0,
    parallel=SLOW_AT_A_TIME,
)
BACKEND_LOGS = _command(
    "backend.logs", ReadLog, Log, "Lines of a process's output.", timeout_s=10.0, parallel=SLOW_AT_A_TIME
)
JOBS_GET = _command("jobs.get", GetJobs, Jobs, "Where jobs are, also those that have ended.")
JOBS_CANCEL = _command("jobs.cancel", CancelJob, JobCancelled, "Stop a job, with or without its partial files.")
MODEL_LOAD = _command("model.load", LoadModel, JobAccepted, "Run a replica: engine, files, process; a job.")
MODEL_STAGE = _command("model.stage", StageModel, JobAccepted, "Have the files of a model; a job.")
MODEL_STOP = _command(
    "model.stop",
    StopModel,
    ModelStopped,
    "End exactly one process; told when it has.",
    timeout_s=30.0,
    parallel=SLOW_AT_A_TIME,
)
MODEL_DELETE = _command(
    "model.delete", DeleteModel, ModelDeleted, "Remove a model's files.", timeout_s=30.0, parallel=SLOW_AT_A_TIME
)
MODELS_RUNNING = _command("models.running", ListRunning, Running, "Which processes run.")
JOB_EVENT: SubjectSpec[JobEvent, None] = SubjectSpec(
    name="jobs.event",
    template="nodes.{node}.jobs.event",
    kind=Kind.PUBLISH,
    senders=WORKERS,
    receivers=FRONTENDS,
    request=JobEvent,
    doc="Where a job is: at most four times a second for each, and always the last word.",
)
OPERATION_DELTA: SubjectSpec[OperationDelta, None] = SubjectSpec(
    name="frontends.operation",
    template="frontends.operation",
    kind=Kind.PUBLISH,
    senders=FRONTENDS,
    receivers=FRONTENDS,
    request=OperationDelta,
    doc="How far an operation is, for those who watch at another frontend.",
)
FRONTEND_NUMBERS: SubjectSpec[FrontendNumbers, None] = SubjectSpec(
    name="frontends.numbers",
    template="frontends.numbers",
    kind=Kind.PUBLISH,
    senders=FRONTENDS,
    receivers=FRONTENDS,
    request=FrontendNumbers,
    doc="What passes through a frontend, once a second, so that each can show the sum.",
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
    OPERATION_DELTA,
    FRONTEND_NUMBERS,
)


def token(text: str) -> str:
    """One token of a subject: what NATS gives a meaning to, and what cannot be seen, becomes `-`."""
    if not text:
        raise InvalidRequest("A subject cannot be built from an empty id.")
    return "".join("-" if _is_reserved(character) else character for character in text)


def subject(spec: SubjectSpec[Any, Any], *, node: str | None = None) -> str:
    """The subject for one node, or the only one if the template names none."""
    if spec.is_per_node != (node is not None):
        wanted = "needs a node id" if spec.is_per_node else "does not belong to a node"
        raise InvalidRequest(f"The subject {spec.name} {wanted}.")
    return spec.template if node is None else spec.template.replace(NODE_FIELD, token(node))


def pattern(spec: SubjectSpec[Any, Any], *, node: str | None = None) -> str:
    """What to subscribe to: the subject of one node or, without one, that of every node."""
    return subject(spec, node=node) if node is not None else spec.template.replace(NODE_FIELD, "*")


def node_in(spec: SubjectSpec[Any, Any], concrete: str) -> str | None:
    """The node token of a received subject."""
    if not spec.is_per_node:
        return None
    before, after = spec.template.split(NODE_FIELD)
    return concrete.removeprefix(before).removesuffix(after)


def inbox_prefix(owner_id: str) -> str:
    """Where replies for this credential arrive; nobody else may listen there."""
    return f"{INBOX}.{token(owner_id)}"


def permissions(role: Role, owner_id: str) -> Permissions:
    """What the registry gives to a role. `owner_id` is the node's id or the frontend's."""
    node = owner_id if role.is_node else None
    sent = [spec for spec in SUBJECTS if role in spec.senders]
    received = [spec for spec in SUBJECTS if role in spec.receivers]
    return Permissions(
        publish_allow=tuple(_allowed(spec, node) for spec in sent),
        subscribe_allow=(*(_allowed(spec, node) for spec in received), f"{inbox_prefix(owner_id)}.>"),
        allow_responses=any(spec.kind is Kind.REQUEST for spec in received),
    )


def reference_markdown() -> str:
    """The reference page: one row for each subject."""
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


def _allowed(spec: SubjectSpec[Any, Any], node: str | None) -> str:
    return pattern(spec, node=node if spec.is_per_node else None)


def _is_reserved(character: str) -> bool:
    # Categories C*: control, format and unassigned characters; Z*: every kind of space.
    return character in ".*>" or character.isspace() or unicodedata.category(character)[0] in "CZ"
