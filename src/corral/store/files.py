"""Stores the contents that the cluster knows, which models are made of them, and whose library holds them.

A content is a row of `blobs` and never changes. Rows of `blobs` are written in the order of their sha256, so that
two transactions with the same contents wait for each other and never deadlock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Text, cast, delete, exists, func, literal, select
from sqlalchemy.dialects.postgresql import insert

from corral.domain.model import Blob
from corral.store import outbox
from corral.store.database import Transaction
from corral.store.fine_tune_schema import run_files
from corral.store.model_schema import blobs, library_files, model_files, models
from corral.store.run_schema import quantizations
from corral.store.schema import frontends

# How many contents one statement covers.
BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryHolder:
    """Names whose library holds a model file: one frontend's, or one that all frontends share."""

    name: str
    is_shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldContent:
    """A model file as read from PostgreSQL, with the libraries that hold it and the models that use it."""

    sha256: str
    size_bytes: int
    created_at: datetime
    holders: tuple[LibraryHolder, ...] = ()
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LostUpload:
    """An uploaded model file that no library holds any more, so a person has to upload it again."""

    model: str
    path: str
    sha256: str


async def put_blobs(tx: Transaction, contents: Collection[Blob], holder: LibraryHolder) -> None:
    """Insert contents, held by this library. A content that no library held before emits an event."""
    by_sha256 = {blob.sha256: blob for blob in contents}
    if not by_sha256:
        return
    rows = [
        {"sha256": blob.sha256, "size_bytes": blob.size_bytes, "chunks": blob.chunks}
        for _, blob in sorted(by_sha256.items())
    ]
    await tx.execute(insert(blobs).values(rows).on_conflict_do_nothing())
    known = set(
        (await tx.execute(select(library_files.c.sha256).where(library_files.c.sha256.in_(by_sha256)))).scalars()
    )
    await put_holder(tx, sorted(by_sha256), holder)
    await outbox.append_many(
        tx,
        "file.entered",
        [
            (blob.sha256, {"size_bytes": blob.size_bytes, "holder": holder.name})
            for blob in by_sha256.values()
            if blob.sha256 not in known
        ],
    )


async def put_holder(tx: Transaction, sha256s: Sequence[str], holder: LibraryHolder) -> None:
    """Record that this library holds known contents. Recording it again refreshes the time: see `list_unused`."""
    for start in range(0, len(sha256s), BATCH):
        rows = [
            {"sha256": sha256, "holder": holder.name, "is_shared": holder.is_shared}
            for sha256 in sha256s[start : start + BATCH]
        ]
        await tx.execute(
            insert(library_files)
            .values(rows)
            .on_conflict_do_update(index_elements=["sha256", "holder"], set_={"created_at": func.corral_now()})
        )


async def drop_holder(tx: Transaction, holder: LibraryHolder, sha256s: Collection[str] | None = None) -> int:
    """Delete this library as a holder of these contents, or of all."""
    statement = delete(library_files).where(library_files.c.holder == holder.name)
    if sha256s is not None:
        statement = statement.where(library_files.c.sha256.in_(sha256s))
    return (await tx.execute(statement)).rowcount


async def drop_absent_holders(tx: Transaction) -> int:
    """Delete holders of frontends that are gone. One that comes back registers its contents again."""
    statement = delete(library_files).where(
        library_files.c.is_shared.is_(False),
        ~exists(select(literal(1)).where(frontends.c.id == library_files.c.holder)),
    )
    return (await tx.execute(statement)).rowcount


async def find_blob(tx: Transaction, sha256: str) -> Blob | None:
    row = (await tx.execute(select(blobs).where(blobs.c.sha256 == sha256))).first()
    return None if row is None else Blob(sha256=row.sha256, size_bytes=row.size_bytes, chunks=row.chunks)


async def list_sizes(tx: Transaction, sha256s: Collection[str] | None = None) -> dict[str, int]:
    """Return the sizes of known contents: of these, or of all."""
    statement = select(blobs.c.sha256, blobs.c.size_bytes)
    if sha256s is not None:
        statement = statement.where(blobs.c.sha256.in_(sha256s))
    return {row.sha256: row.size_bytes for row in await tx.execute(statement)}


async def list_holders(tx: Transaction, sha256s: Collection[str]) -> dict[str, tuple[LibraryHolder, ...]]:
    """Return the holders of each of these; contents without a holder are left out."""
    rows = await tx.execute(
        select(library_files.c.sha256, library_files.c.holder, library_files.c.is_shared)
        .where(library_files.c.sha256.in_(sha256s))
        .order_by(library_files.c.sha256, library_files.c.holder)
    )
    found: dict[str, list[LibraryHolder]] = {}
    for row in rows:
        found.setdefault(row.sha256, []).append(LibraryHolder(name=row.holder, is_shared=row.is_shared))
    return {sha256: tuple(holders) for sha256, holders in found.items()}


# A frontend that was not seen for so long cannot be read from.
_ALIVE_S = 20.0


async def list_libraries(tx: Transaction, sha256s: Collection[str]) -> dict[tuple[str, int], set[str]]:
    """Return host and port of every running frontend whose own library holds some of these, with which."""
    alive = frontends.c.seen_at > func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, _ALIVE_S)
    rows = await tx.execute(
        select(library_files.c.sha256, frontends.c.host, frontends.c.port)
        .join_from(library_files, frontends, frontends.c.id == library_files.c.holder)
        .where(library_files.c.sha256.in_(sha256s), library_files.c.is_shared.is_(False), alive)
        .order_by(frontends.c.id)
    )
    found: dict[tuple[str, int], set[str]] = {}
    for row in rows:
        found.setdefault((row.host, row.port), set()).add(row.sha256)
    return found


async def list_lost_uploads(tx: Transaction, own: LibraryHolder) -> list[LostUpload]:
    """Return uploaded files of models that no running frontend holds, nor their shared storage. `own` is the
    caller's library, which is running."""
    seen_at = frontends.c.seen_at > func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, _ALIVE_S)
    alive = select(frontends.c.id).where(seen_at)
    is_held = exists(
        select(literal(1)).where(
            library_files.c.sha256 == model_files.c.sha256,
            library_files.c.is_shared | (library_files.c.holder == own.name) | library_files.c.holder.in_(alive),
        )
    )
    was_sent = func.strpos(cast(models.c.config, Text), func.concat("upload:", model_files.c.sha256)) > 0
    rows = await tx.execute(
        select(model_files.c.model, model_files.c.path, model_files.c.sha256)
        .join_from(model_files, models, models.c.name == model_files.c.model)
        .where(~is_held, was_sent)
        .order_by(model_files.c.model, model_files.c.path)
        .limit(100)
    )
    return [LostUpload(model=row.model, path=row.path, sha256=row.sha256) for row in rows]


async def list_contents(
    tx: Transaction, *, model: str | None = None, after: str = "", limit: int = 1000
) -> list[HeldContent]:
    """Return a page of all known contents, or of those of one model, by sha256."""
    held_by = (
        select(
            library_files.c.sha256,
            func.jsonb_object_agg(library_files.c.holder, library_files.c.is_shared).label("holders"),
        )
        .group_by(library_files.c.sha256)
        .subquery()
    )
    used_by = (
        select(model_files.c.sha256, func.array_agg(model_files.c.model.distinct()).label("models"))
        .group_by(model_files.c.sha256)
        .subquery()
    )
    statement = (
        select(blobs.c.sha256, blobs.c.size_bytes, blobs.c.created_at, held_by.c.holders, used_by.c.models)
        .join_from(blobs, held_by, held_by.c.sha256 == blobs.c.sha256, isouter=True)
        .join(used_by, used_by.c.sha256 == blobs.c.sha256, isouter=True)
        .where(blobs.c.sha256 > after)
        .order_by(blobs.c.sha256)
        .limit(limit)
    )
    if model is not None:
        own = select(model_files.c.sha256).where(model_files.c.model == model)
        statement = statement.where(blobs.c.sha256.in_(own))
    return [_to_content(row) for row in await tx.execute(statement)]


async def list_unused(tx: Transaction, holder: LibraryHolder, older_than_s: float) -> list[tuple[str, int]]:
    """Return sha256 and size of contents that this library holds for no model and that were not registered lately."""
    rows = await tx.execute(
        select(blobs.c.sha256, blobs.c.size_bytes)
        .join_from(library_files, blobs, blobs.c.sha256 == library_files.c.sha256)
        .where(library_files.c.holder == holder.name, *_make_unused_conditions(older_than_s))
        .order_by(blobs.c.sha256)
    )
    return [(row.sha256, row.size_bytes) for row in rows]


async def release_unused(tx: Transaction, sha256: str, holder: LibraryHolder, older_than_s: float) -> bool:
    """Delete this library as a holder, unless a model uses the content now; return whether it was deleted.

    The content's row is locked first: a model that is about to use it has it locked too, and is seen afterwards.
    """
    await tx.execute(select(blobs.c.sha256).where(blobs.c.sha256 == sha256).with_for_update())
    deleted = await tx.execute(
        delete(library_files).where(
            library_files.c.sha256 == sha256,
            library_files.c.holder == holder.name,
            *_make_unused_conditions(older_than_s),
        )
    )
    return deleted.rowcount > 0


async def prune_blobs(tx: Transaction, older_than_s: float) -> int:
    """Delete contents that no model uses, no library holds, and that were not registered lately."""
    old = blobs.c.created_at < func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, older_than_s)
    deleted = await tx.execute(
        delete(blobs).where(
            old,
            ~exists(select(literal(1)).where(model_files.c.sha256 == blobs.c.sha256)),
            ~exists(select(literal(1)).where(library_files.c.sha256 == blobs.c.sha256)),
            ~exists(select(literal(1)).where(quantizations.c.sha256 == blobs.c.sha256)),
            ~exists(select(literal(1)).where(run_files.c.sha256 == blobs.c.sha256)),
        )
    )
    return deleted.rowcount


def _make_unused_conditions(older_than_s: float) -> tuple[Any, ...]:
    return (
        ~exists(select(literal(1)).where(model_files.c.sha256 == library_files.c.sha256)),
        # A result that is no model yet: it goes with its run.
        ~exists(select(literal(1)).where(quantizations.c.sha256 == library_files.c.sha256)),
        ~exists(select(literal(1)).where(run_files.c.sha256 == library_files.c.sha256)),
        library_files.c.created_at <= func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, older_than_s),
    )


def _to_content(row: Any) -> HeldContent:
    holders = sorted((row.holders or {}).items())
    return HeldContent(
        sha256=row.sha256,
        size_bytes=row.size_bytes,
        created_at=row.created_at,
        holders=tuple(LibraryHolder(name=name, is_shared=is_shared) for name, is_shared in holders),
        models=tuple(sorted(row.models or ())),
    )
