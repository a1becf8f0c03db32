"""Asks the control plane for what this machine wants on its disk (`pushing.py` has the pace).

Guarantee: nothing here keeps a worker from starting or working. The list is sent once the node is approved and the
frontends know what it has, so that what is there is not fetched again. Each entry is asked for until it is present or
an operation brings it, and then not again before the next start. Limit: whether that operation succeeds is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.domain.prefetch import PrefetchEntry, PrefetchKind, PrefetchState
from corral.ports.runtime import Clock
from corral.wire.holdings import PrefetchIn
from corral.worker.control import ControlPlane
from corral.worker.pushing import Pushing

log = structlog.get_logger(__name__)

# What is refused may be possible later: a gallery is read, a model is added, another operation has ended.
EVERY_S = 60.0


class PrefetchRequester(Pushing):
    """A service that asks for the entries of this worker's prefetch list."""

    def __init__(
        self, control: ControlPlane, entries: Sequence[PrefetchEntry], *, boot_id: str, clock: Clock, rng: Random
    ) -> None:
        super().__init__("the prefetch list", self._request, every_s=EVERY_S, clock=clock, rng=rng)
        self._control = control
        self._entries = tuple(entries)
        self._boot_id = boot_id
        # Entries that are present or requested, by the id of the node that they were asked for.
        self._settled: dict[str, set[PrefetchEntry]] = {}
        # Refusals that were logged, so that each is said once.
        self._refusals: dict[PrefetchEntry, str] = {}

    def list_open(self, node_id: str) -> list[PrefetchEntry]:
        """Return the entries that are neither present nor requested yet."""
        settled = self._settled.get(node_id, set())
        return [entry for entry in self._entries if entry not in settled]

    async def _request(self, node_id: str) -> None:
        wanted = self.list_open(node_id)
        if not wanted:
            return
        body = PrefetchIn(
            boot_id=self._boot_id,
            backends=[entry.name for entry in wanted if entry.kind is PrefetchKind.BACKEND],
            models=[entry.name for entry in wanted if entry.kind is PrefetchKind.MODEL],
        )
        answer = await self._control.request_prefetch(node_id, body)
        by_key = {(entry.kind.value, entry.name): entry for entry in wanted}
        for result in answer.entries:
            entry = by_key.get((result.kind, result.name))
            if entry is None:
                continue
            if result.state != PrefetchState.REFUSED:
                # A node that was removed and joined again has another id; only the present one matters.
                self._settled = {node_id: self._settled.get(node_id, set()) | {entry}}
                log.info("prefetch", kind=result.kind, name=result.name, state=result.state, message=result.message)
            elif self._refusals.get(entry) != result.message:
                self._refusals[entry] = result.message
                log.warning("prefetch was refused", kind=result.kind, name=result.name, problem=result.message)
