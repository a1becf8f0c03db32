"""Looking for upgrades: ask registries where the tags of installed images point to now, then compare.

The leader looks every few seconds, and asks for each tag at most every six hours; when a tag was last asked for is in
PostgreSQL, so a new leader goes on where the old one was. `find` is cheap, waits for no registry, and gives the same
on every frontend. With automatic upgrades each thing that is found is asked for once, and again after six hours if it
is still there; the operation that follows is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

import structlog

from corral.backends.catalog import Catalog
from corral.backends.crowd import at_once
from corral.backends.registry import digest_of
from corral.domain.backend import InstalledBackend
from corral.domain.errors import Unavailable
from corral.domain.node import NodeId
from corral.policy.upgrades import NodeHas, UpgradeFound, find_upgrades, tags_in_use
from corral.ports.fetch import Fetcher
from corral.ports.runtime import Clock
from corral.runtime.guard import Failed, attempt
from corral.store import galleries as store
from corral.store import installed as installed_store
from corral.store import nodes as node_store
from corral.store.database import Database

log = structlog.get_logger(__name__)

LOOK_INTERVAL_S = 30.0
EVERY_S = 6 * 3600.0
COOLDOWN_S = 600.0
DIGESTS_KEPT_S = 30 * 24 * 3600.0
# One pass stays short; the rest is for the next one.
TAGS_PER_PASS = 100
AT_ONCE = 4

RequestUpgrade = Callable[[str], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What one pass did."""

    asked: int = 0
    failed: int = 0
    requested: tuple[str, ...] = ()


class UpgradeCheck:
    """`tick` is for the leader; `find` and `check` may be asked of any frontend."""

    def __init__(
        self,
        database: Database,
        catalog: Catalog,
        fetcher: Fetcher,
        clock: Clock,
        *,
        request_upgrade: RequestUpgrade | None = None,
    ) -> None:
        self._database = database
        self._catalog = catalog
        self._fetcher = fetcher
        self._clock = clock
        # None: upgrades are shown and left to an admin.
        self._request_upgrade = request_upgrade
        # Tags that nobody could tell about, and upgrades that were asked for: until when they are left alone.
        self._resting: dict[str, float] = {}
        self._requested: dict[UpgradeFound, float] = {}

    async def tick(self) -> Checked:
        asked, failed = await self._ask(EVERY_S)
        return Checked(asked=asked, failed=failed, requested=await self._request())

    async def check(self) -> tuple[UpgradeFound, ...]:
        """Ask every registry now, then tell what there is."""
        self._resting.clear()
        await self._ask(0.0)
        return await self.find()

    async def find(self) -> tuple[UpgradeFound, ...]:
        """From what is known now, without asking anybody."""
        async with self._database.transaction() as tx:
            installed = await installed_store.list_installed(tx)
            nodes = await node_store.list_nodes(tx, only=list(installed))
            digests = await store.list_digests(tx)
        rows = _rows(installed, {node.id: node.name for node in nodes})
        return find_upgrades(rows, self._catalog.entries(), digests)

    async def _ask(self, every_s: float) -> tuple[int, int]:
        """How many tags were asked for, and of how many nobody could tell."""
        async with self._database.transaction() as tx:
            installed = await installed_store.list_installed(tx)
        tags = tags_in_use(_rows(installed, {}), self._catalog.entries())
        if not tags:
            return 0, 0
        async with self._database.transaction() as tx:
            fresh = await store.list_fresh_digests(tx, tags, every_s)
        now = self._clock.monotonic()
        self._resting = {uri: until for uri, until in self._resting.items() if until > now}
        due = [uri for uri in tags if uri not in fresh and uri not in self._resting][:TAGS_PER_PASS]
        if not due:
            return 0, 0
        digests = dict(await at_once([partial(self._one, uri) for uri in due], AT_ONCE))
        told = {uri: digest for uri, digest in digests.items() if digest}
        async with self._database.transaction() as tx:
            await store.put_digests(tx, told)
            await store.prune_digests(tx, DIGESTS_KEPT_S)
        return len(due), len(due) - len(told)

    async def _one(self, uri: str) -> tuple[str, str]:
        try:
            return uri, await digest_of(uri, self._fetcher)
        except Unavailable as error:
            self._resting[uri] = self._clock.monotonic() + COOLDOWN_S
            log.warning("registry could not be asked", image=uri, problem=error.message)
            return uri, ""

    async def _request(self) -> tuple[str, ...]:
        request = self._request_upgrade
        if request is None:
            return ()
        now = self._clock.monotonic()
        self._requested = {found: until for found, until in self._requested.items() if until > now}
        names = []
        for found in await self.find():
            if found in self._requested:
                continue
            self._requested[found] = now + EVERY_S
            outcome = await attempt(partial(request, found.backend))
            if isinstance(outcome, Failed):
                log.warning("upgrade was not taken", backend=found.backend, problem=outcome.sentence)
            else:
                names.append(found.backend)
        return tuple(names)


def _rows(installed: Mapping[NodeId, tuple[InstalledBackend, ...]], names: Mapping[NodeId, str]) -> list[NodeHas]:
    return [
        NodeHas(node_id=node_id, node_name=names.get(node_id, node_id), installed=item)
        for node_id, items in installed.items()
        for item in items
    ]
