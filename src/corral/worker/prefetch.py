"""Requests the backends and models of the worker's prefetch list (`control_reporter.py` has the pace).

Guarantee: nothing here keeps a worker from starting or working. The list is sent once the node is approved and the
frontends know what it has, so that nothing present is fetched again. Each entry is requested until it is present or an
operation brings it, and then not again before the next start. Limit: the operation itself may still fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.domain.model import PrefetchEntry, PrefetchKind, PrefetchState
from corral.ports.runtime import Clock
from corral.wire.holdings import PrefetchIn
from corral.worker.control_plane import ControlPlane
from corral.worker.control_reporter import ControlReporter

log = structlog.get_logger(__name__)

# A refused entry may be possible later: a gallery is read, a model is added, another operation has ended.
EVERY_S = 60.0


class PrefetchRequester(ControlReporter):
    """Requests what the worker's prefetch list names (engine backends, models) until each is present. A service."""

    def __init__(
        self, control: ControlPlane, entries: Sequence[PrefetchEntry], *, boot_id: str, clock: Clock, rng: Random
    ) -> None:
        super().__init__("the prefetch list", self._request, every_s=EVERY_S, clock=clock, rng=rng)
        self._control = control
        self._entries = tuple(entries)
        self._boot_id = boot_id
        # Entries that are present or requested, by the id of the node that they were requested for.
        self._settled_entries: dict[str, set[PrefetchEntry]] = {}
        # Refusals that were logged, so that each is logged once.
        self._refusals: dict[PrefetchEntry, str] = {}

    def list_open_entries(self, node_id: str) -> list[PrefetchEntry]:
        """Return the entries that are neither present nor requested yet."""
        settled = self._settled_entries.get(node_id, set())
        return [entry for entry in self._entries if entry not in settled]

    async def _request(self, node_id: str) -> None:
        open_entries = self.list_open_entries(node_id)
        if not open_entries:
            return
        body = PrefetchIn(
            boot_id=self._boot_id,
            backends=[entry.name for entry in open_entries if entry.kind is PrefetchKind.BACKEND],
            models=[entry.name for entry in open_entries if entry.kind is PrefetchKind.MODEL],
        )
        answer = await self._control.request_prefetch(node_id, body)
        by_key = {(entry.kind.value, entry.name): entry for entry in open_entries}
        for result in answer.entries:
            entry = by_key.get((result.kind, result.name))
            if entry is None:
                continue
            if result.state != PrefetchState.REFUSED:
                # A node that was removed and joined again has another id; only the present one matters.
                self._settled_entries = {node_id: self._settled_entries.get(node_id, set()) | {entry}}
                log.info("prefetch", kind=result.kind, name=result.name, state=result.state, message=result.message)
            elif self._refusals.get(entry) != result.message:
                self._refusals[entry] = result.message
                log.warning("prefetch was refused", kind=result.kind, name=result.name, problem=result.message)
