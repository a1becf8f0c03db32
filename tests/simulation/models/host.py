"""A machine on which engines run, and what truly happened there: every process from its start to its end.

Engines are processes of their own: a worker that is killed leaves them running, and the next one finds them. A power
cut ends them. Ports are used again as soon as they are free, so that an old address soon means somebody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from corral.bus.messages import RunningProcess, StartBackend
from corral.domain.errors import CorralError, Unprocessable
from corral.worker.processes.process_control import EngineStartFailed
from tests.simulation.chance import Random
from tests.simulation.worlds import SimulationDeps

GIB = 1024**3
FIRST_PORT = 9100
START_LONGEST_S = 4.0
STOP_LONGEST_S = 3.0
RESTART_LONGEST_S = 8.0
# What an engine takes of what was estimated.
TAKEN = 0.9


@dataclass(slots=True, kw_only=True, eq=False)
class Engine:
    """Describes one process. A restart after a crash is another one with the same key and port."""

    host: str
    key: str
    command: StartBackend
    version: str
    port: int
    pid: int
    secret: str
    began_s: float
    ram_bytes: int
    restarts: int = 0
    # starting, ready, backing_off (it has crashed and is not there).
    state: str = "starting"
    ready_s: float | None = None
    ended_s: float | None = None
    is_stopping: bool = False
    waiters: int = 0
    fault: CorralError | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_alive(self) -> bool:
        return self.ended_s is None

    def was_alive(self, at_s: float) -> bool:
        return self.began_s < at_s and (self.ended_s is None or self.ended_s > at_s)

    def was_listening(self, at_s: float) -> bool:
        return self.was_alive(at_s) and self.ready_s is not None and self.ready_s < at_s

    def describe(self) -> RunningProcess:
        command = self.command
        return RunningProcess(
            key=self.key,
            model=command.model,
            replica=command.replica,
            backend=command.backend,
            version=self.version,
            address=self.address,
            pid=self.pid if self.is_alive else 0,
            state=self.state,
            restarts=self.restarts,
            revision=command.revision,
            operation_id=command.operation_id,
            job_id=command.job_id,
            threads=command.threads or 1,
            ram_bytes=self.ram_bytes,
            engine_key=self.secret,
            ticket=command.ticket,
        )


class Host:
    """Simulates a machine with its processes; the present worker receives every change."""

    def __init__(self, name: str, around: SimulationDeps, *, ram_bytes: int, threads: int) -> None:
        self.name = name
        self.ram_bytes = ram_bytes
        self.threads = threads
        self._around = around
        self._rng: Random = around.rng(f"engines of {name}")
        self.engines: dict[str, Engine] = {}
        # Everything that ever ran here.
        self.lives: list[Engine] = []
        self.has_power = False
        self.has_worker = False
        self.on_change: Callable[[], None] = lambda: None
        self.is_short_of_memory = False
        self.is_stubborn = False
        self._pids = 1000

    @property
    def available_ram(self) -> int:
        return max(0, self.ram_bytes - sum(each.ram_bytes for each in self.engines.values() if each.is_alive))

    def listening(self, port: int) -> Engine | None:
        for engine in self.engines.values():
            if engine.port == port and engine.is_alive and engine.state == "ready":
                return engine
        return None

    def launch(self, command: StartBackend, version: str, *, again: Engine | None = None) -> Engine:
        """Start a new process; it becomes ready, or fails, by itself."""
        key = f"{command.model}#{command.replica}"
        used = {each.port for each in self.engines.values()}
        self._pids += 1
        engine = Engine(
            host=self.name,
            key=key,
            command=command,
            version=version,
            port=again.port if again else next(port for port in range(FIRST_PORT, 65536) if port not in used),
            pid=self._pids,
            secret=again.secret if again else f"{self.name} {key} {self._pids}",
            began_s=self._around.now(),
            ram_bytes=int(int(command.options.get("ram", "0")) * TAKEN),
            restarts=again.restarts + 1 if again else 0,
        )
        for other in self.engines.values():
            if other.key == key and other.is_alive:
                self._around.violated(f"{self.name}: {key} was started while it runs")
        self.engines[key] = engine
        self.lives.append(engine)
        self._around.trace.add(f"{self.name} starts {key} ({command.revision[:8]}) as {engine.pid} at {engine.address}")
        self._around.loop.call_later(self._rng.uniform(0.2, START_LONGEST_S), self._settle, engine)
        return engine

    def _settle(self, engine: Engine) -> None:
        if not engine.is_alive:
            return
        used = sum(each.ram_bytes for each in self.engines.values() if each.is_alive)
        if used > self.ram_bytes or (self.is_short_of_memory and self._rng.random() < 0.7):
            engine.fault = Unprocessable("The engine ran out of memory.", code="out_of_memory")
        if engine.fault is not None:
            self.end(engine, "has failed to start")
        else:
            engine.state, engine.ready_s = "ready", self._around.now()
            self._around.trace.add(f"{self.name} has {engine.key} ready")
        engine.settled.set()
        self.on_change()

    def end(self, engine: Engine, why: str) -> None:
        """End a process and free its port."""
        self._over(engine, why)
        if self.engines.get(engine.key) is engine:
            del self.engines[engine.key]
        self.on_change()

    def _over(self, engine: Engine, why: str) -> None:
        if engine.is_alive:
            self._around.trace.add(f"{self.name}: {engine.key} ({engine.pid}) {why}")
            engine.ended_s = self._around.now()
            engine.ended.set()
            if not engine.settled.is_set():
                engine.fault = engine.fault or EngineStartFailed(f"The engine {why}.")
                engine.settled.set()

    def crash_one(self) -> None:
        """Crash a random engine. One that was ready is started again after a while, if there is a worker to do that."""
        alive = [each for each in self.engines.values() if each.is_alive]
        if not alive:
            return
        engine = self._rng.choice(alive)
        was_ready = engine.state == "ready"
        if not was_ready or engine.is_stopping:
            self.end(engine, "dies while it loads")
            return
        self._over(engine, "dies")
        engine.state = "backing_off"
        self.on_change()
        self._around.loop.call_later(self._rng.uniform(0.5, RESTART_LONGEST_S), self._again, engine)

    def _again(self, engine: Engine) -> None:
        if self.engines.get(engine.key) is not engine or engine.is_stopping:
            return
        if not self.has_worker:
            del self.engines[engine.key]
            return
        self.launch(engine.command, engine.version, again=engine)
        self.on_change()

    def power_cut(self) -> None:
        self.has_power = False
        for engine in list(self.engines.values()):
            self._over(engine, "ends with its machine")
        self.engines.clear()

    def stop_pause_s(self) -> float:
        return self._rng.uniform(0.05, STOP_LONGEST_S)
