"""Calls about agents: manage them, send messages to them, and read and delete their threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from corral.client.transport import ApiRequest, ApiTransport, make_owner_parameters, make_revision_headers
from corral.wire.agents import (
    AgentConfigOut,
    AgentImportOut,
    AgentListOut,
    AgentMessageIn,
    AgentMessageOut,
    AgentOut,
    AgentStatusOut,
    CloneAgentIn,
    ThreadListOut,
    ThreadMessageOut,
    ThreadMessagesOut,
    ThreadOut,
)

# Aliases, because inside a class with a method `list` that name means the method.
Agents = list[AgentOut]
Threads = list[ThreadOut]
Messages = list[ThreadMessageOut]


class AgentCalls:
    """Client-side calls of the HTTP API about LLM agents.

    An agent is named by its name; `owner` says whose, for admins.
    """

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def list(self, *, all_users: bool = False) -> Agents:
        parameters = make_owner_parameters(all_users=all_users)
        call = ApiRequest(method="GET", path="/api/agents", parameters=parameters)
        return (await self._transport.fetch(call, AgentListOut)).items

    async def get(self, name: str, *, owner: str = "") -> AgentConfigOut:
        return await self._transport.fetch(_make_call("GET", name, owner=owner), AgentConfigOut)

    async def get_status(self, name: str, *, owner: str = "") -> AgentStatusOut:
        return await self._transport.fetch(_make_call("GET", name, "status", owner=owner), AgentStatusOut)

    async def create(self, body: Mapping[str, Any]) -> AgentConfigOut:
        call = ApiRequest(method="POST", path="/api/agents", body=body, creates=True)
        return await self._transport.fetch(call, AgentConfigOut)

    async def edit(
        self, name: str, body: Mapping[str, Any], *, owner: str = "", revision: int | None = None
    ) -> AgentConfigOut:
        """Replace the configuration of an agent. Another name in the body renames it. `revision` is the one that was
        read: a newer one is a conflict."""
        call = _make_call("PUT", name, owner=owner, body=body)
        return await self._transport.fetch(replace(call, headers=make_revision_headers(revision)), AgentConfigOut)

    async def set_paused(self, name: str, *, is_paused: bool, owner: str = "") -> AgentOut:
        verb = "pause" if is_paused else "resume"
        return await self._transport.fetch(_make_call("PUT", name, verb, owner=owner), AgentOut)

    async def clone(self, name: str, new_name: str = "", *, owner: str = "") -> AgentConfigOut:
        body = CloneAgentIn(name=new_name).model_dump()
        return await self._transport.fetch(_make_call("POST", name, "clone", owner=owner, body=body), AgentConfigOut)

    async def import_document(self, document: Mapping[str, Any], name: str = "") -> AgentImportOut:
        """Create an agent from an exported document, also from one of LocalAGI."""
        parameters = {"name": name} if name else {}
        call = ApiRequest(method="POST", path="/api/agents/import", body=document, parameters=parameters, creates=True)
        return await self._transport.fetch(call, AgentImportOut)

    async def export(self, name: str, *, owner: str = "") -> dict[str, Any]:
        return await self._transport.fetch(_make_call("GET", name, "export", owner=owner), dict[str, Any])

    async def delete(self, name: str, *, owner: str = "") -> None:
        await self._transport.send(_make_call("DELETE", name, owner=owner))

    # --- threads ---

    async def send_message(self, name: str, text: str, thread_id: str | None = None) -> AgentMessageOut:
        """Send a message, in a new thread without an id. The answer comes with the run: `RunCalls.follow`."""
        # Without what is not given: an earlier frontend refuses fields that it does not know.
        body = AgentMessageIn(message=text, thread_id=thread_id).model_dump(mode="json", exclude_unset=True)
        call = ApiRequest(method="POST", path=_format_path(name, "chat"), body=body, creates=True)
        return await self._transport.fetch(call, AgentMessageOut)

    async def list_threads(self, name: str, *, limit: int = 100) -> Threads:
        call = ApiRequest(method="GET", path=_format_path(name, "threads"), parameters={"limit": str(limit)})
        return (await self._transport.fetch(call, ThreadListOut)).threads

    async def get_thread(self, name: str, thread_id: str) -> ThreadOut:
        return await self._transport.fetch(_make_call("GET", name, "threads", thread_id), ThreadOut)

    async def list_messages(self, name: str, thread_id: str) -> Messages:
        """Return all messages of a thread, in order."""
        found: Messages = []
        path = _format_path(name, "threads", thread_id, "messages")
        while True:
            parameters = {"after": str(found[-1].seq if found else 0)}
            page = await self._transport.fetch(
                ApiRequest(method="GET", path=path, parameters=parameters), ThreadMessagesOut
            )
            found += page.messages
            if not page.has_more or not page.messages:
                return found

    async def delete_thread(self, name: str, thread_id: str) -> None:
        await self._transport.send(_make_call("DELETE", name, "threads", thread_id))


def _make_call(
    method: str, name: str, *parts: str, owner: str = "", body: Mapping[str, Any] | None = None
) -> ApiRequest:
    parameters = {"owner": owner} if owner else {}
    return ApiRequest(method=method, path=_format_path(name, *parts), parameters=parameters, body=body)


def _format_path(*parts: str) -> str:
    return "/".join(["/api/agents", *(quote(part, safe="") for part in parts)])
