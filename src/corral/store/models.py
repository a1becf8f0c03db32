"""Models: configurations with all their revisions, the names that lead to them, and what they are made of.

A model's row is locked before it is changed, so two frontends that edit at once come one after the other and the second
sees what the first has done. Every name, alias or not, leads to one model: a table with a primary key says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields
from difflib import get_close_matches
from typing import Any

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert

from corral.domain.errors import Conflict, NotFound
from corral.domain.model import Model, ModelConfig, ModelFacts, ModelRevision, StoredFile
from corral.policy.models.configuration import from_stored, run_hash, to_mapping
from corral.store import outbox
from corral.store.database import Transaction, is_storable
from corral.store.model_schema import (
    blobs,
    fleet_items,
    model_files,
    model_names,
    model_removals,
    model_revisions,
    models,
)

REVISIONS_SHOWN = 200
_FACTS = frozenset(field.name for field in fields(ModelFacts))


async def list_models(tx: Transaction, names: Collection[str] | None = None) -> list[Model]:
    """By name. `names` are own names; unknown ones are not in the answer."""
    statement = select(models).order_by(models.c.name)
    if names is not None:
        statement = statement.where(models.c.name.in_([name for name in names if is_storable(name)]))
    rows = (await tx.execute(statement)).all()
    files = await _files(tx, None if names is None else [row.name for row in rows])
    return [_to_model(row, files.get(row.name)) for row in rows]


async def find_model(tx: Transaction, name: str) -> Model | None:
    """By its name or an alias."""
    if not is_storable(name):
        return None
    own = select(model_names.c.model).where(model_names.c.name == name).scalar_subquery()
    row = (await tx.execute(select(models).where(models.c.name == own))).one_or_none()
    return None if row is None else _to_model(row, (await _files(tx, [row.name])).get(row.name))


async def find_owner(tx: Transaction, name: str) -> str | None:
    """The own name of the model that a name leads to."""
    statement = select(model_names.c.model).where(model_names.c.name == name)
    found: str | None = (await tx.execute(statement)).scalar_one_or_none() if is_storable(name) else None
    return found


async def get_model(tx: Transaction, name: str) -> Model:
    found = await find_model(tx, name)
    if found is None:
        raise await unknown(tx, name)
    return found


async def lock_models(tx: Transaction, names: Collection[str]) -> dict[str, Model]:
    """The rows of these own names, held until the transaction ends; in one order, whoever asks for which."""
    wanted = sorted({name for name in names if is_storable(name)})
    statement = select(models).where(models.c.name.in_(wanted)).order_by(models.c.name).with_for_update()
    rows = (await tx.execute(statement)).all()
    files = await _files(tx, [row.name for row in rows])
    return {row.name: _to_model(row, files.get(row.name)) for row in rows}


async def lock_model(tx: Transaction, name: str) -> Model:
    """By its name or an alias, held until the transaction ends."""
    for _ in range(2):
        found = await get_model(tx, name)
        locked = (await lock_models(tx, [found.name])).get(found.name)
        # Renamed or deleted by whoever held it before us: look again.
        if locked is not None:
            return locked
    raise await unknown(tx, name)


async def unknown(tx: Transaction, name: str) -> NotFound:
    known = [row.name for row in await tx.execute(select(model_names.c.name).limit(5000))]
    near = get_close_matches(name[:200], known, n=3, cutoff=0.6)
    return NotFound(
        f"There is no model {name[:200]!r}.",
        code="model_not_found",
        hint=f"Did you mean {' or '.join(near)}?" if near else "`corral models list` shows them.",
        details={"suggestions": near},
    )


async def insert_model(tx: Transaction, config: ModelConfig, actor: str, note: str) -> Model:
    """`Conflict` if the name or an alias leads to another model already."""
    word = run_hash(config)
    row = {"name": config.name, "revision": 1, "run_hash": word, "config": to_mapping(config)}
    made = await tx.execute(
        postgres_insert(models).values(**row).on_conflict_do_nothing(index_elements=["name"]).returning(models.c.name)
    )
    if made.one_or_none() is None:
        raise _taken(config.name, config.name)
    # What nodes still owed to remove under this name is this model's now; staging it replaces what is there.
    await tx.execute(delete(model_removals).where(model_removals.c.model == config.name))
    await _put_names(tx, config)
    await _put_revision(tx, config, 1, word, (actor, note))
    await _tell(tx, config.name, 1, word)
    return await get_model(tx, config.name)


async def write_revision(tx: Transaction, before: Model, config: ModelConfig, actor: str, note: str) -> Model:
    """The next revision of a locked model. Files that come from elsewhere now are no longer its files."""
    keeps_files = before.config.files == config.files
    files = before.files if keeps_files else None
    number, word = before.revision + 1, run_hash(config, files)
    values: dict[str, Any] = {
        "revision": number,
        "run_hash": word,
        "config": to_mapping(config),
        "updated_at": func.corral_now(),
    }
    if not keeps_files:
        values["facts"] = None
        await tx.execute(delete(model_files).where(model_files.c.model == config.name))
    await tx.execute(update(models).where(models.c.name == config.name).values(**values))
    await _put_names(tx, config)
    await _put_revision(tx, config, number, word, (actor, note))
    await _tell(tx, config.name, number, word)
    return await get_model(tx, config.name)


async def put_contents(tx: Transaction, name: str, files: Sequence[StoredFile], facts: ModelFacts | None) -> Model:
    """What a locked model is made of, now that it was fetched. Its contents must be known as blobs already.

    The run hash may change with it (a source whose sha256 nobody had promised); the caller ends what runs with another.
    """
    before = await get_model(tx, name)
    await tx.execute(delete(model_files).where(model_files.c.model == before.name))
    if files:
        await tx.execute(
            insert(model_files),
            [{"model": before.name, "path": file.path, "sha256": file.sha256} for file in files],
        )
    word = run_hash(before.config, files)
    values = {"facts": None if facts is None else asdict(facts), "run_hash": word, "updated_at": func.corral_now()}
    await tx.execute(update(models).where(models.c.name == before.name).values(**values))
    await tx.execute(
        update(model_revisions)
        .where(model_revisions.c.model == before.name, model_revisions.c.number == before.revision)
        .values(run_hash=word)
    )
    await _tell(tx, before.name, before.revision, word)
    return await get_model(tx, before.name)


_COPY = """
    INSERT INTO models (name, revision, run_hash, config, facts, observed, created_at)
    SELECT CAST(:new AS text), revision, run_hash, jsonb_set(config, '{name}', to_jsonb(CAST(:new AS text))), facts,
           observed, created_at
      FROM models WHERE name = :old
"""
_MOVES = (
    _COPY,
    "UPDATE model_revisions SET model = :new WHERE model = :old",
    "UPDATE model_names SET model = :new WHERE model = :old",
    "UPDATE model_files SET model = :new WHERE model = :old",
    "DELETE FROM models WHERE name = :old",
)


async def move_model(tx: Transaction, old: str, new: str) -> None:
    """Everything that hangs on a name, to another one. Its names stay; the next revision writes them."""
    for statement in _MOVES:
        await tx.execute(text(statement), {"old": old, "new": new})


async def drop_names(tx: Transaction, names: Collection[str]) -> None:
    await tx.execute(delete(model_names).where(model_names.c.name.in_(list(names))))


async def delete_model(tx: Transaction, model: Model) -> None:
    """Forget a locked model with all revisions. What nodes hold of it is owed to be removed."""
    await owe_removal(tx, model.name)
    await tx.execute(delete(models).where(models.c.name == model.name))
    await _tell(tx, model.name, model.revision, model.run_hash, deleted=True)


async def owe_removal(tx: Transaction, name: str) -> int:
    """Every node that holds files under this name has to remove them, also one that is away."""
    owed = await tx.execute(
        text(
            "INSERT INTO model_removals (node_id, model) SELECT node_id, model FROM staged_models WHERE model = :model"
            " ON CONFLICT (node_id, model) DO UPDATE SET due_at = corral_now(), attempts = 0"
        ),
        {"model": name},
    )
    return owed.rowcount


async def tell_gone(tx: Transaction, model: Model) -> None:
    """The name leads nowhere any more."""
    await _tell(tx, model.name, model.revision, model.run_hash, deleted=True)


async def list_revisions(tx: Transaction, model: str, limit: int = REVISIONS_SHOWN) -> list[ModelRevision]:
    """Newest first."""
    statement = select(model_revisions).where(model_revisions.c.model == model)
    rows = await tx.execute(statement.order_by(model_revisions.c.number.desc()).limit(limit))
    return [_to_revision(row) for row in rows]


async def get_revision(tx: Transaction, model: str, number: int) -> ModelRevision:
    statement = select(model_revisions).where(model_revisions.c.model == model, model_revisions.c.number == number)
    row = (await tx.execute(statement)).one_or_none() if 0 < number < 2**31 else None
    if row is None:
        raise NotFound(
            f"{model} has no revision {number}.", hint=f"corral models revisions {model}", code="revision_not_found"
        )
    return _to_revision(row)


async def list_applied(tx: Transaction) -> set[tuple[str, str]]:
    """Kinds and names of what a file of the fleet has said."""
    return {(row.kind, row.name) for row in await tx.execute(select(fleet_items))}


async def put_applied(tx: Transaction, items: Collection[tuple[str, str]], gone: Collection[tuple[str, str]]) -> None:
    for kind, name in sorted(gone):
        await tx.execute(delete(fleet_items).where(fleet_items.c.kind == kind, fleet_items.c.name == name))
    if items:
        rows = [{"kind": kind, "name": name} for kind, name in sorted(items)]
        statement = postgres_insert(fleet_items).values(rows)
        await tx.execute(
            statement.on_conflict_do_update(index_elements=["kind", "name"], set_={"applied_at": func.corral_now()})
        )


async def _put_names(tx: Transaction, config: ModelConfig) -> None:
    wanted = sorted({config.name, *config.aliases})
    await tx.execute(delete(model_names).where(model_names.c.model == config.name, model_names.c.name.not_in(wanted)))
    await tx.execute(
        postgres_insert(model_names)
        .values([{"name": name, "model": config.name} for name in wanted])
        .on_conflict_do_nothing(index_elements=["name"])
    )
    rows = await tx.execute(
        select(model_names).where(model_names.c.name.in_(wanted), model_names.c.model != config.name)
    )
    for row in rows:
        raise _taken(row.name, row.model)


async def _put_revision(tx: Transaction, config: ModelConfig, number: int, word: str, by: tuple[str, str]) -> None:
    actor, note = by
    await tx.execute(
        insert(model_revisions).values(
            model=config.name,
            number=number,
            run_hash=word,
            config=to_mapping(config),
            created_by=actor,
            note=note,
        )
    )


async def _tell(tx: Transaction, name: str, revision: int, word: str, *, deleted: bool = False) -> None:
    await outbox.append(tx, "model.changed", name, {"revision": revision, "run_hash": word, "deleted": deleted})


def _taken(name: str, model: str) -> Conflict:
    sentence = f"There is a model {name!r} already." if name == model else f"{name!r} is an alias of {model} already."
    return Conflict(sentence, code="model_name_taken", details={"name": name, "model": model})


async def _files(tx: Transaction, names: Collection[str] | None) -> Mapping[str, tuple[StoredFile, ...]]:
    statement = select(model_files, blobs.c.size_bytes).join_from(
        model_files, blobs, blobs.c.sha256 == model_files.c.sha256
    )
    if names is not None:
        if not names:
            return {}
        statement = statement.where(model_files.c.model.in_(names))
    found: dict[str, list[StoredFile]] = {}
    for row in await tx.execute(statement.order_by(model_files.c.model, model_files.c.path)):
        file = StoredFile(path=row.path, sha256=row.sha256, size_bytes=row.size_bytes)
        found.setdefault(row.model, []).append(file)
    return {name: tuple(files) for name, files in found.items()}


def facts_of(stored: Mapping[str, Any] | None) -> ModelFacts | None:
    """Read the facts that a row or a file holds. Fields of a newer version are left out."""
    return None if stored is None else ModelFacts(**{key: value for key, value in stored.items() if key in _FACTS})


def _to_model(row: Any, files: tuple[StoredFile, ...] | None) -> Model:
    config = from_stored(row.config)
    return Model(
        config=config,
        revision=row.revision,
        run_hash=row.run_hash,
        # A model without files has all of them.
        files=files if files is not None else None if config.files else (),
        facts=facts_of(row.facts),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _to_revision(row: Any) -> ModelRevision:
    return ModelRevision(
        model=row.model,
        number=row.number,
        run_hash=row.run_hash,
        config=from_stored(row.config),
        created_by=row.created_by,
        created_at=row.created_at,
        note=row.note,
    )
