"""What workers say of loads, and what it means for replicas: written in the transaction that writes the target.

Guarantees: a replica is published in the moment in which its worker's word is taken in, whoever takes it in, only as
its model is now, only at its node's own address, and only where the rule of the model allows it. News that was taken in
already changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from corral.domain.node import Node
from corral.domain.operation import Fault, JobId, Target, TargetState
from corral.loading.holding import push
from corral.operations.hearing import BIGINT_MAX, Said, Taken
from corral.policy.labels import matches
from corral.policy.loading import Hold, has_moved, is_at_the_engine, take_load
from corral.policy.node_identity import foreign_address_sentence, is_own_address
from corral.policy.progress import Change, News, Standing
from corral.store import loads as store
from corral.store import nodes as node_store
from corral.store import rules as rule_store
from corral.store.database import Transaction
from corral.store.loads import LoadNews

THREADS_MAX = 2**15
# The worker names an engine on another host than its node's.
FOREIGN_ADDRESS = "foreign_address"
# The node is not one that the rule of the model selects.
RULE_NOT_MET = "rule_not_met"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadListener:
    hold: Hold = field(default_factory=Hold)

    def take(self, standing: Standing, news: News) -> Change | None:
        return take_load(standing, news)

    async def find_faults(self, tx: Transaction, done: Sequence[tuple[Said, Target]]) -> dict[JobId, Fault]:
        """Loads whose engine is not on its node's own host, or on a node that the rule of the model does not allow."""
        loads = [(said, target) for said, target in done if "address" in said.result]
        if not loads:
            return {}
        nodes = {node.id: node for node in await node_store.list_nodes(tx, only={target.node for _, target in loads})}
        models = await store.list_models_of(tx, {target.operation_id for _, target in loads})
        selectors = await rule_store.list_selectors(tx, set(models.values()))
        faults: dict[JobId, Fault] = {}
        for said, target in loads:
            node, model = nodes.get(target.node), models.get((target.operation_id, target.node))
            if node is None or model is None:
                continue
            fault = find_load_fault(node, said.result["address"], selectors.get(model, {}))
            if fault is not None:
                faults[said.job_id] = fault
        return faults

    async def took(self, tx: Transaction, taken: Sequence[Taken]) -> None:
        moved = [one for one in taken if has_moved(one.before.progress, one.change.target.progress)]
        starting = [
            one
            for one in moved
            if is_at_the_engine(one.change.target.progress) and not is_at_the_engine(one.before.progress)
        ]
        engines = {one.change.target.operation_id for one in starting}
        await push(tx, {one.change.target.operation_id for one in moved}, self.hold, engines=engines)
        await store.mark_loaded(tx, [news_of(one) for one in _with(taken, TargetState.SUCCESS)])
        await store.mark_loading(tx, [news_of(one) for one in starting])
        for one in _with(taken, TargetState.ERROR):
            fault = one.change.target.fault
            # An engine that runs and may get no requests is stopped; its row stays until that is done.
            end_load = store.abandon if "address" in one.said.result else store.drop_failed
            await end_load(tx, [news_of(one)], fault.text if fault else "Its load failed.")


def find_load_fault(node: Node, address: str, selector: Mapping[str, str]) -> Fault | None:
    """Return why an engine that a node has started gets no requests; None if it may get them."""
    if not is_own_address(node, address):
        return Fault(code=FOREIGN_ADDRESS, text=foreign_address_sentence(node.name, node.address, address))
    if not matches(selector, node.label_map):
        return Fault(code=RULE_NOT_MET, text="The rule of the model does not allow this node any more.")
    return None


def _with(taken: Sequence[Taken], state: TargetState) -> list[Taken]:
    return [one for one in taken if one.change.target.state is state]


def news_of(taken: Taken) -> LoadNews:
    target, result = taken.change.target, taken.said.result
    return LoadNews(
        operation_id=target.operation_id,
        node_id=target.node,
        address=result.get("address", ""),
        engine_key=result.get("engine_key", ""),
        backend=result.get("backend", ""),
        version=result.get("version", ""),
        vram_bytes=_number(result.get("vram_bytes"), BIGINT_MAX),
        ram_bytes=_number(result.get("ram_bytes"), BIGINT_MAX),
        threads=_number(result.get("threads"), THREADS_MAX),
    )


def _number(text: str | None, most: int) -> int | None:
    """What a worker wrote as a number; anything else is nothing."""
    cleaned = (text or "").strip()
    if not (cleaned.isascii() and cleaned.isdecimal()) or len(cleaned) > 19:
        return None
    return min(int(cleaned), most)
