"""`/v1/mcp`: the MCP servers of a model with what they offer, in the shapes that LocalAI's clients read."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from corral.wire.base import LenientModel, StrictModel

_Server = Annotated[str, StringConstraints(max_length=50)]


class ModelToolOut(LenientModel):
    """One tool of an MCP server, as the model may call it."""

    name: str = Field(description="The name under which a model calls the tool: `server__tool`.")
    tool: str = Field(description="The name of the tool at its server.")
    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=dict, description="The JSON schema of the arguments.")
    read_only: bool = Field(default=False, description="Whether the server says that a call changes nothing.")


class ModelServerOut(LenientModel):
    """One MCP server that is configured for a model, with its tools, or why it cannot be reached."""

    name: str
    type: str = Field(description="`remote` for an address, `stdio` for a program.")
    tools: list[str] = Field(description="Names of tools as a model calls them: `server__tool`.")
    prompts: list[str] = Field(description="Names of prompts.")
    resources: list[str] = Field(description="Addresses of resources.")
    error: str = Field(default="", description="Why the server offers nothing now; empty if it has answered.")
    error_code: str = Field(default="", description="The same for programs.")
    tool_details: list[ModelToolOut] = Field(default_factory=list)


class ModelServersOut(LenientModel):
    """Response of `GET /v1/mcp/servers/{model}`: the MCP servers that are configured for the model."""

    model: str
    servers: list[ModelServerOut]


class ModelPromptArgumentOut(LenientModel):
    """One argument of a prompt that an MCP server offers."""

    name: str
    description: str = ""
    required: bool = False


class ModelPromptOut(LenientModel):
    """An item of `GET /v1/mcp/prompts/{model}`: a prompt that one of the model's MCP servers offers."""

    name: str
    title: str = ""
    description: str = ""
    arguments: list[ModelPromptArgumentOut] = Field(default_factory=list)
    server: str


class PromptExpansionIn(StrictModel):
    """Body of `POST /v1/mcp/prompts/{model}/{prompt}`: arguments that an MCP server fills into its prompt."""

    arguments: dict[str, str] = Field(default_factory=dict)
    server: _Server = Field(default="", description="The server that has the prompt; empty: the first that has it.")


class PromptMessageOut(LenientModel):
    """One message that an MCP server made of its prompt, as text; content that is no text is its JSON."""

    role: str
    content: str


class PromptMessagesOut(LenientModel):
    """Response of `POST /v1/mcp/prompts/{model}/{prompt}`: the chat messages that an MCP server made of its prompt."""

    description: str = ""
    messages: list[PromptMessageOut]


class ModelResourceOut(LenientModel):
    """An item of `GET /v1/mcp/resources/{model}`: a resource that one of the model's MCP servers offers."""

    name: str
    uri: str
    description: str = ""
    mimeType: str = ""  # noqa: N815 - as LocalAI and the MCP specification write it
    server: str


class ResourceReadIn(StrictModel):
    """Body of `POST /v1/mcp/resources/{model}/read`: the address of the MCP server's resource to read."""

    uri: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    server: _Server = Field(default="", description="The server that has the resource; empty: the first that lists it.")


class ResourceContentOut(LenientModel):
    """Response of `POST /v1/mcp/resources/{model}/read`: an MCP server's resource as text; binary content in base64."""

    uri: str
    content: str
    mimeType: str = ""  # noqa: N815 - as LocalAI and the MCP specification write it
    server: str
    is_base64: bool = False
