"""Stores artifacts: a row for each file, and its bytes in chunks that lie one behind the other.

Guarantee: a chunk is stored only right behind the last one, in a transaction with the row's size, so a file has no
holes and no byte twice. Bytes go with their row, and a row with its owner or its run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, text, update

from corral.domain.access import Owner
from corral.domain.artifact import Artifact, ArtifactId, ArtifactKind, ArtifactUsage
from corral.domain.errors import NotFound
from corral.store.database import Transaction, as_uuid
from corral.store.run_schema import artifact_chunks, artifacts

NAME_MAX = 255
# Of one deletion: the bytes go with their rows, and a statement has seconds.
PRUNED_PER_PASS = 200
PRUNED_BYTES_PER_PASS = 256 * 1024**2
# An upload that has not ended after this long was abandoned: its frontend was killed.
UNFINISHED_S = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArtifact:
    """Values with which a user's file is inserted into PostgreSQL, before its first byte is stored."""

    id: str
    owner: Owner
    kind: ArtifactKind
    name: str
    run_id: str | None = None
    media_type: str = ""
    purpose: str = ""
    # None: it goes with its run.
    keep_s: float | None = None


async def insert_artifact(tx: Transaction, new: NewArtifact) -> None:
    expires = None if new.keep_s is None else func.corral_now() + func.make_interval(0, 0, 0, 0, 0, 0, new.keep_s)
    await tx.execute(
        insert(artifacts).values(
            id=new.id,
            owner=str(new.owner),
            user_id=new.owner.user_id,
            owner_key_id=new.owner.key_id,
            run_id=new.run_id,
            kind=new.kind,
            name=new.name[:NAME_MAX],
            media_type=new.media_type[:100],
            purpose=new.purpose,
            sha256="",
            size_bytes=0,
            is_complete=False,
            expires_at=expires,
        )
    )


def _to_artifact(row: Any) -> Artifact:
    return Artifact(
        id=ArtifactId(row.id),
        owner=row.owner,
        run_id=row.run_id,
        kind=ArtifactKind(row.kind),
        name=row.name,
        media_type=row.media_type,
        purpose=row.purpose,
        sha256=row.sha256,
        size_bytes=row.size_bytes,
        is_complete=row.is_complete,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )


async def find_artifact(
    tx: Transaction, artifact_id: str, *, owner: str | None = None, locks: bool = False
) -> Artifact | None:
    """Return a file; with `owner`, only if it is theirs. `locks` keeps it from changing until the transaction ends."""
    known = as_uuid(artifact_id)
    if known is None:
        return None
    statement = select(artifacts).where(artifacts.c.id == known)
    if owner is not None:
        statement = statement.where(artifacts.c.owner == owner)
    if locks:
        statement = statement.with_for_update()
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else _to_artifact(row)


async def get_artifact(tx: Transaction, artifact_id: str, *, owner: str | None = None) -> Artifact:
    """Return a complete file of an owner."""
    found = await find_artifact(tx, artifact_id, owner=owner)
    if found is None or not found.is_complete:
        raise make_not_found_error(artifact_id)
    return found


def make_not_found_error(artifact_id: str) -> NotFound:
    """Return the same error for a file that does not exist and for one of another owner."""
    return NotFound(
        f"There is no file {artifact_id[:80]!r}.", hint="GET /v1/files lists your files.", code="file_not_found"
    )


async def keep_forever(tx: Transaction, artifact_id: str) -> None:
    """Keep a file until it is deleted, or its owner."""
    await tx.execute(update(artifacts).where(artifacts.c.id == artifact_id).values(expires_at=None))


async def find_by_name(tx: Transaction, run_id: str, name: str) -> Artifact | None:
    """Return the file of a run with this name."""
    statement = select(artifacts).where(artifacts.c.run_id == run_id, artifacts.c.name == name)
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else _to_artifact(row)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactFilter:
    """Filters a query of users' files by owner, purpose, kind and run; a field that is None matches all."""

    owner: str | None = None
    purpose: str | None = None
    kind: ArtifactKind | None = None
    run_id: str | None = None


async def list_artifacts(
    tx: Transaction,
    matching: ArtifactFilter,
    *,
    limit: int,
    after: tuple[datetime, str] | None = None,
    oldest_first: bool = False,
) -> list[Artifact]:
    """List complete files, newest first or oldest first. `after` is the time and the id of the last one shown."""
    statement = select(artifacts).where(artifacts.c.is_complete)
    for column, value in (
        (artifacts.c.owner, matching.owner),
        (artifacts.c.purpose, matching.purpose),
        (artifacts.c.kind, matching.kind),
        (artifacts.c.run_id, matching.run_id),
    ):
        if value is not None:
            statement = statement.where(column == value)
    created, identity = artifacts.c.created_at, artifacts.c.id
    if after is not None:
        moment, last_id = after
        is_behind = created > moment if oldest_first else created < moment
        is_same_behind = identity > last_id if oldest_first else identity < last_id
        statement = statement.where(is_behind | ((created == moment) & is_same_behind))
    order = (created, identity) if oldest_first else (created.desc(), identity.desc())
    return [_to_artifact(row) for row in await tx.execute(statement.order_by(*order).limit(limit))]


_LOCK_OWNER = text("SELECT pg_advisory_xact_lock(hashtextextended('artifacts ' || :owner, 0))")


async def lock_owner(tx: Transaction, owner: str) -> None:
    """Let changes to the files of one owner wait for each other."""
    await tx.execute(_LOCK_OWNER, {"owner": owner})


async def measure_usage(tx: Transaction, owner: str) -> ArtifactUsage:
    """Return how much an owner keeps, unfinished files included."""
    total = func.coalesce(func.sum(artifacts.c.size_bytes), 0)
    statement = select(func.count().label("files"), total.label("size_bytes")).where(artifacts.c.owner == owner)
    row = (await tx.execute(statement)).one()
    return ArtifactUsage(files=int(row.files), size_bytes=int(row.size_bytes))


async def append_chunk(tx: Transaction, artifact_id: str, start_byte: int, content: bytes) -> bool:
    """Store bytes behind those that a file has. Return False, and store nothing, if it is complete, does not end at
    `start_byte` or is gone."""
    grown = await tx.execute(
        update(artifacts)
        .where(artifacts.c.id == artifact_id, artifacts.c.size_bytes == start_byte, ~artifacts.c.is_complete)
        .values(size_bytes=start_byte + len(content))
    )
    if not grown.rowcount:
        return False
    await tx.execute(
        insert(artifact_chunks).values(artifact_id=artifact_id, start_byte=start_byte, content=bytes(content))
    )
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedContent:
    """Values with which the row of a user's file is completed once all its bytes are stored.

    None leaves a field as it is.
    """

    sha256: str
    name: str | None = None
    media_type: str | None = None
    purpose: str | None = None


async def complete_artifact(tx: Transaction, artifact_id: str, content: CompletedContent) -> bool:
    """Make a file visible to its owner. Return False if it is gone or was complete."""
    more = {"name": content.name, "media_type": content.media_type, "purpose": content.purpose}
    values = {name: value for name, value in more.items() if value is not None}
    done = await tx.execute(
        update(artifacts)
        .where(artifacts.c.id == artifact_id, ~artifacts.c.is_complete)
        .values(sha256=content.sha256, is_complete=True, **values)
    )
    return bool(done.rowcount)


_READ_PIECE = text("""
    SELECT substring(content FROM CAST(:start_byte - start_byte + 1 AS integer) FOR CAST(:limit AS integer)) AS content
      FROM artifact_chunks
     WHERE artifact_id = CAST(:id AS uuid) AND start_byte <= :start_byte
     ORDER BY start_byte DESC
     LIMIT 1
""")


async def read_piece(tx: Transaction, artifact_id: str, start_byte: int, limit: int) -> bytes:
    """Return bytes of a file from a position on, at most `limit`, and at most to the end of one chunk; none at its
    end."""
    parameters = {"id": artifact_id, "start_byte": start_byte, "limit": limit}
    found = (await tx.execute(_READ_PIECE, parameters)).scalar_one_or_none()
    return b"" if found is None else bytes(found)


async def delete_artifact(tx: Transaction, artifact_id: str) -> bool:
    """Delete a file with its bytes; return whether it existed."""
    return bool((await tx.execute(delete(artifacts).where(artifacts.c.id == artifact_id))).rowcount)


_PRUNE = text("""
    WITH old AS (
        SELECT a.id, a.size_bytes FROM artifacts a
         WHERE (a.expires_at < corral_now()
                OR (a.kind IN ('upload', 'collection') AND NOT a.is_complete
                    AND a.created_at < corral_now() - make_interval(secs => :unfinished_s)))
           AND NOT EXISTS (SELECT FROM batches b WHERE b.input_file_id = a.id AND b.ended_at IS NULL)
         LIMIT :limit
    ), counted AS (
        SELECT id, sum(size_bytes) OVER (ORDER BY id) - size_bytes AS bytes_before FROM old
    )
    DELETE FROM artifacts WHERE id IN (SELECT id FROM counted WHERE bytes_before < :bytes)
""")


async def prune(tx: Transaction, limit: int = PRUNED_PER_PASS) -> int:
    """Delete files that have expired and uploads that were abandoned. The input of an open batch stays. Return how
    many; 0: there are no more."""
    parameters = {"unfinished_s": UNFINISHED_S, "limit": limit, "bytes": PRUNED_BYTES_PER_PASS}
    return (await tx.execute(_PRUNE, parameters)).rowcount
