"""Bodies about agents, their threads and turns, and declared MCP servers.

The names of settings are those of LocalAGI where they mean the same here; what has no effect here is not among them.
The form of the page is generated from this type, so it shows no field that does nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, field_validator

from corral.wire.base import LenientModel, StrictModel
from corral.wire.localai import AGENT_FIELDS_WITHOUT_EFFECT, LocalAiBody, list_programs
from corral.wire.runs import RunOut

_Name = Annotated[str, StringConstraints(max_length=100)]
_Short = Annotated[str, StringConstraints(max_length=255)]
_Text = Annotated[str, StringConstraints(max_length=64 * 1024)]
_Duration = Annotated[str, StringConstraints(max_length=20)]
_HeaderName = Annotated[str, StringConstraints(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$")]
_HeaderValue = Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\r\n\x00]*$")]
_Headers = Annotated[dict[_HeaderName, _HeaderValue], Field(max_length=50)]


class McpServerIn(StrictModel):
    """An MCP server at an address that an LLM agent or a task may call; part of the body that saves it."""

    model_config = ConfigDict(hide_input_in_errors=True)

    name: Annotated[str, StringConstraints(max_length=50)] = Field(
        default="", description="Names of its tools begin with it. Without one: made from the address."
    )
    url: Annotated[str, StringConstraints(min_length=1, max_length=2000)] = Field(
        examples=["https://tools.example/mcp"]
    )
    transport: Literal["http", "sse"] = Field(default="http", description="http: streamable HTTP; sse: the older form.")
    headers: _Headers = Field(default_factory=dict, description="Secret values are references: secret:NAME.")
    token: Annotated[str, StringConstraints(max_length=200)] = Field(
        default="", description="Sent as `Authorization: Bearer`. A reference: secret:NAME.", examples=["secret:tools"]
    )


class AgentBudgetsIn(StrictModel):
    """Limits of one turn of an LLM agent, such as steps and seconds; part of the body that saves the agent."""

    wall: _Duration = Field(
        default="", description="How long a turn may take. Empty: the setting `run_timeout`, else 5m.", examples=["5m"]
    )
    tool_calls: Annotated[int, Field(ge=0, le=10_000)] | None = Field(default=None, description="Calls of tools.")
    tokens: Annotated[int, Field(ge=1, le=10**9)] | None = Field(default=None, description="Tokens, read and written.")


def _field(section: str, description: str, **more: Any) -> Any:
    return Field(description=description, json_schema_extra={"section": section}, **more)


class AgentSettings(StrictModel):
    """The configuration of an LLM agent as people send it: its model, instructions, tools and limits."""

    model_config = ConfigDict(hide_input_in_errors=True)

    description: _Short = _field("identity", "What the agent is for; other agents read it before they ask.", default="")
    model: _Short = _field("model", "The model that answers.", default="", examples=["chat"])
    temperature: Annotated[float, Field(ge=0, le=5)] | None = _field("model", "Unset: the model's own.", default=None)
    max_tokens: Annotated[int, Field(ge=1, le=10**7)] | None = _field(
        "model", "The longest answer of one call of the model.", default=None
    )
    tool_mode: Literal["auto", "native", "guided"] = _field(
        "model",
        "native: the model's own tool calls; guided: forced by a schema; auto: whichever the model takes.",
        default="auto",
    )
    tool_choice: Literal["auto", "required"] = _field(
        "model", "required: every turn begins with the call of a tool; auto: the model decides.", default="auto"
    )
    system_prompt: _Text = _field("prompts", "Instructions. Empty: a helpful assistant.", default="")
    strip_thinking_tags: bool = _field("prompts", "Remove `<think>` and `<thinking>` from answers.", default=True)
    mcp_servers: Annotated[list[McpServerIn], Field(max_length=50)] = _field(
        "tools", "MCP servers at addresses.", default_factory=list
    )
    mcp_stdio_servers: Annotated[list[_Name], Field(max_length=50)] = _field(
        "tools", "Names of MCP servers that an admin has declared.", default_factory=list
    )
    tool_rules: Annotated[
        dict[Annotated[str, StringConstraints(min_length=1, max_length=200)], Literal["auto", "ask", "deny"]],
        Field(max_length=200),
    ] = _field(
        "tools",
        "What happens when a tool is called, by name or pattern (`files__*`): auto, ask a person, or deny. The first "
        "that matches counts; without one: auto.",
        default_factory=dict,
    )
    agents: Annotated[list[_Name], Field(max_length=50)] = _field(
        "tools", "Names of agents that this one may ask as tools.", default_factory=list
    )
    enable_skills: bool = _field("skills", "Turns are offered skills: instructions for certain tasks.", default=False)
    skills_mode: Literal["tools", "prompt", "both"] = _field(
        "skills",
        "tools: names and descriptions stand in the prompt, and the model reads skills with request_skill; prompt: all "
        "of each stands in the prompt; both: that, and request_skill for their files.",
        default="tools",
    )
    selected_skills: Annotated[list[_Name], Field(max_length=100)] = _field(
        "skills", "Names of the skills to offer. Empty: all that the agent's owner may use.", default_factory=list
    )
    skills_prompt: _Text = _field("skills", "Stands before the skills in the prompt. Empty: a default.", default="")
    enable_kb: bool = _field("knowledge", "Answer from the documents of a collection.", default=False)
    collection: _Name = _field(
        "knowledge",
        "A collection of the person who talks to the agent. Empty: the one with the name of the agent.",
        default="",
    )
    kb_mode: Literal["auto_search", "tools", "both"] = _field(
        "knowledge",
        "auto_search: each message is searched for; tools: the model searches, and adds memories; both.",
        default="auto_search",
    )
    kb_results: Annotated[int, Field(ge=1, le=50)] = _field("knowledge", "Results of one search.", default=5)
    long_term_memory: bool = _field("knowledge", "Keep messages in the collection.", default=False)
    summary_long_term_memory: bool = _field("knowledge", "Keep a summary of each turn instead.", default=False)
    conversation_storage_mode: Literal["user_only", "user_and_assistant", "whole_conversation"] = _field(
        "knowledge",
        "What is kept of a turn: the message, the message and the answer, or the conversation in one piece.",
        default="user_only",
    )
    cancel_previous_on_new_message: bool = _field(
        "execution", "A new message cancels the turn of its thread that runs; otherwise it waits.", default=True
    )
    max_iterations: Annotated[int, Field(ge=1, le=1000)] = _field(
        "execution", "Calls of the model in one turn.", default=10
    )
    max_attempts: Annotated[int, Field(ge=0, le=20)] = _field(
        "execution", "How often an answer that cannot be used is requested again.", default=2
    )
    loop_detection: Annotated[int, Field(ge=0, le=100)] = _field(
        "execution", "The same call so often in a row ends the turn with an answer. 0: never.", default=5
    )
    enable_auto_compaction: bool = _field("execution", "Summarise earlier messages that are too long.", default=True)
    auto_compaction_threshold: Annotated[int, Field(ge=256, le=10**7)] = _field(
        "execution", "Tokens of history above which earlier messages are summarised.", default=4096
    )
    budgets: AgentBudgetsIn = _field("execution", "Limits of one turn.", default_factory=AgentBudgetsIn)
    labels: Annotated[dict[str, str], Field(max_length=64)] = _field(
        "execution", "Labels that a node needs to run this agent.", default_factory=dict
    )
    standalone_job: bool = _field("schedule", "The agent runs by itself, towards its goal.", default=False)
    periodic_runs: _Duration = _field("schedule", "How often it runs by itself.", default="10m", examples=["10m"])
    permanent_goal: _Text = _field("schedule", "The goal of an agent that runs by itself.", default="")
    inner_monologue_template: _Text = _field(
        "schedule", "What it is given then; `{{ goal }}` stands for the goal. Empty: a default.", default=""
    )


class AgentEntry(AgentSettings):
    """An LLM agent with its name, as fleet files and exported documents hold it."""

    name: _Name = _field("identity", "Unique among your agents. Without : / \\ and ..", examples=["researcher"])
    shared: bool = _field("identity", "Every user may talk to it. Set by admins.", default=False)


class AgentIn(AgentEntry, LocalAiBody):
    """Body that creates or replaces an LLM agent. A name that differs from the present one renames the agent.

    Fields of LocalAI that have no effect here are left out, and named in the warnings of the response.
    """

    fields_without_effect = AGENT_FIELDS_WITHOUT_EFFECT

    @field_validator("mcp_stdio_servers", mode="before")
    @classmethod
    def _read_programs(cls, value: object) -> list[str]:
        names = [name for _, name in list_programs(value)]
        if not all(names):
            raise ValueError("a program of an MCP server has no name")
        return names


class AgentOut(LenientModel):
    """An LLM agent without its configuration, as `GET /api/agents` lists it."""

    id: str
    name: str
    description: str = ""
    model: str = ""
    status: str = Field(description="active or paused.")
    active: bool = Field(default=True, description="Whether it is not paused.")
    shared: bool = False
    owner: str = Field(description="user:… or key:…")
    owner_name: str = ""
    is_own: bool = True
    revision: int = 1
    standalone_job: bool = False
    next_run_at: datetime | None = Field(default=None, description="When it runs next by itself.")
    last_run_at: datetime | None = Field(default=None, description="When it last ran by itself.")
    created_at: datetime
    updated_at: datetime


class AgentConfigOut(AgentOut):
    """Response with one LLM agent and its whole configuration, such as that of `GET /api/agents/{name}`."""

    config: dict[str, Any] = Field(description="As in AgentIn. Secrets are references.")
    warnings: list[str] = Field(
        default_factory=list,
        description="After a change only: what keeps the agent from answering, and which fields were ignored.",
    )


class UserAgentOut(LenientModel):
    """An LLM agent of another user as LocalAI's page lists it for admins."""

    name: str
    active: bool


class UserAgentsOut(LenientModel):
    """The LLM agents of one other user as LocalAI's page lists them for admins."""

    agents: list[UserAgentOut]


class AgentListOut(LenientModel):
    """Response of `GET /api/agents`: the LLM agents that the caller may use, first their own, then shared ones.

    `agents`, `agentCount`, `statuses` and `user_groups` are LocalAI's, whose page reads names where Corral has `items`.
    """

    model_config = ConfigDict(populate_by_name=True)

    items: list[AgentOut]
    agents: list[str] = Field(
        default_factory=list, description="The names alone, each once; without agents that only `all_users` shows."
    )
    agent_count: int = Field(default=0, alias="agentCount", description="How many names there are.")
    statuses: dict[str, bool] = Field(
        default_factory=dict, description="Whether the agent of that name is active, by name."
    )
    user_groups: dict[str, UserAgentsOut] | None = Field(
        default=None, description="With `all_users`: agents of others, by what `user_id` of other calls takes."
    )


class AgentImportOut(AgentConfigOut):
    """Response of `POST /api/agents/import`: the LLM agent that was made of the imported configuration."""

    ignored: list[str] = Field(default_factory=list, description="Fields of the document that have no effect here.")
    missing_secrets: list[str] = Field(
        default_factory=list, description="Secrets that the agent refers to and that its owner has not stored."
    )


class AgentFieldOut(LenientModel):
    """One input field of the form in which the web page edits an LLM agent."""

    name: str
    section: str
    type: str
    description: str = ""
    default: Any = None
    required: bool = False
    options: list[Any] = Field(default_factory=list)
    minimum: float | None = None
    maximum: float | None = None


class FormOptionOut(LenientModel):
    """One choice of an input field in the form of LocalAI's page that edits an LLM agent."""

    value: Any
    label: str


class FormTagsOut(LenientModel):
    """The place of an input field in the form of LocalAI's page that edits an LLM agent."""

    section: str = Field(description="BasicInfo, ModelSettings, PromptsGoals or AdvancedSettings.")


class FormFieldOut(LenientModel):
    """One input field of the form in which LocalAI's page edits an LLM agent."""

    model_config = ConfigDict(populate_by_name=True)

    name: str
    type: str = Field(description="text, textarea, checkbox, number or select.")
    label: str
    default_value: Any = Field(default=None, alias="defaultValue")
    help_text: str = Field(default="", alias="helpText")
    required: bool = False
    disabled: bool = Field(default=False, description="The form has no control for such a value, and keeps it.")
    options: list[FormOptionOut] = Field(default_factory=list)
    min: float | None = None
    max: float | None = None
    tags: FormTagsOut


class AgentMetadataOut(LenientModel):
    """Response of `GET /api/agents/config/metadata`: the form that edits an LLM agent, generated from its schema.

    Fields whose names begin with a capital, and `distributed`, are those that LocalAI's own page reads.
    """

    model_config = ConfigDict(populate_by_name=True)

    fields: list[AgentFieldOut]
    sections: list[str]
    json_schema: dict[str, Any]
    form_fields: list[FormFieldOut] = Field(alias="Fields", description="The same fields for LocalAI's page.")
    actions: list[Any] = Field(default_factory=list, alias="Actions", description="Always empty.")
    connectors: list[Any] = Field(default_factory=list, alias="Connectors", description="Always empty.")
    filters: list[Any] = Field(default_factory=list, alias="Filters", description="Always empty.")
    dynamic_prompts: list[Any] = Field(default_factory=list, alias="DynamicPrompts", description="Always empty.")
    distributed: bool = Field(default=True, description="LocalAI's page leaves out what only one machine can do.")


class CloneAgentIn(StrictModel):
    """Body of `POST /api/agents/{name}/clone`: the name of the copy of the LLM agent."""

    name: _Name = Field(default="", description="Without one: the name with `-copy` behind it.")


class EarlierMessageIn(StrictModel):
    """One message of a conversation that was held before, as LocalAI's page sends it with the next one."""

    role: Literal["user", "assistant"]
    content: Annotated[str, StringConstraints(max_length=200_000)]


class AgentMessageIn(StrictModel):
    """Body of `POST /api/agents/{name}/chat`: a message of a person to an LLM agent, which starts a turn."""

    message: Annotated[str, StringConstraints(max_length=200_000)]
    thread_id: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        default=None, description="Absent: a new thread."
    )
    history: Annotated[list[EarlierMessageIn], Field(max_length=200)] = Field(
        default_factory=list,
        description="Earlier messages with which a new thread begins, as LocalAI's page sends them.",
    )


class AgentMessageOut(LenientModel):
    """Response of `POST /api/agents/{name}/chat`: the id of the accepted message.

    The answer of the LLM agent comes with its event stream, and with the run.
    """

    run_id: str
    message_id: str = Field(description="The id of the message in the stream; the answer's is `<message_id>-agent`.")
    thread_id: str
    status: str = "message_received"


class ThreadIn(StrictModel):
    """Body of `POST /api/agents/{name}/threads`: the conversation with an LLM agent to create."""

    title: Annotated[str, StringConstraints(max_length=200)] = ""


class ThreadOut(LenientModel):
    """One conversation of a person with an LLM agent, without its messages."""

    id: str
    title: str = Field(description="Made from the first message.")
    messages: int = Field(description="How many messages it has.")
    created_at: datetime
    updated_at: datetime


class ThreadListOut(LenientModel):
    """Response of `GET /api/agents/{name}/threads`: conversations with an LLM agent, the one used last first."""

    threads: list[ThreadOut]


class ThreadMessageOut(LenientModel):
    """One message in a conversation with an LLM agent: who wrote it, when, and its text."""

    seq: int
    role: str = Field(description="user, assistant or tool.")
    content: Any = None
    tool_calls: list[Any] = Field(default_factory=list)
    tool_call_id: str | None = None
    run_id: str | None = Field(default=None, description="The turn that it belongs to.")
    created_at: datetime


class ThreadMessagesOut(LenientModel):
    """Response of `GET /api/agents/{name}/threads/{thread_id}/messages`: a conversation's messages, in order."""

    messages: list[ThreadMessageOut]
    has_more: bool = False


class AgentStatusOut(LenientModel):
    """Response of `GET /api/agents/{name}/status`: whether the LLM agent is active, and its newest runs."""

    model_config = ConfigDict(populate_by_name=True)

    name: str
    status: str
    is_running: bool
    open_runs: int
    threads: int
    next_run_at: datetime | None = None
    last_run_at: datetime | None = None
    history: list[RunOut] = Field(description="The newest runs of the caller with this agent.")
    name_of_localai: str = Field(default="", alias="Name", description="The same as `name`.")
    history_of_localai: list[str] = Field(
        default_factory=list, alias="History", description="The same runs as texts, for LocalAI's page."
    )


class ObservableOut(LenientModel):
    """One entry that LocalAI calls an observable: a turn of an LLM agent, or a tool call in it.

    `creation` and `completion` hold what LocalAI's page reads beside Corral's own fields.
    """

    id: str
    parent_id: str | None = None
    agent: str
    name: str = Field(description="`chat` for a turn, else the name of the tool.")
    state: str
    created_at: datetime
    creation: dict[str, Any] = Field(default_factory=dict, description="What it began with.")
    completion: dict[str, Any] | None = Field(default=None, description="What it ended with; absent: it has not.")


class ObservableListOut(LenientModel):
    """Response of `GET /api/agents/{name}/observables`: the newest turns and tool calls of that LLM agent."""

    model_config = ConfigDict(populate_by_name=True)

    name: str = Field(alias="Name")
    history: list[ObservableOut]
    history_of_localai: list[ObservableOut] = Field(alias="History", description="The same as `history`.")


class DeclaredServerIn(StrictModel):
    """Body of `PUT /api/mcp/servers/{name}`: an MCP server that an admin declares for all users of the cluster.

    Either a program that workers start, or an address.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    description: _Short = Field(default="", description="What people read who choose it.")
    transport: Literal["stdio", "http", "sse"] = "stdio"
    command: Annotated[str, StringConstraints(max_length=1000)] = Field(default="", examples=["uvx"])
    args: Annotated[list[Annotated[str, StringConstraints(max_length=4096)]], Field(max_length=200)] = Field(
        default_factory=list
    )
    env: Annotated[
        dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,200}$")], _HeaderValue],
        Field(max_length=100),
    ] = Field(default_factory=dict, description="The whole environment. Secrets are references: cluster-secret:NAME.")
    cwd: Annotated[str, StringConstraints(max_length=1000)] = ""
    url: Annotated[str, StringConstraints(max_length=2000)] = ""
    headers: _Headers = Field(default_factory=dict, description="Secret values are references: cluster-secret:NAME.")


class DeclaredServerOut(LenientModel):
    """An MCP server that an admin has declared for all users.

    Users see its name and description, admins all of it.
    """

    name: str
    description: str = ""
    transport: str
    config: dict[str, Any] | None = Field(default=None, description="For admins.")
    created_by: str | None = None
    updated_at: datetime | None = None


class DeclaredServerListOut(LenientModel):
    """Response of `GET /api/mcp/servers`: the MCP servers that admins have declared, sorted by name."""

    servers: list[DeclaredServerOut]
