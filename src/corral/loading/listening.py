"""What workers say of loads, and what it means for replicas: written in the transaction that writes the target.

Guarantees: a replica is published in the moment in which its worker's word is taken in, whoever takes it in, and only
as its model is now. News that was taken in already changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from corral.domain.operation import TargetState
from corral.loading.holding import push
from corral.operations.hearing import BIGINT_MAX, Taken
from corral.policy.loading import Hold, has_moved, is_at_the_engine, take_load
from corral.policy.progress import Change, News, Standing
from corral.store import loads as store
from corral.store.database import Transaction
from corral.store.loads import LoadNews

THREADS_MAX = 2**15


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadListener:
    hold: Hold = field(default_factory=Hold)

    def take(self, standing: Standing, news: News) -> Change | None:
        return take_load(standing, news)

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
            await store.drop_failed(tx, [news_of(one)], fault.text if fault else "Its load failed.")


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
