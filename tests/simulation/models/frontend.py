"""A frontend whose work is models: a library without a disk, and engines that are called inside the simulator."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from typing_extensions import override

from corral.app.core import CoreDeps, CoreOptions, FrontendCore
from corral.domain.errors import Unavailable
from corral.domain.model import Blob, ModelFile, StoredFile
from corral.library.library import FrontendLibrary
from corral.library.library_reader import LibraryOptions
from corral.policy.loads import LoadTimeouts
from corral.ports.library import FetchProgressListener
from corral.ports.requests import EngineEndpoint as Called
from corral.ports.requests import EngineLost, EngineRefused, EngineRequest, ResponseHandler
from corral.runtime.loop import Loop
from corral.store import files as file_store
from tests.simulation.chance import Random
from tests.simulation.frontends import SimFrontend
from tests.simulation.models.host import Engine, Host
from tests.simulation.operations.gallery import INDEX
from tests.simulation.virtual_loop import MACHINE
from tests.simulation.worlds import OpaqueCredentials, SimulationDeps
from tests.support.catalogs import replace_built_in
from tests.worker.pretend_work import CHUNK_BYTES, MIB

REQUEST_WAIT_S = 25.0
GRACE_S = 6.0
NODE_LEASE_S = 30.0
SILENT_S = 8.0
ANSWER_LONGEST_S = 5.0
HOLD = LoadTimeouts(base_s=120.0, stall_s=60.0, cap_s=600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRequest:
    """Holds a request that an engine has taken."""

    at_s: float
    frontend: str
    model: str
    revision: str


@dataclass(slots=True)
class LibraryDisk:
    """Holds what a frontend's disk has of the library; it outlives its processes."""

    blobs: dict[str, int] = field(default_factory=dict)
    partial: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Origin:
    """Says how fast the files of the internet come, and how often their source does not respond."""

    rng: Random
    failing: float = 0.0
    bytes_per_s: float = 6.0 * MIB


class SimLibrary(FrontendLibrary):
    """Keeps the product's records about files that are only pretended."""

    def __init__(self, options: CoreOptions, world: CoreDeps, pretended: LibraryDisk, origin: Origin) -> None:
        super().__init__(LibraryOptions(frontend_id=options.frontend_id), world.database, world.origins, world.clock)
        self._pretended = pretended
        self._origin = origin

    @override
    async def start(self) -> None:
        async with self._database.transaction() as tx:
            known = await file_store.list_sizes(tx, sorted(self._pretended.blobs))
            await file_store.put_holder(tx, sorted(known), self._holders.own)

    @override
    async def stop(self) -> None:
        async with self._database.transaction() as tx:
            await file_store.drop_holder(tx, self._holders.own)

    @override
    async def tick(self) -> int:
        return 0

    @override
    async def forget_unused(self) -> None:
        return

    @override
    async def ensure_files(
        self, model: str, files: Sequence[ModelFile], report: FetchProgressListener
    ) -> tuple[StoredFile, ...]:
        total = sum(size_of(file) for file in files)
        done = 0
        for file in files:
            sha256, size = sha256_of(file), size_of(file)
            while sha256 not in self._pretended.blobs:
                if self._origin.rng.random() < self._origin.failing:
                    raise Unavailable("The source does not respond.", code="source_unavailable")
                there = self._pretended.partial.get(sha256, 0)
                chunk = min(CHUNK_BYTES, size - there)
                await self._clock.sleep(chunk / self._origin.bytes_per_s)
                self._pretended.partial[sha256] = there + chunk
                report.on_progress(done + there + chunk, total, file.path)
                if there + chunk == size:
                    self._pretended.blobs[sha256] = size
            done += size
        stored = tuple(
            StoredFile(path=file.path, sha256=sha256_of(file), size_bytes=self._pretended.blobs[sha256_of(file)])
            for file in files
        )
        contents = [Blob(sha256=each.sha256, size_bytes=each.size_bytes, chunks=b"\0" * 32) for each in stored]
        await self._register(model, files, contents, stored, None)
        return stored


def sha256_of(file: ModelFile) -> str:
    return hashlib.sha256(file.parts[0].uri.encode()).hexdigest()


def size_of(file: ModelFile) -> int:
    """Return the size that an address names: https://files.example/3/name has 3 MiB."""
    return int(file.parts[0].uri.split("/")[3]) * MIB


class SimEngines:
    """Sends calls to the process that truly listens at an address. Implements `ports.requests.EngineClient`."""

    def __init__(self, around: SimulationDeps, hosts: Mapping[str, Host]) -> None:
        self._around = around
        self._hosts = hosts
        self._rng = around.rng("answers")
        self.served: list[ServedRequest] = []
        self.under_way = 0

    def send(self, endpoint: Called, request: EngineRequest, handler: ResponseHandler) -> SimLine:
        """Send a call in a task of the process that calls: it ends with it."""
        work = self._answer(endpoint, request.body.decode(), handler)
        return SimLine(asyncio.get_running_loop().create_task(work, name=f"call {endpoint.address}"))

    async def _answer(self, called: Called, model: str, handler: ResponseHandler) -> None:
        name, _, port = called.address.partition(":")
        host, clock = self._hosts[name], self._around.clock
        await clock.sleep(self._rng.uniform(0, 0.02))
        if not host.has_power or self._around.loop.is_frozen(name):
            await clock.sleep(SILENT_S)
            handler.on_lost(EngineLost(f"{called.address} does not respond."))
            return
        engine = host.listening(int(port))
        if engine is None:
            handler.on_lost(EngineRefused(f"No engine is listening at {called.address}."))
        elif engine.secret != called.engine_key:
            handler.on_head(401, (), 0)
        else:
            await self._serve(engine, model, handler)

    async def _serve(self, engine: Engine, model: str, handler: ResponseHandler) -> None:
        if model != engine.command.model:
            self._around.violated(f"a request for {model} was given to an engine of {engine.command.model}")
        self.served.append(
            ServedRequest(
                at_s=self._around.now(), frontend=str(MACHINE.get()), model=model, revision=engine.command.revision
            )
        )
        self.under_way += 1
        try:
            handler.on_head(200, ((b"content-type", b"application/json"),), None)
            async with asyncio.timeout(self._rng.uniform(0.1, ANSWER_LONGEST_S)):
                await engine.ended.wait()
            lost: EngineLost | None = EngineLost("The engine went away.")
        except TimeoutError:
            lost = None
        finally:
            self.under_way -= 1
        if lost is not None:
            handler.on_lost(lost)
        else:
            handler.on_body(b"{}")
            handler.on_end()


@dataclass(frozen=True, slots=True)
class SimLine:
    task: asyncio.Task[None]

    def pause(self) -> None:
        return

    def resume(self) -> None:
        return

    def write(self, piece: bytes, *, is_last: bool = False) -> None:
        raise AssertionError("no simulated request is in pieces", piece, is_last)

    def abort(self) -> None:
        if self.task is not asyncio.current_task():
            self.task.cancel()


class ModelsCore(FrontendCore):
    """Composes the product's frontend with another library."""

    make_library: Callable[[CoreOptions, CoreDeps], FrontendLibrary]

    @override
    def _make_library(self) -> FrontendLibrary:
        return self.make_library(self._options, self._deps)


class ModelsFrontend(SimFrontend):
    dispatch_intervals_s: Mapping[str, float] = {
        "dispatcher": 6.0,
        "operation leases": 3.0,
        "job events": 1.5,
        "operation deltas": 20.0,
    }
    # Hints wake all of these; the intervals are for when hints get lost.
    seldom_s: Mapping[str, float] = {
        "stops": 4.0,
        "removals": 6.0,
        "replicas": 15.0,
        "scaling": 8.0,
        "use": 3.0,
        "numbers": 600.0,
        "galleries": 600.0,
        "model galleries": 600.0,
        "upgrades": 600.0,
        "library": 600.0,
        "pruner": 600.0,
    }

    def __init__(
        self, name: str, around: SimulationDeps, credentials: OpaqueCredentials, engines: SimEngines, origin: Origin
    ) -> None:
        super().__init__(name, around, credentials)
        self._engines = engines
        self._origin = origin
        self.shelf = LibraryDisk()
        self.idle_s: float | None = None

    @override
    def make_core(self, options: CoreOptions, world: CoreDeps) -> FrontendCore:
        def library(options: CoreOptions, world: CoreDeps) -> FrontendLibrary:
            return SimLibrary(options, world, self.shelf, self._origin)

        class CoreWithLibrary(ModelsCore):
            make_library = staticmethod(library)

        return CoreWithLibrary(options, replace(world, engines=self._engines), on_crash=self._crashed)

    @override
    def tune(self, core: FrontendCore) -> None:
        super().tune(core)
        loops: tuple[Loop, ...] = core.loops.after_boot
        for loop in loops:
            loop.options = replace(
                loop.options, interval_s=self.seldom_s.get(loop.options.name, loop.options.interval_s)
            )
        replace_built_in(core.catalog, INDEX)

    @override
    def options(self, process: str) -> CoreOptions:
        return replace(
            super().options(process),
            operation_lease_s=12.0,
            node_lease_s=NODE_LEASE_S,
            leader_lease_s=18.0,
            liveness_interval_s=6.0,
            load_timeouts=HOLD,
            unload_grace_s=GRACE_S,
            request_wait_s=REQUEST_WAIT_S,
            model_idle_s=self.idle_s,
        )
