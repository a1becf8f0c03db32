"""Stores models: configurations with all their revisions, their names, and their files.

A model's row is locked before it is changed, so two frontends that edit at once come one after the other and the
second sees what the first has done. Every name, alias or not, leads to one model, which a primary key enforces.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields
from difflib import get_close_matches
from typing import Any

from sqlalchemy import Boolean, cast, delete, exists, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert

from corral.domain.access import Principal, can_use_model
from corral.domain.errors import Conflict, NotFound
from corral.domain.model import (
    AttachedAdapter,
    Model,
    ModelConfig,
    ModelFacts,
    ModelProvenance,
    ModelRevision,
    StoredFile,
)
from corral.policy.models.configuration import (
    compute_run_hash,
    from_stored,
    parse_files,
    to_file_mapping,
    to_mapping,
)
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
    """Return models by name. `names` are own names; unknown ones are left out."""
    statement = select(models).order_by(models.c.name)
    if names is not None:
        statement = statement.where(models.c.name.in_([name for name in names if is_storable(name)]))
    rows = (await tx.execute(statement)).all()
    files = await _list_files(tx, None if names is None else [row.name for row in rows])
    return [_to_model(row, files.get(row.name)) for row in rows]


async def find_model(tx: Transaction, name: str) -> Model | None:
    """Return the model with this name or alias."""
    if not is_storable(name):
        return None
    own = select(model_names.c.model).where(model_names.c.name == name).scalar_subquery()
    row = (await tx.execute(select(models).where(models.c.name == own))).one_or_none()
    return None if row is None else _to_model(row, (await _list_files(tx, [row.name])).get(row.name))


async def find_own_name(tx: Transaction, name: str) -> str | None:
    """Return the own name of the model that a name leads to."""
    statement = select(model_names.c.model).where(model_names.c.name == name)
    found: str | None = (await tx.execute(statement)).scalar_one_or_none() if is_storable(name) else None
    return found


async def get_model(tx: Transaction, name: str) -> Model:
    found = await find_model(tx, name)
    if found is None:
        raise await make_unknown_error(tx, name)
    return found


async def lock_models(tx: Transaction, names: Collection[str]) -> dict[str, Model]:
    """Lock and return the rows of these own names until the transaction ends, always in the same order."""
    own_names = sorted({name for name in names if is_storable(name)})
    statement = select(models).where(models.c.name.in_(own_names)).order_by(models.c.name).with_for_update()
    rows = (await tx.execute(statement)).all()
    files = await _list_files(tx, [row.name for row in rows])
    return {row.name: _to_model(row, files.get(row.name)) for row in rows}


async def lock_model(tx: Transaction, name: str) -> Model:
    """Lock and return the model with this name or alias until the transaction ends."""
    for _ in range(2):
        found = await get_model(tx, name)
        locked = (await lock_models(tx, [found.name])).get(found.name)
        # The previous holder of the lock has renamed or deleted the model: look again.
        if locked is not None:
            return locked
    raise await make_unknown_error(tx, name)


async def make_unknown_error(tx: Transaction, name: str, caller: Principal | None = None) -> NotFound:
    """Return the error for a name that means no model. It suggests only models that the caller may use."""
    known = [row.name for row in await tx.execute(select(model_names.c.name).limit(5000))]
    shown = known if caller is None else [one for one in known if can_use_model(caller, one)]
    near = get_close_matches(name[:200], shown, n=3, cutoff=0.6)
    return NotFound(
        f"There is no model {name[:200]!r}.",
        code="model_not_found",
        hint=f"Did you mean {' or '.join(near)}?" if near else "`corral models list` shows them.",
        details={"suggestions": near},
    )


async def insert_model(tx: Transaction, config: ModelConfig, actor: str, note: str) -> Model:
    """Insert a model. `Conflict` if the name or an alias leads to another model already."""
    run_hash = compute_run_hash(config)
    row = {"name": config.name, "revision": 1, "run_hash": run_hash, "config": to_mapping(config)}
    made = await tx.execute(
        postgres_insert(models).values(**row).on_conflict_do_nothing(index_elements=["name"]).returning(models.c.name)
    )
    if made.one_or_none() is None:
        raise _make_name_taken_error(config.name, config.name)
    # Pending removals under this name are cancelled: the new model replaces the files when it is staged.
    await tx.execute(delete(model_removals).where(model_removals.c.model == config.name))
    await _put_names(tx, config)
    await _put_revision(tx, config, 1, run_hash, (actor, note))
    await _append_event(tx, config.name, 1, run_hash)
    return await get_model(tx, config.name)


async def write_revision(tx: Transaction, previous: Model, config: ModelConfig, actor: str, note: str) -> Model:
    """Write the next revision of a locked model. Files whose source has changed are no longer its files."""
    keeps_files = previous.config.files == config.files
    files = previous.files if keeps_files else None
    number, run_hash = previous.revision + 1, compute_run_hash(config, files, previous.adapters)
    values: dict[str, Any] = {
        "revision": number,
        "run_hash": run_hash,
        "config": to_mapping(config),
        "updated_at": func.corral_now(),
    }
    if not keeps_files:
        values["facts"] = None
        await tx.execute(delete(model_files).where(model_files.c.model == config.name))
    await tx.execute(update(models).where(models.c.name == config.name).values(**values))
    await _put_names(tx, config)
    await _put_revision(tx, config, number, run_hash, (actor, note))
    await _append_event(tx, config.name, number, run_hash)
    return await get_model(tx, config.name)


async def put_contents(tx: Transaction, name: str, files: Sequence[StoredFile], facts: ModelFacts | None) -> Model:
    """Write the contents of a locked model after its files were fetched. They must be known as blobs already.

    The run hash may change with it (a source without a configured sha256); the caller ends replicas with another
    one.
    """
    previous = await get_model(tx, name)
    await tx.execute(delete(model_files).where(model_files.c.model == previous.name))
    if files:
        await tx.execute(
            insert(model_files),
            [{"model": previous.name, "path": file.path, "sha256": file.sha256} for file in files],
        )
    run_hash = compute_run_hash(previous.config, files, previous.adapters)
    values = {"facts": None if facts is None else asdict(facts), "run_hash": run_hash, "updated_at": func.corral_now()}
    await tx.execute(update(models).where(models.c.name == previous.name).values(**values))
    await tx.execute(
        update(model_revisions)
        .where(model_revisions.c.model == previous.name, model_revisions.c.number == previous.revision)
        .values(run_hash=run_hash)
    )
    await _append_event(tx, previous.name, previous.revision, run_hash)
    return await get_model(tx, previous.name)


async def list_adapter_names(tx: Transaction, base: str) -> list[str]:
    """Return the names of the adapters of a model."""
    statement = select(models.c.name).where(models.c.config["base"].astext == base).order_by(models.c.name)
    return [row.name for row in await tx.execute(statement)]


async def put_adapters(tx: Transaction, model: Model, adapters: Sequence[AttachedAdapter]) -> str:
    """Write which adapters the engines of a locked model load; return its run hash with them."""
    run_hash = compute_run_hash(model.config, model.files, adapters)
    values = {"adapters": [_adapter_to_json(one) for one in adapters], "run_hash": run_hash}
    await tx.execute(update(models).where(models.c.name == model.name).values(**values))
    await tx.execute(
        update(model_revisions)
        .where(model_revisions.c.model == model.name, model_revisions.c.number == model.revision)
        .values(run_hash=run_hash)
    )
    await _append_event(tx, model.name, model.revision, run_hash)
    return run_hash


def _adapter_to_json(adapter: AttachedAdapter) -> dict[str, Any]:
    return {
        "model": adapter.model,
        "path": adapter.path,
        "files": [asdict(file) for file in adapter.files],
        "sources": [to_file_mapping(file) for file in adapter.sources],
    }


def _adapter_from_json(stored: Mapping[str, Any]) -> AttachedAdapter:
    return AttachedAdapter(
        model=stored["model"],
        path=stored["path"],
        files=tuple(StoredFile(**file) for file in stored["files"]),
        sources=parse_files(stored["sources"], stored["model"]),
    )


async def put_provenance(tx: Transaction, name: str, provenance: ModelProvenance) -> None:
    """Record what a model was made from."""
    await tx.execute(update(models).where(models.c.name == name).values(provenance=asdict(provenance)))


async def find_gguf_of(tx: Transaction, name: str) -> str:
    """Return the name of a whole GGUF model that a quantisation has made of a model, the most exact one first; empty
    without one."""
    made_from, weight_type = models.c.provenance["model"].astext, models.c.provenance["weight_type"].astext
    statement = (
        select(models.c.name)
        .where(made_from == name, models.c.facts["format"].astext == "gguf")
        .where(func.coalesce(models.c.config["base"].astext, "") == "")
        .order_by((weight_type == "f16").desc(), models.c.name)
        .limit(1)
    )
    return (await tx.execute(statement)).scalar_one_or_none() or ""


async def list_without_tool_support(tx: Transaction) -> list[Model]:
    """Return the models with files whose facts were written by a version that did not look for tool support."""
    has_facts = func.jsonb_typeof(models.c.facts) == "object"
    has_files = exists().where(model_files.c.model == models.c.name)
    statement = select(models.c.name).where(has_facts, ~models.c.facts.has_key("takes_tools"), has_files)
    names = [row.name for row in await tx.execute(statement)]
    return await list_models(tx, names) if names else []


async def put_tool_support(tx: Transaction, model: Model, *, takes_tools: bool | None) -> bool:
    """Add the tool support found in the files of a model to its facts; None: unknown. Return False if nothing was
    written, because the model was changed, deleted or looked at by a peer meanwhile."""
    written = await tx.execute(
        update(models)
        .where(models.c.name == model.name, models.c.run_hash == model.run_hash)
        .where(func.jsonb_typeof(models.c.facts) == "object", ~models.c.facts.has_key("takes_tools"))
        .values(facts=models.c.facts.concat(func.jsonb_build_object("takes_tools", cast(takes_tools, Boolean))))
        .returning(models.c.revision)
    )
    revision: int | None = written.scalar_one_or_none()
    if revision is not None:
        await _append_event(tx, model.name, revision, model.run_hash)
    return revision is not None


_COPY = """
    INSERT INTO models (name, revision, run_hash, config, facts, observed, provenance, adapters,
                        created_at)
    SELECT CAST(:new AS text), revision, run_hash, jsonb_set(config, '{name}', to_jsonb(CAST(:new AS text))), facts,
           observed, provenance, adapters, created_at
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
    """Move all rows of a model to another name. Its aliases stay; the next revision writes them."""
    for statement in _MOVES:
        await tx.execute(text(statement), {"old": old, "new": new})


async def drop_names(tx: Transaction, names: Collection[str]) -> None:
    await tx.execute(delete(model_names).where(model_names.c.name.in_(list(names))))


async def delete_model(tx: Transaction, model: Model) -> None:
    """Delete a locked model with all revisions. Its copies on nodes become pending removals."""
    await assign_removals(tx, model.name)
    await tx.execute(delete(models).where(models.c.name == model.name))
    await _append_event(tx, model.name, model.revision, model.run_hash, deleted=True)


async def assign_removals(tx: Transaction, name: str) -> int:
    """Add a pending removal for every node that holds files under this name, also one that is away."""
    inserted = await tx.execute(
        text(
            "INSERT INTO model_removals (node_id, model) SELECT node_id, model FROM staged_models WHERE model = :model"
            " ON CONFLICT (node_id, model) DO UPDATE SET due_at = corral_now(), attempts = 0"
        ),
        {"model": name},
    )
    return inserted.rowcount


async def append_deleted_event(tx: Transaction, model: Model) -> None:
    """Append the event that the name leads nowhere any more."""
    await _append_event(tx, model.name, model.revision, model.run_hash, deleted=True)


async def list_revisions(tx: Transaction, model: str) -> list[ModelRevision]:
    """Return the revisions of a model, newest first."""
    statement = select(model_revisions).where(model_revisions.c.model == model)
    rows = await tx.execute(statement.order_by(model_revisions.c.number.desc()).limit(REVISIONS_SHOWN))
    return [_to_revision(row) for row in rows]


async def get_revision(tx: Transaction, model: str, number: int) -> ModelRevision:
    statement = select(model_revisions).where(model_revisions.c.model == model, model_revisions.c.number == number)
    row = (await tx.execute(statement)).one_or_none() if 0 < number < 2**31 else None
    if row is None:
        raise NotFound(
            f"{model} has no revision {number}.", hint=f"corral models revisions {model}", code="revision_not_found"
        )
    return _to_revision(row)


async def list_fleet_items(tx: Transaction) -> set[tuple[str, str]]:
    """Return kinds and names of the items that a fleet file has set."""
    return {(row.kind, row.name) for row in await tx.execute(select(fleet_items))}


async def put_fleet_items(
    tx: Transaction, items: Collection[tuple[str, str]], gone: Collection[tuple[str, str]]
) -> None:
    for kind, name in sorted(gone):
        await tx.execute(delete(fleet_items).where(fleet_items.c.kind == kind, fleet_items.c.name == name))
    if items:
        rows = [{"kind": kind, "name": name} for kind, name in sorted(items)]
        statement = postgres_insert(fleet_items).values(rows)
        await tx.execute(
            statement.on_conflict_do_update(index_elements=["kind", "name"], set_={"applied_at": func.corral_now()})
        )


async def _put_names(tx: Transaction, config: ModelConfig) -> None:
    names = sorted({config.name, *config.aliases})
    await tx.execute(delete(model_names).where(model_names.c.model == config.name, model_names.c.name.not_in(names)))
    await tx.execute(
        postgres_insert(model_names)
        .values([{"name": name, "model": config.name} for name in names])
        .on_conflict_do_nothing(index_elements=["name"])
    )
    rows = await tx.execute(
        select(model_names).where(model_names.c.name.in_(names), model_names.c.model != config.name)
    )
    for row in rows:
        raise _make_name_taken_error(row.name, row.model)


async def _put_revision(tx: Transaction, config: ModelConfig, number: int, run_hash: str, by: tuple[str, str]) -> None:
    actor, note = by
    await tx.execute(
        insert(model_revisions).values(
            model=config.name,
            number=number,
            run_hash=run_hash,
            config=to_mapping(config),
            created_by=actor,
            note=note,
        )
    )


async def _append_event(tx: Transaction, name: str, revision: int, run_hash: str, *, deleted: bool = False) -> None:
    await outbox.append(tx, "model.changed", name, {"revision": revision, "run_hash": run_hash, "deleted": deleted})


def _make_name_taken_error(name: str, model: str) -> Conflict:
    sentence = f"There is a model {name!r} already." if name == model else f"{name!r} is an alias of {model} already."
    return Conflict(sentence, code="model_name_taken", details={"name": name, "model": model})


async def _list_files(tx: Transaction, names: Collection[str] | None) -> Mapping[str, tuple[StoredFile, ...]]:
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


def parse_facts(stored: Mapping[str, Any] | None) -> ModelFacts | None:
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
        facts=parse_facts(row.facts),
        provenance=ModelProvenance(**row.provenance) if row.provenance else None,
        adapters=tuple(_adapter_from_json(one) for one in row.adapters),
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
