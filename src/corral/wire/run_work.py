"""Bodies between frontends, workers and runner processes about the work of a run: its specification and its trace.

A specification holds secrets in clear (a ticket for models, keys of MCP servers). It travels over the node's own
authenticated connection and over pipes, never over the bus, and its secret fields are left out of representations.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from corral.domain.run import RunEventType
from corral.wire.base import LenientModel

# Limits of one delivery and of one entry; a worker cuts longer texts and says so in the entry.
EVENTS_MAX = 500
EVENT_BYTES_MAX = 64 * 1024
DELIVERY_BYTES_MAX = 768 * 1024
# The last entry holds the whole answer and new messages of the thread; it travels alone if it has to.
OUTCOME_BYTES_MAX = DELIVERY_BYTES_MAX * 3 // 4

_Id = Annotated[str, StringConstraints(min_length=1, max_length=64)]
_Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class McpServerSpec(LenientModel):
    """One MCP server that a run may call, as its runner gets it: an address, or a program that the worker starts."""

    name: _Name
    transport: Literal["http", "sse", "stdio"]
    # An address or an argument may hold a key, too.
    url: str = Field(default="", repr=False)
    # Whether connections to private addresses are refused: a user has named this server, not an admin.
    is_public_only: bool = False
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    command: str = ""
    args: list[str] = Field(default_factory=list, repr=False)
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    cwd: str = ""
    connect_s: float = 60.0
    call_s: float = 360.0
    # Names of tools that the run may use; None: all of them.
    tools: list[str] | None = None


class CallableAgentSpec(LenientModel):
    """Another LLM agent that a run may ask as if that agent were a tool."""

    name: _Name
    description: str = ""


class SkillFileSpec(LenientModel):
    """One file of a skill that a run may read: its path in the skill, and the hash by which its bytes are fetched."""

    path: _Name
    sha256: str
    size_bytes: int = 0


class SkillSpec(LenientModel):
    """A skill that the turn of an LLM agent is offered. `SKILL.md` is the first of its files."""

    name: _Name
    description: str = ""
    files: list[SkillFileSpec] = Field(default_factory=list)


class RunBudgetsSpec(LenientModel):
    """Limits (seconds, steps, tool calls, tokens) of one run, which its runner enforces; None: no limit of its own."""

    wall_s: float = 300.0
    steps: int | None = 10
    tool_calls: int | None = None
    tokens: int | None = None


class RunOptionsSpec(LenientModel):
    """Options of one run for the loop that alternates between the model and its tool calls."""

    # native: the model's own tool calls; guided: a JSON schema forces each answer to be a call or a text;
    # auto: native where the model takes tools, else guided.
    tool_mode: Literal["auto", "native", "guided"] = "auto"
    # required: the first step of the run has to call a tool.
    tool_choice: Literal["auto", "required"] = "auto"
    # How often an answer that cannot be used (an unknown tool, bad arguments) is requested again.
    max_attempts: int = 2
    # The same call with the same arguments so often in a row ends the loop with an answer.
    loop_detection: int = 5
    # Above so many tokens of history, earlier messages are replaced by a summary; 0: never.
    compaction_tokens: int = 4096
    strips_thinking: bool = True
    temperature: float | None = None
    max_tokens: int | None = None
    # A JSON schema that the final answer has to match.
    response_schema: dict[str, Any] | None = None
    # Parts of the request that are passed on to the model as they are (top_p, stop, seed, …).
    model_settings: dict[str, Any] = Field(default_factory=dict)


class RunSpec(LenientModel):
    """Specification of one run, such as a turn of an LLM agent: everything that a runner process needs for it."""

    run_id: _Id
    kind: str
    model: str
    # `/v1` of the frontends, in the order in which they are tried; filled in by the worker.
    base_urls: list[str] = Field(default_factory=list)
    # The key for model calls in the name of the run's owner.
    ticket: str = Field(default="", repr=False)
    # What a sync signs in with at a private git repository.
    repo_password: str = Field(default="", repr=False)
    # The system prompt; empty: none.
    instructions: str = ""
    # Earlier messages of the thread, then those to answer, in the form of OpenAI's chat API.
    history: list[dict[str, Any]] = Field(default_factory=list)
    messages: list[dict[str, Any]] = Field(default_factory=list)
    # Tools of the caller: the run ends with the call of one, as a chat request does. OpenAI's form.
    client_tools: list[dict[str, Any]] = Field(default_factory=list)
    mcp_servers: list[McpServerSpec] = Field(default_factory=list)
    # What happens when a tool is called, by its name or a pattern: auto, ask, deny. The first that matches counts.
    tool_rules: dict[str, Literal["auto", "ask", "deny"]] = Field(default_factory=dict)
    agents: list[CallableAgentSpec] = Field(default_factory=list)
    # Skills that the model may read with the tool `request_skill`.
    skills: list[SkillSpec] = Field(default_factory=list)
    budgets: RunBudgetsSpec = Field(default_factory=RunBudgetsSpec)
    options: RunOptionsSpec = Field(default_factory=RunOptionsSpec)
    # Sessions of MCP servers are shared by runs with this key: one owner, one configuration.
    session_key: str = ""
    # Further data of this kind of run, such as the cursor of a batch.
    extra: dict[str, Any] = Field(default_factory=dict)


class RunWorkOut(LenientModel):
    """Response of `GET /api/node/{node_id}/runs/{run_id}`: what the worker that holds a run needs to execute it."""

    job_id: _Id
    attempt: int = 1
    # The number of the last entry that is stored; the next one of this worker is one more.
    last_seq: int = 0
    spec: RunSpec = Field(repr=False)


class McpServerFetchIn(LenientModel):
    """Body of `POST /api/node/{node_id}/mcp`: a worker requests how to reach an MCP server that it has to call."""

    # Not required, so that a caller without a credential is refused before its body is judged.
    ticket: Annotated[str, StringConstraints(max_length=4096)] = Field(default="", repr=False)


class McpServerFetchOut(LenientModel):
    """Response of `POST /api/node/{node_id}/mcp`: how a worker reaches an MCP server, with secrets in clear.

    It also has the key of the MCP sessions.
    """

    session_key: str
    server: McpServerSpec = Field(repr=False)


class RunEventIn(LenientModel):
    """One entry of a run's trace (text, tool call, usage), as the worker that executes the run sends it."""

    seq: Annotated[int, Field(ge=1, le=2**53)]
    at: datetime
    type: RunEventType
    tool: Annotated[str, StringConstraints(max_length=200)] = ""
    data: dict[str, Any] = Field(default_factory=dict)

    def is_too_large(self) -> bool:
        """Return whether the entry is larger than a worker may send one."""
        is_outcome = self.type is RunEventType.END
        return measure_json(self.data) > (OUTCOME_BYTES_MAX if is_outcome else EVENT_BYTES_MAX)


class RunEventsIn(LenientModel):
    """Body of `POST /api/node/{node_id}/runs/{run_id}/events`: new entries of a run's trace from its worker.

    Without any entry the request is a sign of life.
    """

    boot_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    # Not required, so that a caller without a credential is refused before its body is judged.
    job_id: Annotated[str, StringConstraints(max_length=64)] = ""
    events: Annotated[list[RunEventIn], Field(max_length=EVENTS_MAX)] = Field(default_factory=list)


def measure_json(data: object) -> int:
    """Return how many bytes a value takes on the wire at most."""
    return len(json.dumps(data, separators=(",", ":")))


class ApprovalDecision(LenientModel):
    """A person's decision whether a run may make one tool call, on its way to the run's worker."""

    approved: bool
    reason: str = ""


class RunEventsOut(LenientModel):
    """Response of `POST /api/node/{node_id}/runs/{run_id}/events`: up to which entry the run's trace is stored.

    It also carries news for the worker, such as decisions about tool calls.
    """

    last_seq: int
    # True if the run is not this worker's any more: it was cancelled, has ended or was given to another.
    must_stop: bool = False
    # Decisions about tool calls that waited for a person, by call id.
    decisions: dict[str, ApprovalDecision] = Field(default_factory=dict)


class RunOutcome(LenientModel):
    """How a run ended: state, result and error. Data of the last entry (`end`) of the run's trace."""

    state: Literal["completed", "failed", "cancelled"]
    # The answer as text; empty if there is none.
    content: str = ""
    # Why the loop ended: answer, steps, tool_calls, tokens, wall_clock, loop, attempts, client_tool.
    reason: str = "answer"
    # New messages for the thread, in the form of OpenAI's chat API: tool calls, their results, the answer.
    messages: list[dict[str, Any]] = Field(default_factory=list)
    error_code: str = ""
    error_text: str = ""
    usage: dict[str, int] = Field(default_factory=dict)
    # Further results of this kind of run.
    result: dict[str, Any] = Field(default_factory=dict)


class ToolFileIn(LenientModel):
    """Body of `POST /api/node/{node_id}/runs/{run_id}/files`: a file that a tool of a run made, to be stored."""

    boot_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    # Not required, so that a caller without a credential is refused before its body is judged.
    job_id: Annotated[str, StringConstraints(max_length=64)] = ""
    name: Annotated[str, StringConstraints(max_length=255)] = ""
    media_type: Annotated[str, StringConstraints(max_length=100)] = ""
    # In base64.
    content: str = ""


class ToolFileOut(LenientModel):
    """Response of `POST /api/node/{node_id}/runs/{run_id}/files`: the stored file, and its path for its owner."""

    id: str
    path: str


class AskAgentIn(LenientModel):
    """Body of `POST /api/node/{node_id}/runs/{run_id}/agents/{name}`: a run's message to another LLM agent.

    The response names the run that answers.
    """

    boot_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    # Not required, so that a caller without a credential is refused before its body is judged.
    job_id: Annotated[str, StringConstraints(max_length=64)] = ""
    # The id of the tool call: the same call sent twice is one run.
    call_id: Annotated[str, StringConstraints(max_length=64)] = ""
    message: Annotated[str, StringConstraints(max_length=200_000)] = ""


class AskAgentOut(LenientModel):
    """Response about the run that another run has started by asking an LLM agent.

    `content` is the agent's answer once that run has completed.
    """

    run_id: str
    state: str
    content: str = ""
    error_text: str = ""


class SkillContentOut(LenientModel):
    """Response of `GET /api/node/{node_id}/runs/{run_id}/skills/content`: the bytes of a file of a skill."""

    # In base64.
    content: str


class SkillSyncIn(LenientModel):
    """Body of `POST /api/node/{node_id}/runs/{run_id}/skills`: the skills that a sync has found in a git repository."""

    boot_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    # Not required, so that a caller without a credential is refused before its body is judged.
    job_id: Annotated[str, StringConstraints(max_length=64)] = ""
    commit: Annotated[str, StringConstraints(max_length=64)] = ""
    # The branch is still at the commit that the frontend knows: there is no archive.
    is_unchanged: bool = False
    # A tar.gz with the folders of the skills, in base64.
    archive: str = Field(default="", repr=False)
    # Sentences about what was left out.
    problems: Annotated[list[Annotated[str, StringConstraints(max_length=1000)]], Field(max_length=100)] = Field(
        default_factory=list
    )


class SkillSyncOut(LenientModel):
    """Response of `POST /api/node/{node_id}/runs/{run_id}/skills`: how many skills the repository has now."""

    skills: int
    problem: str = ""
