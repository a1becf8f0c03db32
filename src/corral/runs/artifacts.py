"""Keeps files of people: those that they upload, and those that their runs make.

Guarantees: a file is stored before its id is returned, and is the same at every frontend. Bytes are hashed as they are
stored, and again when they are read: a damaged file breaks off instead of ending well. An upload that is cut off leaves
nothing that its owner sees, and its bytes are deleted. What an owner keeps is bounded. At most two chunks of a file are
in memory. Limit: the bytes lie in PostgreSQL, so this is no place for models.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import structlog

from corral.domain.access import Owner
from corral.domain.artifact import Artifact, ArtifactKind
from corral.domain.errors import Conflict, CorralError, LimitReached, TooLarge
from corral.ports.runtime import IdGenerator
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import artifacts as store
from corral.store import batches as batch_store
from corral.store import collections as collection_store
from corral.store import fine_tunes as fine_tune_store
from corral.store.artifacts import ArtifactFilter, CompletedContent, NewArtifact
from corral.store.database import Database, Transaction

log = structlog.get_logger(__name__)
# One row of the database; a larger one holds up the other statements of its connection.
CHUNK_BYTES = 512 * 1024
# One file: OpenAI's own limit.
FILE_BYTES_MAX = 512 * 1024 * 1024
# More files of one owner are a script out of control.
FILES_MAX = 10_000
# One file that a tool makes travels through a worker's memory.
TOOL_FILE_BYTES_MAX = 16 * 1024 * 1024
TOOL_FILES_MAX = 100


class DamagedContent(CorralError):
    """The stored bytes of the file are not those that were stored."""

    code = "file_damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactOptions:
    """Limits how many bytes a user may keep in files, and how long files are kept."""

    owner_bytes_max: int = 10 * 1024**3
    retention_s: float = 30 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFile:
    """A file that a tool of a run has made, as a worker delivers it to be stored."""

    name: str
    media_type: str
    content: bytes


@dataclass(slots=True, kw_only=True)
class UploadDescription:
    """Fields of an upload form that describe a user's file; complete when the form has ended."""

    name: str = ""
    media_type: str = ""
    purpose: str = ""


class ArtifactService:
    """Receives, finds, reads and deletes the files of users and of their runs."""

    def __init__(self, database: Database, ids: IdGenerator, options: ArtifactOptions | None = None) -> None:
        self._database = database
        self._ids = ids
        self.options = options or ArtifactOptions()

    # --- writing ---

    async def receive(
        self,
        owner: Owner,
        pieces: AsyncIterator[bytes],
        description: UploadDescription,
        check: Callable[[], None] = lambda: None,
        kind: ArtifactKind = ArtifactKind.UPLOAD,
    ) -> Artifact:
        """Store an upload as it arrives. `description` may be filled while the pieces come; `check` is called at their
        end and may refuse the file. One for a collection goes after a day, unless an entry is made of it."""
        artifact_id = self._ids.new_id()
        keep_s = self.options.retention_s if kind is ArtifactKind.UPLOAD else store.UNFINISHED_S
        new = NewArtifact(id=artifact_id, owner=owner, kind=kind, name="", keep_s=keep_s)
        async with self._database.transaction() as tx:
            await self._require_room(tx, str(owner), 0)
            await store.insert_artifact(tx, new)
        is_whole = False
        try:
            sha256 = await self._store_pieces(str(owner), artifact_id, pieces)
            check()
            content = CompletedContent(
                sha256=sha256,
                name=description.name[: store.NAME_MAX],
                media_type=description.media_type[:100],
                purpose=description.purpose,
            )
            async with self._database.transaction() as tx:
                if not await store.complete_artifact(tx, artifact_id, content):
                    raise store.make_not_found_error(artifact_id)
                artifact = await store.get_artifact(tx, artifact_id)
            is_whole = True
            return artifact
        finally:
            if not is_whole:
                await self._discard(artifact_id)

    async def _store_pieces(self, owner: str, artifact_id: str, pieces: AsyncIterator[bytes]) -> str:
        digest, buffer, size_bytes = hashlib.sha256(), bytearray(), 0

        async def flush(count: int) -> None:
            nonlocal size_bytes
            chunk = bytes(buffer[:count])
            del buffer[:count]
            async with self._database.transaction() as tx:
                await self._require_room(tx, owner, len(chunk))
                if not await store.append_chunk(tx, artifact_id, size_bytes, chunk):
                    raise store.make_not_found_error(artifact_id)
            digest.update(chunk)
            size_bytes += len(chunk)

        async for piece in pieces:
            buffer += piece
            if size_bytes + len(buffer) > FILE_BYTES_MAX:
                limit = f"{FILE_BYTES_MAX // 1024**2} MiB"
                raise TooLarge(f"A file has at most {limit}.", hint="Divide it into several files.")
            while len(buffer) >= CHUNK_BYTES:
                await flush(CHUNK_BYTES)
        if buffer:
            await flush(len(buffer))
        return digest.hexdigest()

    async def _discard(self, artifact_id: str) -> None:
        """Delete an upload that did not arrive whole. If that fails now, the pruner does it."""

        async def discard() -> None:
            async with self._database.transaction() as tx:
                await store.delete_artifact(tx, artifact_id)

        outcome = await attempt(discard)
        if isinstance(outcome, AttemptFailure):
            log.info("an unfinished upload stays until it is pruned", problem=outcome.sentence)

    async def _require_room(self, tx: Transaction, owner: str, more_bytes: int) -> None:
        """Raise `LimitReached` if an owner may not keep so many more bytes."""
        await store.lock_owner(tx, owner)
        usage = await store.measure_usage(tx, owner)
        if usage.files >= FILES_MAX and not more_bytes:
            raise LimitReached(
                f"You keep {usage.files} files, which is the limit.",
                hint="Delete some: DELETE /v1/files/{id}",
                code="too_many_files",
            )
        if usage.size_bytes + more_bytes > self.options.owner_bytes_max:
            raise LimitReached(
                f"Your files may take {self.options.owner_bytes_max} bytes together.",
                hint="Delete some: DELETE /v1/files/{id}. Operators can raise `artifact_bytes_max`.",
                code="file_quota_reached",
                details={"limit_bytes": self.options.owner_bytes_max, "used_bytes": usage.size_bytes},
            )

    async def append(self, tx: Transaction, owner: str, artifact_id: str, content: bytes) -> None:
        """Store bytes behind those that an unfinished file has, inside a larger transaction."""
        await self._require_room(tx, owner, len(content))
        artifact = await store.find_artifact(tx, artifact_id, locks=True)
        if artifact is None:
            raise store.make_not_found_error(artifact_id)
        start_byte = artifact.size_bytes
        for position in range(0, len(content), CHUNK_BYTES):
            chunk = content[position : position + CHUNK_BYTES]
            if not await store.append_chunk(tx, artifact_id, start_byte + position, chunk):
                raise Conflict("The file is already complete.", code="file_complete")

    async def begin(self, tx: Transaction, new: NewArtifact) -> None:
        """Make a file without bytes, inside a larger transaction."""
        await self._require_room(tx, str(new.owner), 0)
        await store.insert_artifact(tx, new)

    async def complete(self, artifact_id: str) -> None:
        """Hash an unfinished file as it lies there, and make it visible. Repeating it changes nothing."""
        digest = hashlib.sha256()
        async for piece in self._iter_stored(artifact_id):
            digest.update(piece)
        async with self._database.transaction() as tx:
            await store.complete_artifact(tx, artifact_id, CompletedContent(sha256=digest.hexdigest()))

    async def store_tool_file(self, tx: Transaction, run_id: str, owner: Owner, file: ToolFile) -> Artifact:
        """Store a file that a tool of a run has made. The same name of the same run is stored once."""
        if len(file.content) > TOOL_FILE_BYTES_MAX:
            raise TooLarge(f"A file of a tool has at most {TOOL_FILE_BYTES_MAX // 1024**2} MiB.")
        known = await store.find_by_name(tx, run_id, file.name)
        if known is not None:
            return known
        made = await store.list_artifacts(tx, ArtifactFilter(run_id=run_id), limit=TOOL_FILES_MAX)
        if len(made) >= TOOL_FILES_MAX:
            raise LimitReached(f"The tools of a run make at most {TOOL_FILES_MAX} files.", code="too_many_files")
        artifact_id = self._ids.new_id()
        new = NewArtifact(
            id=artifact_id,
            owner=owner,
            run_id=run_id,
            kind=ArtifactKind.TOOL,
            name=file.name,
            media_type=file.media_type,
            keep_s=self.options.retention_s,
        )
        await self.begin(tx, new)
        await self.append(tx, str(owner), artifact_id, file.content)
        sha256 = hashlib.sha256(file.content).hexdigest()
        await store.complete_artifact(tx, artifact_id, CompletedContent(sha256=sha256))
        return await store.get_artifact(tx, artifact_id)

    # --- reading ---

    async def get(self, artifact_id: str, owner: str | None) -> Artifact:
        """Return a complete file; with an owner, only if it is theirs."""
        async with self._database.transaction() as tx:
            return await store.get_artifact(tx, artifact_id, owner=owner)

    async def iter_content(self, artifact: Artifact) -> AsyncIterator[bytes]:
        """Yield the bytes of a complete file. Raises `DamagedContent` before the last of them if they are not those
        that were hashed, or if the file was deleted meanwhile."""
        digest, held_back = hashlib.sha256(), b""
        async for piece in self._iter_stored(artifact.id):
            if held_back:
                yield held_back
            digest.update(piece)
            held_back = piece
        if digest.hexdigest() != artifact.sha256:
            log.error("the stored bytes of a file do not have its hash", file=artifact.id)
            raise DamagedContent("The stored bytes of this file are damaged, or it was deleted.")
        if held_back:
            yield held_back

    async def read_range(self, artifact_id: str, start_byte: int, limit: int) -> bytes:
        """Return bytes of a file from a position on: `limit`, or fewer at its end."""
        content = bytearray()
        while len(content) < limit:
            async with self._database.transaction() as tx:
                piece = await store.read_piece(tx, artifact_id, start_byte + len(content), limit - len(content))
            if not piece:
                break
            content += piece
        return bytes(content)

    async def _iter_stored(self, artifact_id: str) -> AsyncIterator[bytes]:
        position = 0
        while True:
            # A transaction for each piece: a slow reader must not hold one.
            async with self._database.transaction() as tx:
                piece = await store.read_piece(tx, artifact_id, position, CHUNK_BYTES)
            if not piece:
                return
            yield piece
            position += len(piece)

    async def delete(self, artifact_id: str, owner: str) -> Artifact:
        """Delete a file of an owner with its bytes, unless an open batch reads it."""
        async with self._database.transaction() as tx:
            artifact = await store.get_artifact(tx, artifact_id, owner=owner)
            if await batch_store.is_input(tx, artifact.id):
                raise Conflict(
                    "A batch that has not ended reads this file.",
                    hint="Wait for the batch, or cancel it: POST /v1/batches/{id}/cancel",
                    code="file_in_use",
                )
            if await collection_store.is_raw_file(tx, artifact.id):
                raise Conflict(
                    "A collection has an entry that was made of this file.",
                    hint="Delete the entry: corral collections delete-entry COLLECTION NAME",
                    code="file_in_use",
                )
            if await fine_tune_store.is_dataset_in_use(tx, artifact.id):
                raise Conflict(
                    "A fine-tuning that has not ended trains on this file.",
                    hint="Wait for it, or stop it: corral fine-tune stop ID",
                    code="file_in_use",
                )
            await store.delete_artifact(tx, artifact.id)
        return artifact
