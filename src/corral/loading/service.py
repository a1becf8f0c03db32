"""Everything about loads that a frontend runs, put together: what drives operations about models, and two loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from corral.bus.messages import ListRunning
from corral.bus.subjects import MODELS_RUNNING
from corral.domain.cluster import Event
from corral.domain.errors import CorralError
from corral.domain.model import Model
from corral.domain.node import NodeId
from corral.domain.operation import OperationId, OperationKind
from corral.loading import holdings
from corral.loading.admission import Loads, check, named_nodes
from corral.loading.fetches import Fetches
from corral.loading.fleet import EngineChoice
from corral.loading.holdings import Holdings
from corral.loading.kinds.bring import BringKind
from corral.loading.kinds.commands import Places
from corral.loading.kinds.ending import DeleteKind, UnloadKind
from corral.loading.kinds.files import FileNeeds, is_somewhere
from corral.loading.kinds.load import BUSY_LOOKS, LoadKind
from corral.loading.kinds.view import Patience
from corral.loading.listening import LoadListener
from corral.loading.load_tickets import LoadTickets
from corral.loading.placing import Attempt, Decided, PlaceOptions, Placer
from corral.loading.removing import Remover
from corral.loading.request import Wanted
from corral.loading.step import LoadStepper
from corral.loading.stopping import Stopper
from corral.operations.apply import Teller
from corral.operations.numbers import Numbers, Uncounted
from corral.operations.planning import Builds
from corral.operations.step import Pool
from corral.policy.loading import Hold
from corral.ports.bus import Bus
from corral.ports.credentials import BusCredentials
from corral.ports.library import ModelLibrary
from corral.ports.runtime import Clock, Ids
from corral.store import models as model_store
from corral.store.database import Database

_K = OperationKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadingOptions:
    frontend_id: str
    fan_out: int = 128
    hold: Hold = field(default_factory=Hold)
    place: PlaceOptions = field(default_factory=PlaceOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadingWorld:
    database: Database
    bus: Bus
    clock: Clock
    ids: Ids
    catalog: Builds
    library: ModelLibrary
    credentials: BusCredentials | None = None
    numbers: Numbers = field(default_factory=Uncounted)
    # Whether this frontend cannot reach workers and a peer can.
    leaves_to_peers: Callable[[], bool] = lambda: False
    on_crash: Callable[[BaseException], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Where a model would go. Nothing was written, so another may have taken the place a moment later."""

    model: Model
    decided: Decided
    engines: Mapping[NodeId, EngineChoice]
    # Its files are not known yet, or not to be had: they would be fetched first.
    needs_fetch: bool


class Loading:
    """`pool` goes to the dispatcher, `loads` to whoever wants a model; `connect` tells it whom to call."""

    def __init__(self, world: LoadingWorld, options: LoadingOptions) -> None:
        self._world = world
        self.loads = Loads(world.database, world.ids)
        self.placer = Placer(world.catalog, world.ids, options.place)
        self.fetches = Fetches(world.library, world.clock, on_crash=world.on_crash)
        leaves = world.leaves_to_peers
        self.stopper = Stopper(world.database, world.bus, leaves_to_peers=leaves, on_crash=world.on_crash)
        self.remover = Remover(world.database, world.bus, leaves_to_peers=leaves, on_crash=world.on_crash)
        self._tickets = LoadTickets(credentials=world.credentials)
        self.pool = self._make_pool(options)
        self._wake_stops: Callable[[], None] = lambda: None
        self._wake_removals: Callable[[], None] = lambda: None

    def _make_pool(self, options: LoadingOptions) -> Pool:
        world = self._world
        teller = Teller(world.bus, limit=options.fan_out, numbers=world.numbers)
        places = Places(library=world.library, credentials=world.credentials)
        listener = LoadListener(hold=options.hold)
        files = FileNeeds(fetches=self.fetches, hold=options.hold)
        busy = Patience(BUSY_LOOKS)
        bring = BringKind(placer=self.placer, files=files, teller=teller, places=places, ids=world.ids)
        return Pool(
            steps=LoadStepper(
                database=world.database,
                teller=teller,
                ids=world.ids,
                fetches=self.fetches,
                listener=listener,
                kinds={
                    _K.MODEL_LOAD: LoadKind(
                        placer=self.placer, files=files, teller=teller, places=places, tickets=self._tickets, busy=busy
                    ),
                    _K.MODEL_INSTALL: bring,
                    _K.MODEL_STAGE: bring,
                    _K.MODEL_UNLOAD: UnloadKind(ids=world.ids, grace_s=options.place.grace_s),
                    _K.MODEL_DELETE: DeleteKind(ids=world.ids, library=world.library),
                },
                frontend_id=options.frontend_id,
            ),
            listener=listener,
            is_busy_with=self.fetches.is_wanted_by,
        )

    def connect(
        self,
        *,
        call: Callable[[OperationId], None],
        wake_stops: Callable[[], None],
        wake_removals: Callable[[], None],
    ) -> None:
        """The dispatcher and the loops, which are made with this."""
        self.fetches.call = call
        self._wake_stops, self._wake_removals = wake_stops, wake_removals

    async def follow(self, events: Sequence[Event]) -> None:
        if await self.stopper.follow(events):
            self._wake_stops()
        if await self.remover.follow(events):
            self._wake_removals()

    async def plan(self, wanted: Wanted) -> Planned:
        """What a load would do now."""
        check(wanted)
        async with self._world.database.transaction() as tx:
            model = await model_store.get_model(tx, wanted.model)
            nodes = await named_nodes(tx, wanted)
            registry = await self.placer.look(tx, model)
        exact = replace(wanted, model=model.name, nodes=None if nodes is None else tuple(node.id for node in nodes))
        return Planned(
            model=model,
            decided=self.placer.decide(model, Attempt(wanted=exact), registry),
            engines=registry.engines,
            needs_fetch=not is_somewhere(model, registry.in_library, registry.staged),
        )

    async def take_holdings(self, report: Holdings) -> holdings.Taken:
        return await holdings.take(self._world.database, self._world.ids, self._tickets, report)

    async def ask_running(self, node_id: NodeId) -> bool:
        """Ask a worker once what it runs. False: it did not say, which says nothing."""
        try:
            running = await self._world.bus.request(MODELS_RUNNING, ListRunning(), node=node_id)
            report = Holdings(node_id=node_id, boot_id=running.boot_id, processes=running.processes)
            await self.take_holdings(report)
        except CorralError:
            return False
        return True

    async def close(self) -> None:
        await self.fetches.close()
        await self.stopper.close()
        await self.remover.close()
