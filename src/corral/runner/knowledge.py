"""What a turn knows beside its conversation: searches in the collection of the run's owner, and what it remembers.

Guarantees: a search that fails costs the turn its results and nothing else. Each file that was found is cited once,
numbered in the order of the first find. What is remembered never holds the list of sources.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import structlog

from corral.domain.errors import CorralError
from corral.policy.documents import (
    QUERY_CHARS_MAX,
    CitedFile,
    MemoryMode,
    list_cited,
    make_memories,
    render_sources,
)
from corral.runner.embedding_client import EmbeddingClient
from corral.runner.transcript import read_text
from corral.wire.runner_protocol import CallMethod

log = structlog.get_logger(__name__)

SEARCH_TOOL = "search_memory"
ADD_TOOL = "add_memory"
_SEARCH_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What to look for, in full words."}},
    "required": ["query"],
    "additionalProperties": False,
}
_ADD_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "What to remember, understandable by itself."}},
    "required": ["text"],
    "additionalProperties": False,
}
# Name, description, schema, and whether a call may be made again after the worker was lost. The same memory of a call
# is stored once.
KNOWLEDGE_TOOLS: Sequence[tuple[str, str, Mapping[str, Any]]] = (
    (SEARCH_TOOL, "Search the documents and memories of the user.", _SEARCH_SCHEMA),
    (ADD_TOOL, "Remember a text for later conversations with the user.", _ADD_SCHEMA),
)
_CONTEXT = "What was found in the documents of the user. Use what answers the message, and ignore the rest."


class RunKnowledge:
    """Searches the collection of one turn, remembers which files were found, and makes what the agent remembers."""

    def __init__(
        self,
        fields: Mapping[str, Any],
        embedder: EmbeddingClient,
        call: Callable[[CallMethod, Mapping[str, Any]], Awaitable[Mapping[str, Any]]],
    ) -> None:
        self._embedder = embedder
        self._call = call
        self._collection = str(fields.get("collection") or "")
        self.problem = str(fields.get("problem") or "")
        self.searches = bool(self._collection and fields.get("searches"))
        self.has_tools = bool(self._collection and fields.get("has_tools"))
        self._memory_mode: MemoryMode | None = fields.get("memory_mode")
        self._found: list[str] = []

    @property
    def needs_summary(self) -> bool:
        return self._memory_mode == "summary"

    async def make_context(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Return what is found for the last message of the user, for the system prompt; empty if nothing is. Raises
        `CorralError`."""
        query = next((read_text(message) for message in reversed(messages) if message.get("role") == "user"), "")
        if not query.strip():
            return ""
        results = await self._search(query)
        return f"{_CONTEXT}\n\n{_render_results(results)}" if results else ""

    async def call_tool(self, name: str, arguments: Mapping[str, Any], call_id: str) -> str:
        """Return the result of a tool call. Raises `CorralError`."""
        if name == SEARCH_TOOL:
            results = await self._search(str(arguments.get("query", "")))
            return _render_results(results) or "Nothing was found."
        params = {"call_id": call_id, "text": str(arguments.get("text", ""))}
        reply = await self._call("add_memory", params)
        return f"Remembered as {reply.get('entry', '')}."

    async def _search(self, query: str) -> Sequence[Mapping[str, Any]]:
        text = query[:QUERY_CHARS_MAX]
        embedded = await self._embedder.embed([text], waits=False)
        reply = await self._call("search_collection", {"query": text, "embedding": embedded.vectors[0]})
        results = [one for one in reply.get("results") or () if isinstance(one, Mapping)]
        self._found += [str(one.get("file_name", "")) for one in results]
        return results

    def list_cited(self) -> list[CitedFile]:
        """Return the files that were found, each once."""
        return list_cited(self._collection, self._found)

    def render_sources(self) -> str:
        return render_sources(self.list_cited())

    def make_memories(self, messages: Sequence[Mapping[str, Any]], answer: str, summary: str) -> list[tuple[str, str]]:
        """Return what is remembered of the turn, as parts of names and texts."""
        if self._memory_mode is None:
            return []
        texts = [{"role": message.get("role"), "content": read_text(message)} for message in messages]
        return make_memories(self._memory_mode, texts, answer, summary)


def describe_failure(error: CorralError) -> str:
    return f"The documents were not searched: {error.message}"


def _render_results(results: Sequence[Mapping[str, Any]]) -> str:
    """Return results as text for a model, labelled by their files."""
    return "\n\n".join(f"[{json.dumps(str(one.get('file_name', '')))}]\n{one.get('content', '')}" for one in results)
