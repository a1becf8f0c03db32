"""Applying a file of the whole fleet, and writing one.

Guarantee: all of it in one transaction, or nothing. A plan is the same work, taken back at its end, so it tells exactly
what would happen, refusals included. `prune` takes away only what an earlier file had brought and this one lacks; what
people made by hand is never touched by it. Limit: a node that is named has to be registered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from corral.domain.errors import NotAllowed, NotFound
from corral.domain.node import LabelSource, Node
from corral.models import catalog
from corral.models import rules as rule_flow
from corral.policy.budget import check_runs_engines
from corral.policy.labels import check_not_reserved
from corral.policy.models.configuration import changes
from corral.policy.models.fleetfile import BUDGET, KINDS, LIMITS, SLOTS, FleetFile
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
# What a step of a limit is called, which is kept in 16 characters.
LIMIT_KINDS = {SLOTS: "replica slots", BUDGET: "VRAM budget"}


class Action(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    REMOVE = "remove"
    SAME = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What becomes of one thing: a model, a rule, labels, one of `LIMIT_KINDS`, a gallery of backends or models."""

    kind: str
    name: str
    action: Action
    lines: tuple[str, ...] = ()
    # Replicas that end because of it.
    stopped: int = 0


class _TakenBack(Exception):
    """The end of a plan."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.steps = steps


def _take_back(steps: list[Step]) -> NoReturn:
    raise _TakenBack(steps)


async def apply(
    database: Database, fleet: FleetFile, actor: str, *, prunes: bool = False, is_admin: bool = True
) -> list[Step]:
    """Make the fleet what the file says. `NotAllowed` if it changes galleries and the caller is no admin."""
    async with database.transaction() as tx:
        return await apply_in(tx, fleet, actor, prunes=prunes, is_admin=is_admin)


async def plan(
    database: Database, fleet: FleetFile, actor: str, *, prunes: bool = False, is_admin: bool = True
) -> list[Step]:
    """What `apply` would do; nothing of it stays."""
    try:
        async with database.transaction() as tx:
            _take_back(await apply_in(tx, fleet, actor, prunes=prunes, is_admin=is_admin))
    except _TakenBack as taken_back:
        return taken_back.steps


async def apply_in(tx: Transaction, fleet: FleetFile, actor: str, *, prunes: bool, is_admin: bool = True) -> list[Step]:
    before = await model_store.list_applied(tx)
    listed = _listed(fleet)
    gone = before - listed if prunes else set()
    # What goes, goes first: its names may be wanted again.
    steps = await _prune(tx, gone, actor)
    steps += await _galleries(tx, fleet)
    if not is_admin:
        _refuse_galleries(steps)
    steps += await _labels(tx, fleet.labels, actor)
    steps += await _limits(tx, fleet.limits, actor)
    await _free_names(tx, fleet)
    for config in sorted(fleet.models, key=lambda one: one.name):
        saved = await catalog.put(tx, config, actor, note=NOTE)
        action = Action.CREATE if saved.is_new else Action.CHANGE if saved.lines else Action.SAME
        steps.append(Step(kind="model", name=config.name, action=action, lines=saved.lines, stopped=saved.stopped))
    for rule in sorted(fleet.rules, key=lambda one: one.model):
        known = await rule_store.find_rule(tx, rule.model)
        lines = _differences({} if known is None else rule_mapping(known), rule_mapping(rule))
        if known is None or lines:
            await rule_flow.save(tx, rule, actor)
        action = Action.CREATE if known is None else Action.CHANGE if lines else Action.SAME
        steps.append(Step(kind="rule", name=rule.model, action=action, lines=lines))
    await model_store.put_applied(tx, listed, gone)
    if any(step.action is not Action.SAME for step in steps):
        counts = ", ".join(f"{sum(step.action is action for step in steps)} {action}" for action in Action)
        await access_store.record(tx, actor, "fleet.apply", "fleet", "; ".join([counts, *_gallery_changes(steps)]))
    return steps


def _gallery_changes(steps: Sequence[Step]) -> list[str]:
    """What happens to galleries, with their addresses: frontends fetch from there, and nodes run what they name."""
    return [
        " ".join([step.action, step.kind, step.name, *(line.removeprefix("+ url: ") for line in step.lines)])
        for step in steps
        if step.kind.endswith(_GALLERY) and step.action is not Action.SAME
    ]


def _refuse_galleries(steps: Sequence[Step]) -> None:
    changes = _gallery_changes(steps)
    if changes:
        raise NotAllowed(
            f"The file changes galleries ({changes[0]}), which takes an admin key.",
            hint="Let an admin apply it, or take `galleries` out of the file.",
            code="admin_required",
        )


async def _free_names(tx: Transaction, fleet: FleetFile) -> None:
    """Aliases that a model gives up may be another one's in the same file, whichever of them comes first."""
    wanted = {config.name: {config.name, *config.aliases} for config in fleet.models}
    present = await model_store.lock_models(tx, wanted)
    given_up = [name for model in present.values() for name in set(model.config.aliases) - wanted[model.name]]
    await model_store.drop_names(tx, given_up)


async def export(tx: Transaction) -> FleetFile:
    """Everything that a file can say, as it is now."""
    nodes = await node_store.list_nodes(tx)
    return FleetFile(
        models=tuple(model.config for model in await model_store.list_models(tx)),
        rules=tuple(await rule_store.list_rules(tx)),
        labels={node.name: labels for node in nodes if (labels := _admin_labels(node))},
        limits={node.name: limits for node in nodes if (limits := _admin_limits(node))},
        galleries={kind: found for kind in KINDS if (found := tuple(await gallery_store.list_galleries(tx, kind)))},
    )


def _listed(fleet: FleetFile) -> set[tuple[str, str]]:
    found = {("model", model.name) for model in fleet.models} | {("rule", rule.model) for rule in fleet.rules}
    found |= {("labels", name) for name in fleet.labels}
    found |= {(LIMIT_KINDS[key], name) for name, limits in fleet.limits.items() for key in limits}
    return found | {(_gallery_kind(kind), one.name) for kind in KINDS for one in fleet.galleries.get(kind, ())}


def _gallery_kind(kind: str) -> str:
    return f"{kind}{_GALLERY}"


async def _prune(tx: Transaction, gone: Iterable[tuple[str, str]], actor: str) -> list[Step]:
    steps = []
    for kind, name in sorted(gone):
        stopped = 0
        if kind == "model":
            if name not in await model_store.lock_models(tx, [name]):
                continue
            stopped = (await catalog.forget(tx, name, actor)).stopped
        elif kind == "rule":
            if await rule_store.find_rule(tx, name) is None:
                continue
            await rule_flow.remove(tx, name, actor)
        elif kind in ("labels", *LIMIT_KINDS.values()):
            if not await _prune_node(tx, kind, name, actor):
                continue
        elif not await gallery_store.delete_gallery(tx, kind.partition(" ")[0], name):
            continue
        steps.append(Step(kind=kind, name=name, action=Action.REMOVE, stopped=stopped))
    return steps


async def _prune_node(tx: Transaction, kind: str, name: str, actor: str) -> bool:
    """Take the admin's labels or one limit of a node away; whether there was anything to take."""
    node = await node_store.find_node_by_name(tx, name)
    if node is None:
        return False
    if kind == "labels":
        if _admin_labels(node):
            await _write_labels(tx, node, {}, actor)
        return bool(_admin_labels(node))
    key = next(one for one in LIMITS if LIMIT_KINDS[one] == kind)
    if key in _admin_limits(node):
        await _write_limit(tx, node, key, None, actor)
    return key in _admin_limits(node)


async def _galleries(tx: Transaction, fleet: FleetFile) -> list[Step]:
    steps = []
    for kind in KINDS:
        known = {one.name: one for one in await gallery_store.list_galleries(tx, kind)}
        for gallery in fleet.galleries.get(kind, ()):
            old = known.get(gallery.name)
            if old != gallery:
                await gallery_store.put_gallery(tx, kind, gallery)
            action = Action.CREATE if old is None else Action.SAME if old == gallery else Action.CHANGE
            lines = () if old == gallery else (f"+ url: {gallery.url}",)
            steps.append(Step(kind=_gallery_kind(kind), name=gallery.name, action=action, lines=lines))
    return steps


async def _labels(tx: Transaction, wanted: Mapping[str, Mapping[str, str]], actor: str) -> list[Step]:
    steps = []
    for name, labels in sorted(wanted.items()):
        node = await _lock_named(tx, name, "labels")
        # A pair that the machine or the worker gives anyway is left to them.
        given = {label.key: label.value for label in node.labels if label.source is not LabelSource.ADMIN}
        own = {key: value for key, value in labels.items() if given.get(key) != value}
        check_not_reserved(key for key, value in own.items() if _admin_labels(node).get(key) != value)
        lines = tuple(changes(_admin_labels(node), own))
        if lines:
            await _write_labels(tx, node, own, actor)
        steps.append(Step(kind="labels", name=name, action=Action.CHANGE if lines else Action.SAME, lines=lines))
    return steps


async def _limits(tx: Transaction, wanted: Mapping[str, Mapping[str, int | str]], actor: str) -> list[Step]:
    steps = []
    for name, limits in sorted(wanted.items()):
        node = await _lock_named(tx, name, "limits")
        check_runs_engines(node, " and ".join(limits))
        for key, limit in limits.items():
            present = _admin_limits(node).get(key)
            lines = tuple(changes({} if present is None else {key: str(present)}, {key: str(limit)}))
            if present != limit:
                await _write_limit(tx, node, key, limit, actor)
            action = Action.SAME if present == limit else Action.CHANGE
            steps.append(Step(kind=LIMIT_KINDS[key], name=name, action=action, lines=() if present == limit else lines))
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
    await access_store.record(tx, actor, "node.slots" if is_slots else "node.budget", node.id, node.name)
    change = {"name": node.name, "by": actor}
    if is_slots:
        await outbox.append(tx, "node.slots_changed", node.id, change)
    else:
        await outbox.append(tx, "node.budget_changed", node.id, change)


def _admin_limits(node: Node) -> dict[str, int | str]:
    found = {SLOTS: node.slots_override, BUDGET: node.budget_override}
    return {key: limit for key, limit in found.items() if limit is not None}


async def _write_labels(tx: Transaction, node: Node, labels: Mapping[str, str], actor: str) -> None:
    await node_store.replace_labels(tx, node.id, LabelSource.ADMIN, labels)
    await rule_store.clear_unsatisfiable(tx)
    await access_store.record(tx, actor, "node.labels", node.id, node.name)
    await outbox.append(tx, "node.labels_changed", node.id, {"name": node.name, "by": actor})


def _admin_labels(node: Node) -> dict[str, str]:
    return {label.key: label.value for label in node.labels if label.source is LabelSource.ADMIN}


def _differences(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(changes({key: str(value) for key, value in before.items()}, {k: str(v) for k, v in after.items()}))
