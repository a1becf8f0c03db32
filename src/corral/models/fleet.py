"""Applies a file that describes the whole fleet, and writes one.

Guarantee: the whole file in one transaction, or nothing. A plan is the same work, rolled back at its end, so it
shows exactly what would happen, refusals included. `prune` deletes only items that an earlier file had created and
this one lacks; items that people created by hand are never touched by it. Limit: a named node has to be registered.

Sections that other flows know (agents, tasks, MCP servers) are applied by their `FleetPart`, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn, Protocol

from corral.domain.errors import CorralError, NotAllowed, NotFound
from corral.domain.node import LabelSource, Node
from corral.models import catalog
from corral.models import rules as rule_flow
from corral.policy.budget import check_runs_engines
from corral.policy.labels import check_not_reserved
from corral.policy.models.configuration import list_changes, list_mapping_changes
from corral.policy.models.fleet_file import BUDGET, KINDS, LIMITS, SLOTS, FleetFile
from corral.policy.models.rules import to_mapping as rule_mapping
from corral.store import access as access_store
from corral.store import galleries as gallery_store
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store import rules as rule_store
from corral.store.database import Database, Transaction

_GALLERY = " gallery"
NOTE = "applied from a file"
# The labels of limits, which are stored in 16 characters.
LIMIT_KINDS = {SLOTS: "replica slots", BUDGET: "VRAM budget"}


class FleetAction(StrEnum):
    """Names what applying a fleet file does to one of its items, such as to create or to change it."""

    CREATE = "create"
    CHANGE = "change"
    REMOVE = "remove"
    SAME = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChange:
    """Says what applying a fleet file does to one of its items: a model, rule, set of labels or gallery."""

    kind: str
    name: str
    action: FleetAction
    lines: tuple[str, ...] = ()
    # Replicas that end because of the change.
    stopped: int = 0


FleetItem = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPartResult:
    """Says what applying one section of a fleet file did, and which items the section has and had."""

    steps: list[FleetChange]
    listed: set[FleetItem]
    removed: set[FleetItem]


class FleetPart(Protocol):
    """Interface that applies one section of a fleet file, such as the LLM agents or the tasks."""

    async def apply_in(self, tx: Transaction, previous: set[FleetItem], *, prunes: bool) -> FleetPartResult:
        """Apply the section in the transaction of the file. `previous` are the items of all earlier files."""
        ...

    async def finish(self) -> None:
        """Do what follows from the changes once they are committed."""
        ...


@contextmanager
def name_entry(section: str, name: str) -> Iterator[None]:
    """Have an error about an entry of a file name the entry."""
    try:
        yield
    except CorralError as error:
        sentence = f"{section}: {name[:80]}: {error.message}"
        raise type(error)(sentence, hint=error.hint, code=error.slug, details=error.details) from error


def make_change(kind: str, name: str, previous: Mapping[str, Any] | None, current: Mapping[str, Any]) -> FleetChange:
    """Return what a file does to an item that is written like this before and after."""
    lines = tuple(list_mapping_changes(previous, current))
    if previous is None:
        return FleetChange(kind=kind, name=name, action=FleetAction.CREATE, lines=lines)
    return FleetChange(kind=kind, name=name, action=FleetAction.CHANGE if lines else FleetAction.SAME, lines=lines)


class _PlanRollback(Exception):
    """Ends the transaction of a plan, so that nothing of it stays."""

    def __init__(self, steps: list[FleetChange]) -> None:
        super().__init__()
        self.steps = steps


def _roll_back_plan(steps: list[FleetChange]) -> NoReturn:
    raise _PlanRollback(steps)


async def apply(
    database: Database,
    fleet: FleetFile,
    actor: str,
    *,
    prunes: bool = False,
    is_admin: bool = True,
    parts: Sequence[FleetPart] = (),
) -> list[FleetChange]:
    """Apply a fleet file. Raises `NotAllowed` if the caller is no admin and it changes galleries, or gives a model an
    MCP server that takes an admin. `parts` apply the sections that other flows know."""
    async with database.transaction() as tx:
        steps = await apply_in(tx, fleet, actor, prunes=prunes, is_admin=is_admin, parts=parts)
    for part in parts:
        await part.finish()
    return steps


async def plan(
    database: Database,
    fleet: FleetFile,
    actor: str,
    *,
    prunes: bool = False,
    is_admin: bool = True,
    parts: Sequence[FleetPart] = (),
) -> list[FleetChange]:
    """Return what `apply` would do, and roll everything back."""
    try:
        async with database.transaction() as tx:
            _roll_back_plan(await apply_in(tx, fleet, actor, prunes=prunes, is_admin=is_admin, parts=parts))
    except _PlanRollback as taken_back:
        return taken_back.steps


async def apply_in(
    tx: Transaction,
    fleet: FleetFile,
    actor: str,
    *,
    prunes: bool,
    is_admin: bool = True,
    parts: Sequence[FleetPart] = (),
) -> list[FleetChange]:
    previous = await model_store.list_fleet_items(tx)
    listed = _list_items(fleet)
    removed = {item for item in previous - listed if _is_own_kind(item[0])} if prunes else set()
    # Deletions come first: their names may be needed again.
    steps = await _prune(tx, removed, actor)
    steps += await _apply_galleries(tx, fleet)
    if not is_admin:
        _refuse_galleries(steps)
    steps += await _apply_labels(tx, fleet.labels, actor)
    steps += await _apply_limits(tx, fleet.limits, actor)
    await _free_names(tx, fleet)
    # Adapters after the models that they change.
    for config in sorted(fleet.models, key=lambda one: (bool(one.base), one.name)):
        saved = await catalog.put(tx, config, actor, note=NOTE, is_admin=is_admin)
        action = FleetAction.CREATE if saved.is_new else FleetAction.CHANGE if saved.lines else FleetAction.SAME
        steps.append(
            FleetChange(kind="model", name=config.name, action=action, lines=saved.lines, stopped=saved.stopped)
        )
    for rule in sorted(fleet.rules, key=lambda one: one.model):
        known = await rule_store.find_rule(tx, rule.model)
        lines = _list_differences({} if known is None else rule_mapping(known), rule_mapping(rule))
        if known is None or lines:
            await rule_flow.save(tx, rule, actor)
        action = FleetAction.CREATE if known is None else FleetAction.CHANGE if lines else FleetAction.SAME
        steps.append(FleetChange(kind="rule", name=rule.model, action=action, lines=lines))
    for part in parts:
        result = await part.apply_in(tx, previous, prunes=prunes)
        steps, listed, removed = steps + result.steps, listed | result.listed, removed | result.removed
    await model_store.put_fleet_items(tx, listed, removed)
    if any(step.action is not FleetAction.SAME for step in steps):
        counts = ", ".join(f"{sum(step.action is action for step in steps)} {action}" for action in FleetAction)
        await access_store.record_audit(
            tx, actor, "fleet.apply", "fleet", "; ".join([counts, *_gallery_changes(steps)])
        )
    return steps


def _gallery_changes(steps: Sequence[FleetChange]) -> list[str]:
    """Return the changes of galleries with their addresses: frontends fetch from there, and nodes run what they
    list."""
    return [
        " ".join([step.action, step.kind, step.name, *(line.removeprefix("+ url: ") for line in step.lines)])
        for step in steps
        if step.kind.endswith(_GALLERY) and step.action is not FleetAction.SAME
    ]


def _refuse_galleries(steps: Sequence[FleetChange]) -> None:
    changes = _gallery_changes(steps)
    if changes:
        raise NotAllowed(
            f"The file changes galleries ({changes[0]}), which takes an admin key.",
            hint="Let an admin apply it, or take `galleries` out of the file.",
            code="admin_required",
        )


async def _free_names(tx: Transaction, fleet: FleetFile) -> None:
    """Release aliases first: an alias that one model gives up may belong to another one in the same file, in any
    order."""
    desired = {config.name: {config.name, *config.aliases} for config in fleet.models}
    present = await model_store.lock_models(tx, desired)
    given_up = [name for model in present.values() for name in set(model.config.aliases) - desired[model.name]]
    await model_store.drop_names(tx, given_up)


async def export(tx: Transaction) -> FleetFile:
    """Return the current state as a fleet file."""
    nodes = await node_store.list_nodes(tx)
    return FleetFile(
        models=tuple(model.config for model in await model_store.list_models(tx)),
        rules=tuple(await rule_store.list_rules(tx)),
        labels={node.name: labels for node in nodes if (labels := _get_admin_labels(node))},
        limits={node.name: limits for node in nodes if (limits := _get_admin_limits(node))},
        galleries={kind: found for kind in KINDS if (found := tuple(await gallery_store.list_galleries(tx, kind)))},
    )


def _list_items(fleet: FleetFile) -> set[tuple[str, str]]:
    found = {("model", model.name) for model in fleet.models} | {("rule", rule.model) for rule in fleet.rules}
    found |= {("labels", name) for name in fleet.labels}
    found |= {(LIMIT_KINDS[key], name) for name, limits in fleet.limits.items() for key in limits}
    return found | {(_gallery_kind(kind), one.name) for kind in KINDS for one in fleet.galleries.get(kind, ())}


def _is_own_kind(kind: str) -> bool:
    """Return whether items of this kind are pruned here, and not by a part."""
    return kind in ("model", "rule", "labels", *LIMIT_KINDS.values()) or kind.endswith(_GALLERY)


def _gallery_kind(kind: str) -> str:
    return f"{kind}{_GALLERY}"


async def _prune(tx: Transaction, removed: Collection[tuple[str, str]], actor: str) -> list[FleetChange]:
    steps = []
    known = await model_store.list_models(tx, [name for kind, name in removed if kind == "model"])
    # A base goes after its adapters.
    adapters = {("model", model.name) for model in known if model.config.base}
    for kind, name in sorted(removed, key=lambda item: (item not in adapters, item)):
        stopped = 0
        if kind == "model":
            if name not in await model_store.lock_models(tx, [name]):
                continue
            stopped = (await catalog.delete_model(tx, name, actor)).stopped
        elif kind == "rule":
            if await rule_store.find_rule(tx, name) is None:
                continue
            await rule_flow.remove(tx, name, actor)
        elif kind in ("labels", *LIMIT_KINDS.values()):
            if not await _prune_node(tx, kind, name, actor):
                continue
        elif not await gallery_store.delete_gallery(tx, kind.partition(" ")[0], name):
            continue
        steps.append(FleetChange(kind=kind, name=name, action=FleetAction.REMOVE, stopped=stopped))
    return steps


async def _prune_node(tx: Transaction, kind: str, name: str, actor: str) -> bool:
    """Delete the admin's labels or one limit of a node; return whether there was anything to delete."""
    node = await node_store.find_node_by_name(tx, name)
    if node is None:
        return False
    if kind == "labels":
        if _get_admin_labels(node):
            await _write_labels(tx, node, {}, actor)
        return bool(_get_admin_labels(node))
    key = next(one for one in LIMITS if LIMIT_KINDS[one] == kind)
    if key in _get_admin_limits(node):
        await _write_limit(tx, node, key, None, actor)
    return key in _get_admin_limits(node)


async def _apply_galleries(tx: Transaction, fleet: FleetFile) -> list[FleetChange]:
    steps = []
    for kind in KINDS:
        known = {one.name: one for one in await gallery_store.list_galleries(tx, kind)}
        for gallery in fleet.galleries.get(kind, ()):
            old = known.get(gallery.name)
            if old != gallery:
                await gallery_store.put_gallery(tx, kind, gallery)
            action = FleetAction.CREATE if old is None else FleetAction.SAME if old == gallery else FleetAction.CHANGE
            lines = () if old == gallery else (f"+ url: {gallery.url}",)
            steps.append(FleetChange(kind=_gallery_kind(kind), name=gallery.name, action=action, lines=lines))
    return steps


async def _apply_labels(tx: Transaction, desired: Mapping[str, Mapping[str, str]], actor: str) -> list[FleetChange]:
    steps = []
    for name, labels in sorted(desired.items()):
        node = await _lock_named(tx, name, "labels")
        # A label that the machine or the worker sets anyway is left to them.
        given = {label.key: label.value for label in node.labels if label.source is not LabelSource.ADMIN}
        own = {key: value for key, value in labels.items() if given.get(key) != value}
        check_not_reserved(key for key, value in own.items() if _get_admin_labels(node).get(key) != value)
        lines = tuple(list_changes(_get_admin_labels(node), own))
        if lines:
            await _write_labels(tx, node, own, actor)
        steps.append(
            FleetChange(kind="labels", name=name, action=FleetAction.CHANGE if lines else FleetAction.SAME, lines=lines)
        )
    return steps


async def _apply_limits(
    tx: Transaction, limits_by_node: Mapping[str, Mapping[str, int | str]], actor: str
) -> list[FleetChange]:
    steps = []
    for name, limits in sorted(limits_by_node.items()):
        node = await _lock_named(tx, name, "limits")
        check_runs_engines(node, " and ".join(limits))
        for key, limit in limits.items():
            present = _get_admin_limits(node).get(key)
            lines = tuple(list_changes({} if present is None else {key: str(present)}, {key: str(limit)}))
            if present != limit:
                await _write_limit(tx, node, key, limit, actor)
            action = FleetAction.SAME if present == limit else FleetAction.CHANGE
            steps.append(
                FleetChange(kind=LIMIT_KINDS[key], name=name, action=action, lines=() if present == limit else lines)
            )
    return steps


async def _lock_named(tx: Transaction, name: str, what: str) -> Node:
    node = await node_store.find_node_by_name(tx, name)
    if node is None:
        raise NotFound(
            f"The file has {what} for {name[:80]!r}, and there is no node of that name.",
            hint="`corral nodes list` shows the nodes.",
            code="node_not_found",
        )
    return await node_store.lock_node(tx, node.id)


async def _write_limit(tx: Transaction, node: Node, key: str, limit: int | str | None, actor: str) -> None:
    """Set a limit; None gives control back to the worker."""
    is_slots = key == SLOTS
    await node_store.update_node(tx, node.id, {"slots_override" if is_slots else "budget_override": limit})
    await node_store.refresh_automatic_labels(tx, await node_store.get_node(tx, node.id))
    await rule_store.clear_unsatisfiable(tx)
    await access_store.record_audit(tx, actor, "node.slots" if is_slots else "node.budget", node.id, node.name)
    change = {"name": node.name, "by": actor}
    if is_slots:
        await outbox.append(tx, "node.slots_changed", node.id, change)
    else:
        await outbox.append(tx, "node.budget_changed", node.id, change)


def _get_admin_limits(node: Node) -> dict[str, int | str]:
    found = {SLOTS: node.slots_override, BUDGET: node.budget_override}
    return {key: limit for key, limit in found.items() if limit is not None}


async def _write_labels(tx: Transaction, node: Node, labels: Mapping[str, str], actor: str) -> None:
    await node_store.replace_labels(tx, node.id, LabelSource.ADMIN, labels)
    await rule_store.clear_unsatisfiable(tx)
    await access_store.record_audit(tx, actor, "node.labels", node.id, node.name)
    await outbox.append(tx, "node.labels_changed", node.id, {"name": node.name, "by": actor})


def _get_admin_labels(node: Node) -> dict[str, str]:
    return {label.key: label.value for label in node.labels if label.source is LabelSource.ADMIN}


def _list_differences(previous: Mapping[str, object], desired: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(
        list_changes({key: str(value) for key, value in previous.items()}, {k: str(v) for k, v in desired.items()})
    )
