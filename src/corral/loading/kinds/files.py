"""The files of a model that an operation needs: known, and somewhere to be had; else this frontend fetches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from corral.domain.model import Model
from corral.domain.operation import Fault
from corral.loading.fetches import Fetches
from corral.loading.holding import push
from corral.loading.kinds.view import Next, View, give_up, running
from corral.policy.loading import STALLED, Hold
from corral.store.database import Transaction
from corral.store.staged import StagedFile

# How often a fetch is looked at: the row, and with it everybody who watches, is at most so far behind.
LOOK_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNeeds:
    fetches: Fetches
    hold: Hold

    async def look(self, tx: Transaction, view: View, model: Model, *, share: float) -> Next | None:
        """Where the fetch of this model is; None if its files are there now. `share` of the bar is the fetch."""
        fetch = self.fetches.look(view.operation.id, model)
        if fetch.is_done:
            self.fetches.forget(fetch)
            return None
        if fetch.fault is not None:
            self.fetches.forget(fetch)
            return await give_up(tx, view, fetch.fault)
        progress = fetch.progress(share)
        if progress.current_bytes != view.operation.progress.current_bytes:
            await push(tx, [view.operation.id], self.hold)
        elif is_over(view.operation.deadline_at, view.now):
            self.fetches.stop(view.operation.id)
            text = f"Nothing of the files has come for too long. {fetch.problem}".strip()
            return await give_up(tx, view, Fault(code=STALLED, text=text))
        words = f"Fetching the files of {model.name}"
        if fetch.problem:
            words += f"; tried again after: {fetch.problem}"
        return Next(verdict=running(view, words, progress=progress, next_s=LOOK_S))

    def is_fetching(self, view: View) -> bool:
        return self.fetches.is_wanted_by(view.operation.id)


def is_over(deadline_at: datetime | None, now: datetime) -> bool:
    return deadline_at is not None and deadline_at <= now


def are_known(model: Model) -> bool:
    return model.files is not None


def is_somewhere(model: Model, in_library: frozenset[str], staged: Sequence[StagedFile]) -> bool:
    """Whether every content can be had: from the library, or from nodes that have it whole."""
    held = in_library | {item.sha256 for item in staged if item.is_whole}
    return model.files is not None and all(file.sha256 in held for file in model.files)
