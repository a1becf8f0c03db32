"""Messages between a worker and its runner process: one JSON object a line, over the runner's stdin and stdout.

The worker sends `start`, `cancel`, `decide`, `reply`, `mcp`, `close_sessions`, `ping` and `stop`; the runner sends
`ready`, `event`, `end`, `call`, `mcp_result` and `pong`. Each `start` is followed by exactly one `end` with its run id.
Messages of unknown types and unknown fields are ignored, so that either side may be newer.

A message may hold secrets (a specification does): it is never logged, and its secret fields have no representation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_core import from_json

from corral.domain.errors import CorralError, TooLarge
from corral.domain.run import RunEventType
from corral.wire.base import LenientModel
from corral.wire.run_work import McpServerSpec, RunOutcome, RunSpec

# One line, without its end. A longer one is dropped by its reader. A specification holds the attachments of its
# run in base64, and a request to a model has at most 32 MiB.
LINE_BYTES_MAX = 36 * 1024 * 1024

CallMethod = Literal[
    "add_memory",
    "ask_agent",
    "flush",
    "read_batch",
    "read_document",
    "read_skill",
    "report_validation",
    "search_collection",
    "store_answers",
    "store_chunks",
    "store_file",
    "store_skills",
]
McpAction = Literal[
    "describe", "list", "call_tool", "list_prompts", "get_prompt", "list_resources", "read_resource", "ping"
]


# The variable of a runner's environment that holds its `ProgramLimits`.
PROGRAM_LIMITS_VARIABLE = "RUNNER_PROGRAM_LIMITS"
# The one that says how many seconds the first step of a run waits for MCP servers.
SERVER_GRACE_VARIABLE = "RUNNER_SERVER_GRACE_S"
# The one with the beginning of the paths of the HOMEs that the runner makes for programs.
PROGRAM_HOMES_VARIABLE = "RUNNER_PROGRAM_HOMES"
# The variable of a program's environment with its HOME, by which it and everything that it has started is found again.
PROGRAM_MARKER = "CORRAL_PROGRAM"


class ProgramLimits(LenientModel):
    """Operating-system user and resource limits for programs that are MCP servers; given to a runner at its start."""

    # The user to run as; None: the runner's own.
    user: str = ""
    uid: int | None = None
    gid: int | None = None
    # Of one process: memory that it has written to or may write to.
    memory_bytes: int = 4 * 1024**3
    # Of one file.
    file_bytes: int = 1024**3
    # Of the user, with everything else that it runs; the kernel does not count those of root.
    processes: int = 4096
    niceness: int = 10


class RunnerErrorBody(LenientModel):
    """The error in a reply between worker and runner process: why a `call` or an `mcp` message has no result."""

    code: str = "failed"
    message: str = ""


class StartMessage(LenientModel):
    """Message from the worker to its runner process: execute a run, such as an LLM agent's turn."""

    type: Literal["start"] = "start"
    run_id: str
    spec: RunSpec = Field(repr=False)


class CancelMessage(LenientModel):
    """Message from the worker to its runner process: end a run as cancelled. Ignored if there is no such run."""

    type: Literal["cancel"] = "cancel"
    run_id: str


class DecideMessage(LenientModel):
    """Message from the worker to its runner process: a person has allowed or refused a tool call that waits."""

    type: Literal["decide"] = "decide"
    run_id: str
    call_id: str
    approved: bool
    reason: str = ""


class ReplyMessage(LenientModel):
    """Message from the worker to its runner process: the answer to a `call`.

    The result of `ask_agent` has the fields of `AskAgentOut`.
    """

    type: Literal["reply"] = "reply"
    id: str
    result: dict[str, Any] | None = None
    error: RunnerErrorBody | None = None


class McpMessage(LenientModel):
    """Message from the worker to its runner process: call an MCP server, outside of any run. Answered by `mcp_result`.

    `params`: for `call_tool` and `get_prompt` {name, arguments}, for `read_resource` {uri}, else nothing. `describe`
    returns tools, prompts and resources together; what a server does not have is empty.
    """

    type: Literal["mcp"] = "mcp"
    id: str
    session_key: str = ""
    server: McpServerSpec = Field(repr=False)
    action: McpAction
    params: dict[str, Any] = Field(default_factory=dict)


class CloseSessionsMessage(LenientModel):
    """Message from the worker to its runner process: end the MCP sessions with this key, once no run uses them."""

    type: Literal["close_sessions"] = "close_sessions"
    session_key: str


class PingMessage(LenientModel):
    """Message from the worker to its runner process: answer with `pong`. A process that does not is replaced."""

    type: Literal["ping"] = "ping"


class StopMessage(LenientModel):
    """Message from the worker to its runner process: finish the active runs, start no other, then exit."""

    type: Literal["stop"] = "stop"


class ReadyMessage(LenientModel):
    """First message from the runner process to its worker: messages are read from now on."""

    type: Literal["ready"] = "ready"
    pid: int
    version: str


class EventMessage(LenientModel):
    """Message from the runner process to its worker: an entry of a run's trace, without number and time.

    The fields of `data`, by type:

    - status: message, and code and server where it is about an MCP server
    - step: step (counted from 1), mode (native, guided), is_final (tools are withheld)
    - reasoning, content: text (one piece, as it came from the model)
    - tool_call: call_id, name, arguments, is_repeatable
    - tool_result: call_id, name, content (at most 32 KiB), is_error
    - approval_requested: call_id, name, arguments
    - approval_resolved: call_id, name, approved, reason
    - usage: prompt_tokens, completion_tokens of one call of the model; is_estimated if the engine reported none
    - compacted: messages (how many were replaced), tokens_before, tokens_after, summary
    """

    type: Literal["event"] = "event"
    run_id: str
    event_type: RunEventType
    tool: str = ""
    data: dict[str, Any] = Field(default_factory=dict)


class EndMessage(LenientModel):
    """Message from the runner process to its worker: a run has ended. The last message about that run."""

    type: Literal["end"] = "end"
    run_id: str
    outcome: RunOutcome


class CallMessage(LenientModel):
    """Message from the runner process to its worker: a run needs a call that only the worker can make.

    Answered by `reply`.

    - ask_agent: params {name, message, call_id}
    - flush: no params; answered with {} once a frontend has stored every entry that the runner has sent before
    - read_batch (`BatchInputOut`), report_validation (`BatchValidationIn`), store_answers (`BatchAnswersIn`),
      store_file (`ToolFileIn`, `ToolFileOut`), read_skill (`SkillContentOut`), store_skills (`SkillSyncIn`),
      read_document (`DocumentSliceOut`), store_chunks (`DocumentChunksIn`), search_collection (`RunSearchIn`),
      add_memory (`RunMemoryIn`): the fields of the routes that they are sent to
    """

    type: Literal["call"] = "call"
    id: str
    run_id: str
    method: CallMethod
    params: dict[str, Any] = Field(default_factory=dict)


class McpResultMessage(LenientModel):
    """Message from the runner process to its worker: an MCP server's answer to an `mcp` message.

    The fields are named by the MCP specification.
    """

    type: Literal["mcp_result"] = "mcp_result"
    id: str
    result: dict[str, Any] | None = None
    error: RunnerErrorBody | None = None


class PongMessage(LenientModel):
    """Message from the runner process to its worker: the answer to a `ping`."""

    type: Literal["pong"] = "pong"


# By `type`, what either side reads.
TO_RUNNER: Mapping[str, type[LenientModel]] = {
    "start": StartMessage,
    "cancel": CancelMessage,
    "decide": DecideMessage,
    "reply": ReplyMessage,
    "mcp": McpMessage,
    "close_sessions": CloseSessionsMessage,
    "ping": PingMessage,
    "stop": StopMessage,
}
TO_WORKER: Mapping[str, type[LenientModel]] = {
    "ready": ReadyMessage,
    "event": EventMessage,
    "end": EndMessage,
    "call": CallMessage,
    "mcp_result": McpResultMessage,
    "pong": PongMessage,
}


class MalformedLine(CorralError):
    """A line between worker and runner process cannot be read.

    The message says what kind of line it was, and nothing of its content.
    """

    code = "malformed_line"


def decode_line(line: bytes, kinds: Mapping[str, type[LenientModel]]) -> LenientModel | None:
    """Return the message in a line; None if its type is unknown here. `MalformedLine` if it is no message.

    `details` of the error has `type`, and `run_id` and `id` where the line has them.
    """
    try:
        fields = from_json(line)
    except ValueError:
        raise MalformedLine("A line is not JSON.", details={"type": ""}) from None
    if not isinstance(fields, dict) or not isinstance(fields.get("type"), str):
        raise MalformedLine("A line is no JSON object with a type.", details={"type": ""})
    kind = kinds.get(fields["type"])
    if kind is None:
        return None
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"][:3])
        details = {name: value for name in ("type", "run_id", "id") if isinstance(value := fields.get(name), str)}
        raise MalformedLine(f"A {fields['type']} message is invalid at {place[:100]}.", details=details) from None


def encode_line(message: LenientModel) -> bytes:
    """Return a message as one line. `TooLarge` if the other side would drop it."""
    line = message.model_dump_json().encode() + b"\n"
    if len(line) > LINE_BYTES_MAX:
        raise TooLarge(
            f"A message of {len(line)} bytes is too large; a line has at most {LINE_BYTES_MAX}.",
            details={"size_bytes": len(line), "limit_bytes": LINE_BYTES_MAX},
        )
    return line
