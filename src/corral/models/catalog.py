"""Changing models. Each change is one transaction with the row, its revision, the audit and the event.

Guarantee: a revision is never lost and never reused; a change that an engine would notice makes every replica of the
model's former self unroutable in the same transaction (`mark_stale`), and one that it would not notice stops nothing.
A caller that says which revision it has seen (`expects`) is refused if there is a newer one. Renaming several models
happens as a whole or not at all. Limit: whether a backend exists is looked at when the model is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from corral.domain.errors import Conflict, InvalidRequest
from corral.domain.model import Model, ModelConfig
from corral.policy.models.configuration import check_name, diff, patched
from corral.store import access as access_store
from corral.store import models as store
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.store.database import Transaction

RENAMES_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What became of a model. No lines: it was like that already, and there is no new revision."""

    model: Model
    lines: tuple[str, ...] = ()
    # Replicas that are being ended because of it.
    stopped: int = 0
    is_new: bool = False


async def create(tx: Transaction, config: ModelConfig, actor: str, *, note: str = "") -> Saved:
    model = await store.insert_model(tx, config, actor, note)
    # A model of this name may have been deleted a moment ago, and its engines still run.
    stopped = await replica_store.mark_stale(tx, model.name, model.run_hash)
    await access_store.record(tx, actor, "model.create", model.name[:255], note)
    return Saved(model=model, lines=tuple(diff(None, config)), stopped=stopped, is_new=True)


async def replace_config(
    tx: Transaction, name: str, config: ModelConfig, actor: str, *, expects: int | None = None, note: str = ""
) -> Saved:
    """The whole configuration anew. Another name in it is refused: renaming is `rename`."""
    before = await _locked(tx, name, expects)
    if config.name != before.name:
        raise InvalidRequest(
            f"The name in it is {config.name!r}, but {before.name!r} is meant.",
            hint="Rename it first.",
            code="bad_model",
        )
    return await _write(tx, before, config, actor, note)


async def put(tx: Transaction, config: ModelConfig, actor: str, *, expects: int | None = None, note: str = "") -> Saved:
    """Make it, or make it so. `expects` 0 is for one that must be new."""
    known = await store.find_model(tx, config.name)
    if known is not None and known.name == config.name and expects != 0:
        return await replace_config(tx, config.name, config, actor, expects=expects, note=note)
    if expects:
        raise await store.unknown(tx, config.name)
    return await create(tx, config, actor, note=note)


async def patch(
    tx: Transaction, name: str, change: object, actor: str, *, expects: int | None = None, note: str = ""
) -> Saved:
    before = await _locked(tx, name, expects)
    return await _write(tx, before, patched(before.config, change), actor, note)


async def set_enabled(tx: Transaction, name: str, actor: str, *, enabled: bool, expects: int | None = None) -> Saved:
    """A disabled model takes no requests and is not loaded; what runs of it stops."""
    before = await _locked(tx, name, expects)
    note = "enabled" if enabled else "disabled"
    saved = await _write(tx, before, replace(before.config, is_enabled=enabled), actor, note)
    if enabled:
        return saved
    return replace(saved, stopped=await replica_store.mark_stale(tx, before.name, None, "the model was disabled"))


async def set_pinned(tx: Transaction, name: str, actor: str, *, pinned: bool, expects: int | None = None) -> Saved:
    before = await _locked(tx, name, expects)
    note = "pinned" if pinned else "unpinned"
    return await _write(tx, before, replace(before.config, is_pinned=pinned), actor, note)


async def roll_back(tx: Transaction, name: str, number: int, actor: str, *, expects: int | None = None) -> Saved:
    """A new revision with the content of an old one. The name stays what it is now."""
    before = await _locked(tx, name, expects)
    old = await store.get_revision(tx, before.name, number)
    config = _named(old.config, before.name)
    return await _write(tx, before, config, actor, f"back to revision {number}")


async def rename(tx: Transaction, names: Mapping[str, str], actor: str) -> list[Saved]:
    """Old names to new ones, all or none; two may swap. Engines of a renamed model end: they answer to the old name."""
    if not 1 <= len(names) <= RENAMES_MAX:
        raise InvalidRequest(f"1 to {RENAMES_MAX} models can be renamed at once.", code="bad_model_name")
    for new in names.values():
        check_name(new)
    if len(set(names.values())) != len(names):
        raise InvalidRequest("Two models cannot get the same name.", code="bad_model_name")
    found = await store.lock_models(tx, names)
    for old in names:
        if old not in found:
            raise await store.unknown(tx, old)
    # Out of the way first, under names that nobody can have: so that two may swap.
    aside = {old: f" {number}" for number, old in enumerate(sorted(names))}
    for old, place in aside.items():
        await store.move_model(tx, old, place)
    await store.drop_names(tx, [*names, *(new for old, new in names.items() if new in found[old].config.aliases)])
    saved = [await _arrive(tx, found[old], aside[old], new, actor) for old, new in sorted(names.items())]
    for old in set(names) - set(names.values()):
        await store.tell_gone(tx, found[old])
    await _move_rules(tx, names)
    return saved


async def _arrive(tx: Transaction, before: Model, place: str, new: str, actor: str) -> Saved:
    if await store.find_owner(tx, new) is not None:
        raise Conflict(f"The name {new!r} is taken.", code="model_name_taken", details={"name": new})
    await store.move_model(tx, place, new)
    stopped = await replica_store.mark_stale(tx, before.name, None, f"the model is called {new} now")
    await store.owe_removal(tx, before.name)
    config = _named(before.config, new)
    moved = replace(before, config=replace(before.config, name=new))
    model = await store.write_revision(tx, moved, config, actor, f"renamed from {before.name}")
    await access_store.record(tx, actor, "model.rename", new[:255], f"from {before.name}")
    return Saved(model=model, lines=tuple(diff(before.config, config)), stopped=stopped)


def _named(config: ModelConfig, name: str) -> ModelConfig:
    return replace(config, name=name, aliases=tuple(one for one in config.aliases if one != name))


async def _move_rules(tx: Transaction, names: Mapping[str, str]) -> None:
    moving = {old: rule for old in names if (rule := await rule_store.find_rule(tx, old)) is not None}
    for old in moving:
        await rule_store.delete_rule(tx, old)
    for old, rule in moving.items():
        await rule_store.save_rule(tx, replace(rule, model=names[old]))


async def forget(tx: Transaction, name: str, actor: str, *, expects: int | None = None) -> Saved:
    """Delete a model: its replicas end, every copy on a node is owed to be removed, its revisions go."""
    before = await _locked(tx, name, expects)
    stopped = await replica_store.mark_stale(tx, before.name, None, "the model was deleted")
    await store.delete_model(tx, before)
    await store.put_applied(tx, (), [("model", before.name)])
    await access_store.record(tx, actor, "model.delete", before.name[:255], f"at revision {before.revision}")
    return Saved(model=before, lines=tuple(diff(before.config, None)), stopped=stopped)


async def _write(tx: Transaction, before: Model, config: ModelConfig, actor: str, note: str) -> Saved:
    lines = tuple(diff(before.config, config))
    if config == before.config:
        return Saved(model=before)
    model = await store.write_revision(tx, before, config, actor, note)
    stopped = 0
    if model.run_hash != before.run_hash:
        stopped = await replica_store.mark_stale(tx, model.name, model.run_hash)
    await access_store.record(tx, actor, "model.change", model.name[:255], note or "; ".join(lines)[:1000])
    return Saved(model=model, lines=lines, stopped=stopped)


async def _locked(tx: Transaction, name: str, expects: int | None) -> Model:
    before = await store.lock_model(tx, name)
    if expects is not None and expects != before.revision:
        raise _newer(before)
    return before


def _newer(model: Model) -> Conflict:
    return Conflict(
        f"{model.name} has changed meanwhile; it is at revision {model.revision} now.",
        hint="Read it again, and make the change to that.",
        code="revision_conflict",
        details={"revision": model.revision},
    )
