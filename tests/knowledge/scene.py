"""A worker that is the test: it cuts documents at empty lines, and embeds them as the fake engine does."""

from __future__ import annotations

import base64
import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corral.engines.launchers.fake import compute_vector
from corral.knowledge.service import CollectionSpec
from corral.store import chunks as chunk_store
from corral.store import collections as store
from corral.store.chunks import ChunkTarget, NewChunk
from corral.store.database import Database
from tests.agents.hand_worker import HandWorker
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.polling import eventually

BASE = "/api/agents/collections"
MODEL = "embedder"


def pack(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


async def create_collection(
    frontend: RunningFrontend, name: str = "manuals", *, key: str = ADMIN_KEY, **fields: Any
) -> Any:
    """Create a collection. Its model need not exist where the test embeds by itself."""
    principal = await frontend.core.directory.authenticate_key(key)
    await frontend.core.knowledge.tables.require()
    async with frontend.database.transaction() as tx:
        spec = CollectionSpec(name=name, embedding_model=MODEL, **fields)
        return await frontend.core.knowledge.collections.create(tx, principal.owner, spec, actor="test")


async def upload(
    frontend: RunningFrontend,
    content: bytes | str,
    *,
    name: str = "pump.md",
    collection: str = "manuals",
    key: str = ADMIN_KEY,
    query: str = "",
) -> tuple[int, Any]:
    body = content.encode() if isinstance(content, str) else content
    head = f'--X\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    headers = {"Content-Type": "multipart/form-data; boundary=X", "Authorization": f"Bearer {key}"}
    data = io.BytesIO(head + body + b"\r\n--X--\r\n")
    url = f"{frontend.url}{BASE}/{collection}/upload{query}"
    async with frontend.http.post(url, data=data, headers=headers) as answer:
        return answer.status, await answer.json()


@dataclass
class DocumentWorker:
    """Plays the worker of an agent node for runs that read documents."""

    hand: HandWorker
    frontend: RunningFrontend

    async def read(self, run_id: str) -> str:
        """Return the whole document of a run that was taken."""
        content = b""
        while True:
            path = f"/runs/{run_id}/document?job_id={self.hand.jobs[run_id]}&start={len(content)}"
            status, answer = await self.hand.node.call("GET", path)
            assert status == 200, answer
            piece = base64.b64decode(answer["content"])
            content += piece
            if not piece:
                return content.decode()

    async def deliver(self, run_id: str, first: int, texts: Sequence[str], **fields: Any) -> tuple[int, Any]:
        vectors = fields.pop("vectors", None) or [compute_vector(text) for text in texts]
        body = {
            "job_id": self.hand.jobs[run_id],
            "first": first,
            "contents": list(texts),
            "embeddings": [pack(vector) for vector in vectors],
        }
        return await self.hand.node.call("POST", f"/runs/{run_id}/document/chunks", body | fields)

    async def ingest(self, run_id: str) -> list[str]:
        """Read a document from its beginning to its end, and return its chunks."""
        await self.hand.take(run_id)
        texts = [part.strip() for part in (await self.read(run_id)).split("\n\n") if part.strip()]
        status, answer = await self.deliver(run_id, 0, texts, total=len(texts))
        assert (status, answer["stored"]) == (200, len(texts)), answer
        await self.hand.end(run_id)
        return texts


async def wait_for_entry(
    frontend: RunningFrontend, name: str, *states: str, collection: str = "manuals", key: str = ADMIN_KEY
) -> Any:
    """Wait until an entry is in one of these states."""

    async def look() -> Any:
        status, found = await frontend.call("GET", f"{BASE}/{collection}/entries", key=key)
        assert status == 200, found
        entries = [one for one in found["items"] if one["name"] == name and (not states or one["state"] in states)]
        return entries[0] if entries else None

    return await eventually(look)


async def list_names(frontend: RunningFrontend, *, collection: str = "manuals", key: str = ADMIN_KEY) -> list[str]:
    status, found = await frontend.call("GET", f"{BASE}/{collection}/entries", key=key)
    assert status == 200, found
    return list(found["entries"])


async def put_chunks(database: Database, collection_id: str, entry_id: str, texts: Sequence[str]) -> None:
    """Store chunks of an entry as its worker would, and make it ready."""
    vectors = [compute_vector(text) for text in texts]
    chunks = [
        NewChunk(number=number, content=text, embedding=vector)
        for number, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]
    async with database.transaction() as tx:
        target = ChunkTarget(collection_id=collection_id, entry_id=entry_id, version=1, language="english")
        await chunk_store.insert_chunks(tx, target, chunks)
        await store.set_dimension(tx, collection_id, len(vectors[0]))
        values = {"state": "ready", "ready_version": 1, "language": "english", "chunks": len(texts)}
        await store.update_entry(tx, entry_id, values)
