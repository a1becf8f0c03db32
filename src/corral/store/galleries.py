"""Copies of gallery indexes, and what the tags of registries pointed to when they were last asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import delete, func, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from corral.store import outbox
from corral.store.database import Transaction
from corral.store.schema import gallery_copies, gallery_digests

# Far above the images that one cluster uses; keeps a broken gallery from filling the table.
DIGESTS_KEPT = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryCopy:
    """The last good text of one index; empty if there never was one. `problem` is about the last try."""

    name: str
    url: str
    content: str
    sha256: str
    etag: str
    fetched_at: datetime | None
    tried_at: datetime | None
    problem: str


async def list_copies(tx: Transaction) -> list[GalleryCopy]:
    return [_to_copy(row) for row in await tx.execute(select(gallery_copies).order_by(gallery_copies.c.name))]


async def list_stamps(tx: Transaction) -> list[GalleryCopy]:
    """The copies without their texts, which may be megabytes."""
    columns = [column for column in gallery_copies.c if column.name != "content"]
    rows = await tx.execute(select(*columns, literal("").label("content")).order_by(gallery_copies.c.name))
    return [_to_copy(row) for row in rows]


async def list_due(tx: Transaction, every_s: float, after_problem_s: float) -> set[str]:
    """Names of copies that were last tried too long ago. What was never tried is not in the table."""
    pause = func.make_interval(0, 0, 0, 0, 0, 0, every_s)
    short = func.make_interval(0, 0, 0, 0, 0, 0, min(every_s, after_problem_s))
    rows = await tx.execute(
        select(gallery_copies.c.name).where(
            or_(
                gallery_copies.c.tried_at.is_(None),
                gallery_copies.c.tried_at <= func.corral_now() - pause,
                (gallery_copies.c.problem != "") & (gallery_copies.c.tried_at <= func.corral_now() - short),
            )
        )
    )
    return {row.name for row in rows}


async def put_copy(tx: Transaction, name: str, url: str, content: str, etag: str) -> bool:
    """Take over a good text; whether it differs from what was there. A change leaves an event."""
    digest = sha256(content.encode()).hexdigest()
    known = (await tx.execute(select(gallery_copies).where(gallery_copies.c.name == name).with_for_update())).first()
    is_new = known is None or known.sha256 != digest or known.url != url
    values: dict[str, Any] = {
        "url": url,
        "content": content,
        "sha256": digest,
        "etag": etag,
        "fetched_at": func.corral_now(),
        "tried_at": func.corral_now(),
        "problem": "",
    }
    await tx.execute(
        insert(gallery_copies).values(name=name, **values).on_conflict_do_update(index_elements=["name"], set_=values)
    )
    if is_new:
        await outbox.append(tx, "gallery.changed", name, {"name": name, "sha256": digest})
    return is_new


async def note_unchanged(tx: Transaction, name: str) -> None:
    """The source says that the copy is still what it has."""
    await tx.execute(
        update(gallery_copies)
        .where(gallery_copies.c.name == name)
        .values(fetched_at=func.corral_now(), tried_at=func.corral_now(), problem="")
    )


async def note_problem(tx: Transaction, name: str, url: str, problem: str) -> None:
    """No source gave a good text. The copy stays as it is."""
    values = {"tried_at": func.corral_now(), "problem": problem[:2000]}
    await tx.execute(
        insert(gallery_copies)
        .values(name=name, url=url, **values)
        .on_conflict_do_update(index_elements=["name"], set_=values)
    )


async def keep_only(tx: Transaction, urls: Mapping[str, str]) -> int:
    """Forget the copies of galleries that are no longer set up, or are at another address now."""
    rows = await tx.execute(select(gallery_copies.c.name, gallery_copies.c.url))
    gone = [row.name for row in rows if urls.get(row.name) != row.url]
    if gone:
        await tx.execute(delete(gallery_copies).where(gallery_copies.c.name.in_(gone)))
        await outbox.append_many(tx, "gallery.changed", [(name, {"name": name}) for name in gone])
    return len(gone)


async def list_digests(tx: Transaction) -> dict[str, str]:
    rows = await tx.execute(select(gallery_digests.c.uri, gallery_digests.c.digest).limit(DIGESTS_KEPT))
    return {row.uri: row.digest for row in rows}


async def list_fresh_digests(tx: Transaction, uris: Sequence[str], within_s: float) -> set[str]:
    """Which of these were asked for recently enough."""
    rows = await tx.execute(
        select(gallery_digests.c.uri).where(
            gallery_digests.c.uri.in_(uris),
            gallery_digests.c.checked_at > func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, within_s),
        )
    )
    return {row.uri for row in rows}


async def put_digests(tx: Transaction, digests: Mapping[str, str]) -> None:
    if not digests:
        return
    statement = insert(gallery_digests).values([{"uri": uri, "digest": digest} for uri, digest in digests.items()])
    await tx.execute(
        statement.on_conflict_do_update(
            index_elements=["uri"], set_={"digest": statement.excluded.digest, "checked_at": func.corral_now()}
        )
    )


async def prune_digests(tx: Transaction, unused_s: float) -> int:
    """Images that nobody has asked for since are no longer installed anywhere."""
    gone = await tx.execute(
        delete(gallery_digests).where(
            gallery_digests.c.checked_at < func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, unused_s)
        )
    )
    return gone.rowcount


def _to_copy(row: Any) -> GalleryCopy:
    return GalleryCopy(
        name=row.name,
        url=row.url,
        content=row.content,
        sha256=row.sha256,
        etag=row.etag,
        fetched_at=row.fetched_at,
        tried_at=row.tried_at,
        problem=row.problem,
    )
