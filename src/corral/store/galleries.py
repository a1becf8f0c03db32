"""Stores galleries, copies of their indexes, and what the tags of registries pointed to when last queried.

There are galleries of backends and of models. Both kinds may use the same names: copies of the second kind are kept
under `models/<name>`, which no gallery can be called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import ColumnElement, delete, func, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from corral.domain.backend import Gallery
from corral.store import outbox
from corral.store.database import Transaction
from corral.store.schema import galleries, gallery_copies, gallery_digests

# Far above the images that one cluster uses; keeps a broken gallery from filling the table.
DIGESTS_KEPT = 5_000
BACKENDS, MODELS = "backends", "models"
_PREFIX = {BACKENDS: "", MODELS: "models/"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryCopy:
    """Last readable text of one gallery's index as stored in PostgreSQL, and the last problem.

    Empty if there never was one.
    """

    name: str
    url: str
    content: str
    sha256: str
    etag: str
    fetched_at: datetime | None
    tried_at: datetime | None
    problem: str


async def list_galleries(tx: Transaction, kind: str) -> list[Gallery]:
    """Return the galleries that came with a fleet file; those of the settings are not stored."""
    rows = await tx.execute(select(galleries).where(galleries.c.kind == kind).order_by(galleries.c.name))
    return [Gallery(name=row.name, url=row.url, mirrors=tuple(row.mirrors)) for row in rows]


async def put_gallery(tx: Transaction, kind: str, gallery: Gallery) -> None:
    values = {"url": gallery.url, "mirrors": list(gallery.mirrors)}
    statement = insert(galleries).values(kind=kind, name=gallery.name, **values)
    await tx.execute(statement.on_conflict_do_update(index_elements=["kind", "name"], set_=values))
    await outbox.append(tx, "gallery.changed", gallery.name, {"name": gallery.name, "kind": kind})


async def delete_gallery(tx: Transaction, kind: str, name: str) -> bool:
    deleted = await tx.execute(delete(galleries).where(galleries.c.kind == kind, galleries.c.name == name))
    if deleted.rowcount:
        await outbox.append(tx, "gallery.changed", name, {"name": name, "kind": kind})
    return bool(deleted.rowcount)


def _is_of_kind(kind: str) -> ColumnElement[bool]:
    """Return the condition that a copy belongs to a kind."""
    is_model = gallery_copies.c.name.startswith(_PREFIX[MODELS])
    return is_model if kind == MODELS else ~is_model


async def list_copies(tx: Transaction, kind: str = BACKENDS) -> list[GalleryCopy]:
    statement = select(gallery_copies).where(_is_of_kind(kind)).order_by(gallery_copies.c.name)
    return [_to_copy(row, kind) for row in await tx.execute(statement)]


async def list_stamps(tx: Transaction, kind: str = BACKENDS) -> list[GalleryCopy]:
    """Return the copies without their texts, which may be megabytes."""
    columns = [column for column in gallery_copies.c if column.name != "content"]
    statement = select(*columns, literal("").label("content")).where(_is_of_kind(kind)).order_by(gallery_copies.c.name)
    return [_to_copy(row, kind) for row in await tx.execute(statement)]


async def list_due(tx: Transaction, every_s: float, after_problem_s: float, kind: str = BACKENDS) -> set[str]:
    """Return the names of copies that were last tried too long ago. Galleries that were never tried have no row."""
    pause = func.make_interval(0, 0, 0, 0, 0, 0, every_s)
    short = func.make_interval(0, 0, 0, 0, 0, 0, min(every_s, after_problem_s))
    rows = await tx.execute(
        select(gallery_copies.c.name).where(
            _is_of_kind(kind),
            or_(
                gallery_copies.c.tried_at.is_(None),
                gallery_copies.c.tried_at <= func.corral_now() - pause,
                (gallery_copies.c.problem != "") & (gallery_copies.c.tried_at <= func.corral_now() - short),
            ),
        )
    )
    return {row.name.removeprefix(_PREFIX[kind]) for row in rows}


async def put_copy(tx: Transaction, gallery: Gallery, content: str, etag: str, kind: str = BACKENDS) -> bool:
    """Store a valid text; return whether it differs from the stored one. A change emits an event.

    The gallery's address is stored as it is given: without its password.
    """
    digest = sha256(content.encode()).hexdigest()
    name, url = _PREFIX[kind] + gallery.name, gallery.url
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
        data = {"name": gallery.name, "kind": kind, "sha256": digest}
        await outbox.append(tx, "gallery.changed", gallery.name, data)
    return is_new


async def note_unchanged(tx: Transaction, name: str, kind: str = BACKENDS) -> None:
    """Record that the source has not changed since the copy."""
    await tx.execute(
        update(gallery_copies)
        .where(gallery_copies.c.name == _PREFIX[kind] + name)
        .values(fetched_at=func.corral_now(), tried_at=func.corral_now(), problem="")
    )


async def note_problem(tx: Transaction, name: str, url: str, problem: str, kind: str = BACKENDS) -> None:
    """Record that no source gave a valid text. The copy stays as it is."""
    values = {"tried_at": func.corral_now(), "problem": problem[:2000]}
    await tx.execute(
        insert(gallery_copies)
        .values(name=_PREFIX[kind] + name, url=url, **values)
        .on_conflict_do_update(index_elements=["name"], set_=values)
    )


async def delete_copies_except(tx: Transaction, urls: Mapping[str, str], kind: str = BACKENDS) -> int:
    """Delete the copies of galleries that are no longer configured, or are at another address now."""
    rows = await tx.execute(select(gallery_copies.c.name, gallery_copies.c.url).where(_is_of_kind(kind)))
    outdated = [row.name for row in rows if urls.get(row.name.removeprefix(_PREFIX[kind])) != row.url]
    if outdated:
        await tx.execute(delete(gallery_copies).where(gallery_copies.c.name.in_(outdated)))
        names = [name.removeprefix(_PREFIX[kind]) for name in outdated]
        await outbox.append_many(tx, "gallery.changed", [(name, {"name": name, "kind": kind}) for name in names])
    return len(outdated)


async def list_digests(tx: Transaction) -> dict[str, str]:
    rows = await tx.execute(select(gallery_digests.c.uri, gallery_digests.c.digest).limit(DIGESTS_KEPT))
    return {row.uri: row.digest for row in rows}


async def list_fresh_digests(tx: Transaction, uris: Sequence[str], within_s: float) -> set[str]:
    """Return those of the images that were queried recently enough."""
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
    """Delete images that were not queried lately: they are no longer installed anywhere."""
    deleted = await tx.execute(
        delete(gallery_digests).where(
            gallery_digests.c.checked_at < func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, unused_s)
        )
    )
    return deleted.rowcount


def _to_copy(row: Any, kind: str) -> GalleryCopy:
    return GalleryCopy(
        name=row.name.removeprefix(_PREFIX[kind]),
        url=row.url,
        content=row.content,
        sha256=row.sha256,
        etag=row.etag,
        fetched_at=row.fetched_at,
        tried_at=row.tried_at,
        problem=row.problem,
    )
