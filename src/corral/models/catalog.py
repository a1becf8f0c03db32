"""Changes models. Each change is one transaction with the row, its revision, the audit entry and the event.

Guarantee: a revision is never lost and never reused; a change that an engine would notice makes every replica of the
previous revision unroutable in the same transaction (`mark_stale`), and any other change stops nothing. A caller
that names the revision it has seen (`expects`) is refused if there is a newer one. Renaming several models happens
as a whole or not at all. `is_admin` says whether the caller may give a model MCP servers that only admins may give
it. Limit: whether a backend exists is checked when the model is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from corral.domain.errors import Conflict, InvalidRequest
from corral.domain.model import Model, ModelConfig
from corral.models import adapters
from corral.policy.models.configuration import apply_patch, check_name, diff
from corral.policy.models.mcp_servers import check_author
from corral.policy.revisions import check_revision
from corral.store import access as access_store
from corral.store import models as store
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.store.database import Transaction

RENAMES_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSaveResult:
    """Says what saving a model's configuration did: changed lines and stopped replicas.

    No lines: nothing changed.
    """

    model: Model
    lines: tuple[str, ...] = ()
    # Replicas that end because of the change.
    stopped: int = 0
    is_new: bool = False


async def require_free_name(tx: Transaction, name: str) -> None:
    """Raise `Conflict` if a model has this name, or `InvalidRequest` if no model may have it."""
    check_name(name)
    if await store.find_own_name(tx, name) is not None:
        raise Conflict(
            f"The name {name!r} is taken.",
            hint="Choose another name with --name, or delete that model first.",
            code="model_name_taken",
            details={"name": name},
        )


async def create(
    tx: Transaction, config: ModelConfig, actor: str, *, note: str = "", is_admin: bool = False
) -> ModelSaveResult:
    check_author(None, config, is_admin=is_admin)
    config = await adapters.settle_base(tx, config)
    model = await store.insert_model(tx, config, actor, note)
    # A model of this name may have been deleted a moment ago while its engines still run.
    stopped = await replica_store.mark_stale(tx, model.name, model.run_hash)
    stopped += await adapters.refresh(tx, model.name)
    await access_store.record_audit(tx, actor, "model.create", model.name[:255], note)
    return ModelSaveResult(model=model, lines=tuple(diff(None, config)), stopped=stopped, is_new=True)


async def replace_config(
    tx: Transaction, name: str, config: ModelConfig, actor: str, *, expects: int | None = None, is_admin: bool = False
) -> ModelSaveResult:
    """Replace the whole configuration of a model. Another name in it is refused: use `rename`."""
    previous = await _lock_expected(tx, name, expects)
    if config.name != previous.name:
        raise InvalidRequest(
            f"The name in it is {config.name!r}, but the request is for {previous.name!r}.",
            hint="Rename it first.",
            code="bad_model",
        )
    return await _write(tx, previous, config, actor, is_admin=is_admin)


async def put(
    tx: Transaction,
    config: ModelConfig,
    actor: str,
    *,
    expects: int | None = None,
    note: str = "",
    is_admin: bool = False,
) -> ModelSaveResult:
    """Create a model or replace its configuration. `expects` 0: the model must be new."""
    known = await store.find_model(tx, config.name)
    if known is not None and known.name == config.name and expects != 0:
        previous = await _lock_expected(tx, config.name, expects)
        return await _write(tx, previous, config, actor, note, is_admin=is_admin)
    if expects:
        raise await store.make_unknown_error(tx, config.name)
    return await create(tx, config, actor, note=note, is_admin=is_admin)


async def patch(
    tx: Transaction, name: str, change: object, actor: str, *, expects: int | None = None, note: str = ""
) -> ModelSaveResult:
    """Apply a change to a model, in the name of a caller who is no admin."""
    previous = await _lock_expected(tx, name, expects)
    return await _write(tx, previous, apply_patch(previous.config, change), actor, note)


async def set_enabled(tx: Transaction, name: str, actor: str, *, enabled: bool) -> ModelSaveResult:
    """Enable or disable a model. A disabled model takes no requests and is not loaded; its replicas stop."""
    previous = await store.lock_model(tx, name)
    note = "enabled" if enabled else "disabled"
    saved = await _write(tx, previous, replace(previous.config, is_enabled=enabled), actor, note)
    if enabled:
        return saved
    return replace(saved, stopped=await replica_store.mark_stale(tx, previous.name, None, "the model was disabled"))


async def set_pinned(tx: Transaction, name: str, actor: str, *, pinned: bool) -> ModelSaveResult:
    previous = await store.lock_model(tx, name)
    if previous.config.base:
        raise Conflict(
            f"{previous.name} is an adapter: it stays as long as its base {previous.config.base}.",
            hint=f"Pin {previous.config.base}.",
            code="is_adapter",
            details={"base": previous.config.base},
        )
    note = "pinned" if pinned else "unpinned"
    return await _write(tx, previous, replace(previous.config, is_pinned=pinned), actor, note)


async def roll_back(
    tx: Transaction, name: str, number: int, actor: str, *, expects: int | None = None, is_admin: bool = False
) -> ModelSaveResult:
    """Create a new revision with the content of an old one. The current name stays."""
    previous = await _lock_expected(tx, name, expects)
    old = await store.get_revision(tx, previous.name, number)
    config = _with_name(old.config, previous.name)
    return await _write(tx, previous, config, actor, f"back to revision {number}", is_admin=is_admin)


async def rename(tx: Transaction, names: Mapping[str, str], actor: str) -> list[ModelSaveResult]:
    """Rename models, all or none; two may swap names. Engines of a renamed model end: they answer to the old name."""
    if not 1 <= len(names) <= RENAMES_MAX:
        raise InvalidRequest(f"1 to {RENAMES_MAX} models can be renamed at once.", code="bad_model_name")
    for new in names.values():
        check_name(new)
    if len(set(names.values())) != len(names):
        raise InvalidRequest("Two models cannot get the same name.", code="bad_model_name")
    found = await store.lock_models(tx, names)
    dependants = [(one, old) for old in names for one in await store.list_adapter_names(tx, old)]
    for old in names:
        if old not in found:
            raise await store.make_unknown_error(tx, old)
    # The models first get names that no model can have, so that two may swap.
    aside = {old: f" {number}" for number, old in enumerate(sorted(names))}
    for old, temporary_name in aside.items():
        await store.move_model(tx, old, temporary_name)
    await store.drop_names(tx, [*names, *(new for old, new in names.items() if new in found[old].config.aliases)])
    saved = [await _write_renamed(tx, found[old], aside[old], new, actor) for old, new in sorted(names.items())]
    for old in set(names) - set(names.values()):
        await store.append_deleted_event(tx, found[old])
    await _move_rules(tx, names)
    await _follow_base(tx, names, dependants, actor)
    for new in sorted(names.values()):
        await adapters.refresh(tx, new)
    return saved


async def _follow_base(
    tx: Transaction, names: Mapping[str, str], dependants: Sequence[tuple[str, str]], actor: str
) -> None:
    """Let adapters name their base by its new name. `dependants`: old names of adapters, each with that of its base."""
    for adapter, base in dependants:
        previous = await store.lock_model(tx, names.get(adapter, adapter))
        config = replace(previous.config, base=names[base])
        await store.write_revision(tx, previous, config, actor, f"{base} was renamed to {names[base]}")


async def _write_renamed(
    tx: Transaction, previous: Model, temporary_name: str, new: str, actor: str
) -> ModelSaveResult:
    if await store.find_own_name(tx, new) is not None:
        raise Conflict(f"The name {new!r} is taken.", code="model_name_taken", details={"name": new})
    await store.move_model(tx, temporary_name, new)
    stopped = await replica_store.mark_stale(tx, previous.name, None, f"the model was renamed to {new}")
    await store.assign_removals(tx, previous.name)
    config = _with_name(previous.config, new)
    moved = replace(previous, config=replace(previous.config, name=new))
    model = await store.write_revision(tx, moved, config, actor, f"renamed from {previous.name}")
    await access_store.record_audit(tx, actor, "model.rename", new[:255], f"from {previous.name}")
    return ModelSaveResult(model=model, lines=tuple(diff(previous.config, config)), stopped=stopped)


def _with_name(config: ModelConfig, name: str) -> ModelConfig:
    return replace(config, name=name, aliases=tuple(one for one in config.aliases if one != name))


async def _move_rules(tx: Transaction, names: Mapping[str, str]) -> None:
    moving = {old: rule for old in names if (rule := await rule_store.find_rule(tx, old)) is not None}
    for old in moving:
        await rule_store.delete_rule(tx, old)
    for old, rule in moving.items():
        await rule_store.save_rule(tx, replace(rule, model=names[old]))


async def delete_model(tx: Transaction, name: str, actor: str, *, expects: int | None = None) -> ModelSaveResult:
    """Delete a model with its revisions: its replicas end, and every copy on a node becomes a pending removal."""
    previous = await _lock_expected(tx, name, expects)
    await adapters.require_no_adapters(tx, previous.name)
    stopped = await replica_store.mark_stale(tx, previous.name, None, "the model was deleted")
    await store.delete_model(tx, previous)
    if previous.config.base:
        stopped += await adapters.refresh_base(tx, previous.config.base)
    await store.put_fleet_items(tx, (), [("model", previous.name)])
    await access_store.record_audit(tx, actor, "model.delete", previous.name[:255], f"at revision {previous.revision}")
    return ModelSaveResult(model=previous, lines=tuple(diff(previous.config, None)), stopped=stopped)


async def _write(
    tx: Transaction, previous: Model, config: ModelConfig, actor: str, note: str = "", *, is_admin: bool = False
) -> ModelSaveResult:
    check_author(previous.config, config, is_admin=is_admin)
    config = await adapters.settle_base(tx, config)
    lines = tuple(diff(previous.config, config))
    if config == previous.config:
        return ModelSaveResult(model=previous)
    model = await store.write_revision(tx, previous, config, actor, note)
    stopped = 0
    if model.run_hash != previous.run_hash:
        stopped = await replica_store.mark_stale(tx, model.name, model.run_hash)
    stopped += await _refresh_adapters(tx, previous, model)
    await access_store.record_audit(tx, actor, "model.change", model.name[:255], note or "; ".join(lines)[:1000])
    return ModelSaveResult(model=model, lines=lines, stopped=stopped)


async def _refresh_adapters(tx: Transaction, previous: Model, model: Model) -> int:
    """Bring the engines of a base in line with a changed adapter, or with the base itself; return how many replicas
    end."""
    await adapters.check_fit(tx, model)
    old_base, new_base = previous.config.base, model.config.base
    stopped = await adapters.refresh(tx, model.name)
    if old_base and old_base != new_base:
        stopped += await adapters.refresh_base(tx, old_base)
    return stopped


async def _lock_expected(tx: Transaction, name: str, expects: int | None) -> Model:
    previous = await store.lock_model(tx, name)
    check_revision(previous.name, previous.revision, expects)
    return previous
