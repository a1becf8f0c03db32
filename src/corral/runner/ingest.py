"""Executes a run that reads a document: fetches it, has its text read and cut, embeds the chunks and delivers them.

Guarantees: chunks are numbered in their order, and a run that is begun again goes on behind those that are stored. The
document is parsed in a process of its own. Memory is bounded by the size of one document.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.domain.run import RunEventType
from corral.policy.documents import ENTRY_BYTES_MAX, find_document_kind
from corral.runner.document_reader import ChunkOptions, DocumentReader, DocumentUnreadable
from corral.runner.embedding_client import EmbeddingClient
from corral.runner.guarded_execution import run_guarded
from corral.runner.tool_executor import EventEmitter
from corral.wire.run_work import RunOutcome, RunSpec
from corral.wire.runner_protocol import CallMethod

# Deliveries that are embedded at the same time.
LANES = 2
# How many deliveries lie between two entries of the trace.
REPORT_EVERY = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestDeps:
    """Dependencies of the execution of one run that reads a document."""

    reader: DocumentReader
    embedder: EmbeddingClient
    emit: EventEmitter
    # Ask a frontend through the worker: method, parameters. Raises `CorralError`.
    call: Callable[[CallMethod, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


class IngestExecution:
    """Reads one document of a collection in the runner process."""

    def __init__(self, spec: RunSpec, deps: IngestDeps) -> None:
        self._spec = spec
        self._deps = deps
        self._extra = spec.extra
        self._usage = {"prompt_tokens": 0, "completion_tokens": 0}

    async def run(self) -> RunOutcome:
        """Execute the run. Only cancellation passes through; every error becomes an outcome."""
        return await run_guarded(self._execute, self.make_failure, run_id=self._spec.run_id, what="The run")

    def make_failure(self, code: str, sentence: str, reason: str = "error") -> RunOutcome:
        return RunOutcome(state="failed", reason=reason, error_code=code, error_text=sentence, usage=self._usage)

    def make_cancelled(self) -> RunOutcome:
        return RunOutcome(state="cancelled", reason="cancelled", usage=self._usage)

    async def _execute(self) -> RunOutcome:
        name = str(self._extra.get("name", ""))
        kind = find_document_kind(name, str(self._extra.get("media_type", "")))
        if kind is None:
            raise DocumentUnreadable("The format of the document is not supported.", code="unsupported_document")
        await self._report(f"Reads {name}.")
        options = ChunkOptions(
            size=int(self._extra.get("chunk_size", 400)), overlap=int(self._extra.get("chunk_overlap", 0))
        )
        chunks = await self._deps.reader.read(kind, await self._fetch(), options)
        if not chunks:
            text = "The document holds no text. Pages that are pictures have to be recognised before (OCR)."
            raise DocumentUnreadable(text, code="document_empty")
        await self._report(f"Embeds {len(chunks)} chunks by {self._spec.model}.")
        await self._deliver_all(chunks)
        await self._deps.emit(RunEventType.USAGE, self._usage)
        return RunOutcome(state="completed", content=f"{len(chunks)} chunks of {name} can be found.", usage=self._usage)

    async def _fetch(self) -> bytes:
        content = bytearray()
        while True:
            reply = await self._deps.call("read_document", {"start": len(content)})
            piece = base64.b64decode(str(reply.get("content", "")))
            content += piece
            if not piece:
                return bytes(content)
            if len(content) > ENTRY_BYTES_MAX:
                raise DocumentUnreadable("The document is too large.", code="document_too_large")

    async def _deliver_all(self, chunks: Sequence[str]) -> None:
        step = int(self._extra.get("chunks_per_delivery", 64))
        # Whole deliveries only: an attempt before this one may have been cut off in the middle of none.
        start = min(int(self._extra.get("next_chunk", 0)), len(chunks)) // step * step
        firsts = list(range(start, len(chunks), step)) or [len(chunks)]
        for index in range(0, len(firsts), LANES):
            lane_firsts = firsts[index : index + LANES]
            pieces = [chunks[first : first + step] for first in lane_firsts]
            async with asyncio.TaskGroup() as group:
                lanes = [group.create_task(self._embed(piece), name="embed") for piece in pieces]
            for first, piece, lane in zip(lane_firsts, pieces, lanes, strict=True):
                total = len(chunks) if first + len(piece) >= len(chunks) else None
                params = {"first": first, "contents": list(piece), "embeddings": list(lane.result())}
                await self._deps.call("store_chunks", params | ({} if total is None else {"total": total}))
            if index and index % REPORT_EVERY == 0:
                await self._report(f"{lane_firsts[-1]} of {len(chunks)} chunks are stored.")

    async def _embed(self, texts: Sequence[str]) -> Sequence[str]:
        if not texts:
            return ()
        result = await self._deps.embedder.embed(texts)
        self._usage["prompt_tokens"] += result.tokens
        return result.vectors

    async def _report(self, sentence: str) -> None:
        await self._deps.emit(RunEventType.STATUS, {"message": sentence})
