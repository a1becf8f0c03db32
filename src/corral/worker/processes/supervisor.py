"""All engines of this worker: one process a key, whoever asks how often and at the same time.

Guarantee: a dead process is never given as running, nor one whose folder was replaced. A stop reaches exactly what it
names, returns after the end, and within a limit. A worker that comes after a kill goes on with what runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.bus.messages import Log, ReadLog, RunningProcess, StartBackend
from corral.domain.errors import Conflict, NotFound
from corral.domain.operation import Phase
from corral.ports.runtime import Clock, Ids
from corral.runtime.guard import Failed, attempt
from corral.runtime.loop import Loop, LoopPlan
from corral.runtime.tasks import Tasks
from corral.worker.backends.layout import identity_of
from corral.worker.processes.adoption import adopt_all
from corral.worker.processes.engine import Around, Engine, Wanted
from corral.worker.processes.errors import AddressMismatch, ProcessStopping, StopFailed
from corral.worker.processes.journal import ProcessJournal
from corral.worker.processes.keys import ProcessKey, parse_key
from corral.worker.processes.launch import LOOPBACK, hash_wish
from corral.worker.processes.logs.shelf import LogShelf
from corral.worker.processes.logs.tail import Tail
from corral.worker.processes.machine import Machine, Ready
from corral.worker.processes.options import SupervisorOptions
from corral.worker.processes.ports import PortPool, read_range
from corral.worker.processes.probe import HttpReady, is_bindable
from corral.worker.processes.system import SystemMachine
from corral.worker.processes.threads import ThreadBudget
from corral.worker.processes.watching import UsageMeter, watch
from corral.worker.work import Report, Runnable

log = structlog.get_logger(__name__)

COPY_INTERVAL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a supervisor is made of. `find` tells what is installed under a name; the rest is the world."""

    find: Callable[[str], Runnable | None]
    clock: Clock
    ids: Ids
    rng: Random
    # Other than the real ones only in tests.
    machine: Machine | None = None
    ready: Ready | None = None
    is_bindable: Callable[[int], bool] | None = None


class Supervisor:
    """`worker.work.Processes`, and a service."""

    name = "engines"

    def __init__(self, options: SupervisorOptions, parts: Parts) -> None:
        self._engines: dict[str, Engine] = {}
        self.changed: Callable[[], None] = lambda: None
        self._is_closing = False
        self._http = HttpReady()
        port_range, warning = read_range(options.port_base, options.port_max)
        if warning:
            log.warning("the range of engine ports", problem=warning, used=str(port_range))
        self._tasks = Tasks("engines")
        self._around = Around(
            options=options,
            machine=parts.machine or SystemMachine(parts.clock),
            ready=parts.ready or self._http,
            find=parts.find,
            ports=PortPool(range=port_range, is_bindable=parts.is_bindable or partial(_is_free, options.host)),
            threads=ThreadBudget(total=options.threads),
            journal=ProcessJournal(options.root / "running"),
            shelf=LogShelf(options.root / "logs", options.logs),
            clock=parts.clock,
            ids=parts.ids,
            tasks=self._tasks,
            changed=self._tell_change,
        )
        self._usage = UsageMeter(self._around.machine, parts.clock)
        plan = LoopPlan(name="engine-logs", interval_s=COPY_INTERVAL_S)
        self.copying = Loop(plan=plan, tick=self._copy_logs, clock=parts.clock, rng=parts.rng)
        plan = LoopPlan(name="engine-health", interval_s=options.watch_s)
        self.watching = Loop(plan=plan, tick=self._watch, clock=parts.clock, rng=parts.rng)

    # --- a service ---

    async def start(self) -> None:
        """Adopt or end what an earlier worker has left; then engines can be started."""
        await adopt_all(self._around, self._keep)
        for engine in self._engines.values():
            self._tasks.start(self._run(engine), name=engine.key)
        await self.copying.start()
        await self.watching.start()

    async def stop(self) -> None:
        """Nothing new; all engines end, those that do not within the grace by force."""
        self._is_closing = True
        await self.watching.stop()
        _, survivors = await self._stop_all(tuple(self._engines.values()), force=False)
        if survivors:
            log.error("engines could not be ended", keys=survivors)
        await self.copying.stop()
        await self._tasks.close()
        await self._http.close()

    # --- Processes ---

    async def start_backend(self, wish: StartBackend, report: Report) -> RunningProcess:
        key = ProcessKey(model=wish.model or wish.backend, replica=wish.replica)
        report.phase(Phase.STARTING)
        wanted = self._wanted(key, wish)
        while (old := self._engines.get(str(key))) is not None:
            if old.is_stopping:
                raise ProcessStopping(f"{key} is being stopped; try again when it has ended.")
            if wanted is not None and old.will_do(wanted):
                report.phase(Phase.LOADING)
                return await self._started(old)
            await old.stop(force=True)
        if wanted is None:
            raise NotFound(f"{wish.backend} is not installed on this node.", code="not_installed")
        if self._is_closing:
            raise Conflict("This worker is stopping.", code="worker_stopping")
        engine = self._keep(wanted)
        self._tasks.start(self._run(engine), name=engine.key)
        report.phase(Phase.LOADING)
        return await self._started(engine)

    async def stop_backend(
        self, backend: str | None, *, force: bool = False
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        chosen = [engine for engine in self._engines.values() if backend is None or engine.backend == backend]
        return await self._stop_all(chosen, force=force)

    async def stop_exactly(self, key: str, *, expected_address: str = "", force: bool = False) -> tuple[bool, str]:
        engine = self._engines.get(str(parse_key(key)))
        if engine is None:
            return False, ""
        address = engine.address
        if expected_address and expected_address != address:
            raise AddressMismatch(
                f"{key} listens on {address}, not on {expected_address}: it is another process and was left alone.",
                details={"address": address},
            )
        await engine.stop(force=force)
        return True, address

    def running(self) -> tuple[RunningProcess, ...]:
        told = (engine.told() for engine in self._engines.values())
        return tuple(sorted((one for one in told if one is not None), key=lambda one: one.key))

    async def measure_running(self) -> tuple[RunningProcess, ...]:
        return await self._usage.measure(tuple(self._engines.values()))

    async def read_log(self, wish: ReadLog) -> Log:
        return await self._around.shelf.read(wish)

    def api_key_of(self, key: str) -> str | None:
        """What to show to the engine with this key: empty if it checks nothing, None if there is no such process."""
        engine = self._engines.get(key)
        return None if engine is None else engine.api_key

    # --- within ---

    def _wanted(self, key: ProcessKey, wish: StartBackend) -> Wanted | None:
        runnable = self._around.find(wish.backend)
        identity = None if runnable is None else identity_of(runnable.directory)
        if runnable is None or identity is None:
            return None
        return Wanted(key=key, runnable=runnable, identity=identity, command_hash=hash_wish(runnable, wish), wish=wish)

    def _keep(self, wanted: Wanted) -> Engine:
        key = str(wanted.key)
        assert key not in self._engines, f"{key} would run twice"
        shelf = self._around.shelf
        book = shelf.open(key, in_use=frozenset(self._engines))
        tail = Tail(shelf.folder_of(key), book, self._around.clock, self._around.options.tail)
        engine = Engine(wanted, self._around, tail)
        self._engines[key] = engine
        return engine

    async def _run(self, engine: Engine) -> None:
        await engine.run()
        # Without a wait in between: whoever waited for the end finds the place empty.
        assert self._engines.pop(engine.key) is engine, "only an engine itself leaves the table"
        self.changed()

    async def _started(self, engine: Engine) -> RunningProcess:
        engine.waiters += 1
        try:
            return await engine.started()
        except asyncio.CancelledError:
            if engine.waiters == 1 and not engine.was_ready:
                # Nobody else wants it. The engine's own task waits for its end.
                engine.abandon()
            raise
        finally:
            engine.waiters -= 1

    async def _stop_all(self, engines: Iterable[Engine], *, force: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The keys that ended, and those that did not. One that is being stopped already is waited for."""
        chosen = sorted(engines, key=lambda engine: engine.key)
        async with asyncio.TaskGroup() as group:
            tasks = {engine.key: group.create_task(self._stop_one(engine, force=force)) for engine in chosen}
        ended = tuple(key for key, task in tasks.items() if task.result())
        return ended, tuple(key for key, task in tasks.items() if not task.result())

    async def _stop_one(self, engine: Engine, *, force: bool) -> bool:
        try:
            await engine.stop(force=force)
        except ProcessStopping:
            return await engine.ends_within(self._around.options.grace_s + self._around.options.kill_limit_s)
        except StopFailed:
            return False
        return True

    async def _copy_logs(self) -> None:
        failures = [failed for engine in tuple(self._engines.values()) if (failed := await self._copy_one(engine))]
        if failures:
            raise failures[0].error

    def _tell_change(self) -> None:
        self.changed()

    async def _watch(self) -> None:
        await watch(tuple(self._engines.values()), self._around)

    async def _copy_one(self, engine: Engine) -> Failed | None:
        async def copy() -> None:
            engine.tail.copy()

        outcome = await attempt(copy)
        return outcome if isinstance(outcome, Failed) else None


def _is_free(host: str, port: int) -> bool:
    """Some engines listen on the host, others on the loopback."""
    return is_bindable(host, port) and (host == LOOPBACK or is_bindable(LOOPBACK, port))
