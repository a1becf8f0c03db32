"""The life of one engine: started, watched until it is ready, started again when it crashes, ended when asked.

Guarantee: everything that happens to the process happens in `run`; `stop` signals and waits. The port, the threads and
the record in the journal are given back once, after everything of the process has ended. Nobody is told that it is
ready once somebody wants it stopped. A start that fails is told with the engine's own last words and not repeated; a
crash after it was ready is followed by a restart on the same port, for ever, with growing pauses. What it is at stands
in the journal, so that the worker that comes after a kill goes on from there.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum

import structlog

from corral.bus.messages import RunningProcess, StartBackend
from corral.domain.errors import CorralError
from corral.ports.runtime import Clock, Ids
from corral.runtime.guard import Done, Failed, attempt
from corral.runtime.tasks import Tasks
from corral.worker.backends.layout import identity_of
from corral.worker.processes.errors import EngineFailed, ProcessStopping, StopFailed
from corral.worker.processes.journal import ProcessJournal, ProcessRecord
from corral.worker.processes.keys import ProcessKey
from corral.worker.processes.launch import LOOPBACK, MARKER, Place, listens_on, make_launch
from corral.worker.processes.logs.shelf import LogShelf
from corral.worker.processes.logs.tail import Tail
from corral.worker.processes.machine import Birth, Machine, Measured, Ready, Running, Spawn, describe_exit
from corral.worker.processes.options import SupervisorOptions
from corral.worker.processes.ports import Choice, PortPool
from corral.worker.processes.restarts import Restarts
from corral.worker.processes.threads import ThreadBudget
from corral.worker.work import Runnable

log = structlog.get_logger(__name__)

READY_POLL_S = 0.2
LEFTOVER_POLL_S = 0.1
# So many ports of one start may go to other programs before it is given up.
PORTS_LOST_MAX = 5
LAST_WORDS = 20
# Where the reason for its end is looked for: engines say much after it.
LAST_LINES = 200
OUT_OF_MEMORY = "out_of_memory"
LOAD_TIMEOUT = "load_timeout"
# As `subprocess` tells a SIGKILL, and as a shell does for its child.
_KILLED = (-9, 137)
_ANY_HOST = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 - compared with, not listened on


class State(StrEnum):
    STARTING = "starting"
    READY = "ready"
    UNHEALTHY = "unhealthy"  # only told: it is ready, idle, and does not answer
    BACKING_OFF = "backing_off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What all engines of one worker share."""

    options: SupervisorOptions
    machine: Machine
    ready: Ready
    find: Callable[[str], Runnable | None]
    ports: PortPool
    threads: ThreadBudget
    journal: ProcessJournal
    shelf: LogShelf
    clock: Clock
    ids: Ids
    tasks: Tasks
    # Called when what is told of an engine has changed.
    changed: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which process it is to be. A running one will do if all of this is the same."""

    key: ProcessKey
    runnable: Runnable
    identity: tuple[int, int]
    command_hash: str
    wish: StartBackend

    def is_met_by(self, other: Wanted) -> bool:
        return (
            self.runnable.name == other.runnable.name
            and self.runnable.version == other.runnable.version
            and self.identity == other.identity
            and self.command_hash == other.command_hash
            and self.wish.revision == other.wish.revision
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One process that is ready, as whoever looks after it needs it."""

    url: str
    birth: Birth
    marker: str


@dataclass(slots=True)
class _Life:
    """One process of this engine, from its spawn to the end of the last that descends from it."""

    running: Running
    ended: asyncio.Task[int | None]
    marker: str
    ready_at_s: float | None = None
    # What the kernel's counter said before; None for an adopted one.
    oom_kills: int | None = None


@dataclass(slots=True)
class _Held:
    port: int | None = None
    threads: int = 1
    api_key: str = field(default="", repr=False)


class Engine:
    def __init__(self, wanted: Wanted, around: Around, tail: Tail) -> None:
        self.wanted = wanted
        self.state = State.STARTING
        self.restarts = Restarts()
        self.finished = asyncio.Event()
        self.tail = tail
        # How many wait for its start, and whether any start has gone well.
        self.waiters = 0
        self.was_ready = False
        self._around = around
        self._held = _Held()
        self._life: _Life | None = None
        self._measured = Measured()
        self._marker = ""
        # How often in a row it was silent when it was asked.
        self._silences = 0
        self._ports_lost = 0
        # The number in the log after which the lines of this start follow.
        self._began_after = 0
        # How this start went, for those who wait for it.
        self._failure: CorralError | None = None
        self._settled = asyncio.Event()
        # Set by `stop`, and when its backend is gone: whatever `run` waits for, it stops waiting and ends.
        self._unwanted = asyncio.Event()
        self._is_stopping = False

    # --- what others see ---

    @property
    def key(self) -> str:
        return str(self.wanted.key)

    @property
    def backend(self) -> str:
        return self.wanted.runnable.name

    @property
    def api_key(self) -> str:
        return self._held.api_key

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    @property
    def address(self) -> str:
        if self._held.port is None:
            return ""
        listens = self._listens_on()
        host = LOOPBACK if listens == LOOPBACK else self._around.options.advertised_host
        return _join(host, self._held.port)

    def told(self) -> RunningProcess | None:
        """For `models.running`: None for what is dead or being stopped."""
        life = self._life
        if self._is_stopping or self.finished.is_set():
            return None
        if self.state is State.BACKING_OFF:
            pid = 0
        elif life is None or not life.running.is_alive():
            return None
        else:
            pid = life.running.birth.pid
        return RunningProcess(
            key=self.key,
            model=self.wanted.key.model,
            replica=self.wanted.key.replica,
            backend=self.backend,
            version=self.wanted.runnable.version,
            address=self.address,
            pid=pid,
            state=str(State.UNHEALTHY if self._is_unhealthy else self.state),
            restarts=self.restarts.total,
            revision=self.wanted.wish.revision,
            operation_id=self.wanted.wish.operation_id,
            job_id=self.wanted.wish.job_id,
            threads=self._held.threads,
            vram_bytes=self._measured.vram_bytes,
            ram_bytes=self._measured.ram_bytes,
            engine_key=self._held.api_key,
            ticket=self.wanted.wish.ticket,
        )

    def will_do(self, wanted: Wanted) -> bool:
        """Whether somebody who wants this can have the process that is here, or wait for it."""
        if self._unwanted.is_set() or not wanted.is_met_by(self.wanted):
            return False
        if self.state is State.STARTING:
            return True
        return self.state is State.READY and self._life is not None and self._life.running.is_alive()

    async def started(self) -> RunningProcess:
        """Wait until it is ready, or raise why it is not."""
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure
        told = self.told()
        if told is not None and self.state is State.READY and not self._unwanted.is_set():
            return told
        if self._unwanted.is_set():
            raise ProcessStopping(f"{self.key} became ready and is being stopped.")
        raise EngineFailed(f"{self.key} became ready and ended at once.")

    def to_watch(self) -> Watched | None:
        """None while there is nothing to ask: it is not ready, or it is to end."""
        life, port = self._life, self._held.port
        if self.state is not State.READY or self._unwanted.is_set() or life is None or port is None:
            return None
        url = probe_url(self.wanted.runnable, self._around.options, port)
        return Watched(url=url, birth=life.running.birth, marker=life.marker)

    def looked_at(self, *, is_well: bool) -> None:
        was_unhealthy = self._is_unhealthy
        self._silences = 0 if is_well else self._silences + 1
        if self._is_unhealthy != was_unhealthy:
            said = "an engine answers again" if was_unhealthy else "an engine is idle and does not answer"
            log.warning(said, key=self.key)
            self._around.changed()

    @property
    def _is_unhealthy(self) -> bool:
        return self.state is State.READY and self._silences >= self._around.options.watch_misses

    # --- what happens ---

    async def run(self) -> None:
        """The whole life. Cancelled only when the worker ends without stopping its engines: then they go on."""
        if self.state is State.BACKING_OFF:
            await self._pause()
        while not self._unwanted.is_set():
            outcome = await attempt(self._live)
            healthy_s = await self._clear(outcome)
            if self._unwanted.is_set():
                break
            if isinstance(outcome, Failed) and self._has_lost_its_port():
                continue
            if isinstance(outcome, Failed):
                self._settle(self._with_last_words(outcome.error))
                if not self.was_ready:
                    break
            await self._back_off(outcome, healthy_s)
        self._finish()

    def adopt(self, record: ProcessRecord, running: Running) -> None:
        """Go on with a process that an earlier worker has started, ready or not yet; call before `run`."""
        self._hold(record)
        self._begin_life(running, record.marker)
        if record.state != State.STARTING:
            self._mark_ready()

    def resume_pause(self, record: ProcessRecord) -> None:
        """Go on waiting for the restart that an earlier worker did not live to see; call before `run`."""
        self._hold(record)
        self.was_ready = True
        self.state = State.BACKING_OFF

    async def stop(self, *, force: bool = False) -> None:
        """End it, and return when all of it has ended, within the limits. Raises StopFailed if it survives."""
        if self._is_stopping:
            raise ProcessStopping(f"{self.key} is being stopped already.")
        self._is_stopping = True
        self._unwanted.set()
        self._settle(None)
        self._around.changed()
        try:
            if not force:
                await self._signal_and_wait(self._around.machine.ask_to_end, self._around.options.grace_s)
            if not self.finished.is_set():
                await self._signal_and_wait(self._around.machine.kill, self._around.options.kill_limit_s)
        finally:
            self._is_stopping = False
        if not self.finished.is_set():
            log.error("a process survives SIGKILL", key=self.key)
            raise StopFailed(f"{self.key} could not be ended.", hint="Look at the process on the node; it may hang.")

    def abandon(self) -> None:
        """Nobody waits for this start any more: it ends by force, and nobody has to wait for that."""
        self._unwanted.set()
        self._settle(None)

    async def ends_within(self, limit_s: float) -> bool:
        try:
            async with asyncio.timeout(limit_s):
                await self.finished.wait()
        except TimeoutError:
            return False
        return True

    # --- one process ---

    async def _live(self) -> str:
        """One process until it has ended: how, in words. Raises if it did not start or was never ready."""
        if self._life is None:
            await self._spawn()
        life = self._life
        assert life is not None, "there is a process after a spawn"
        if life.ready_at_s is None:
            await self._wait_ready(life)
            self._measured = await self._around.machine.measure(life.running.birth, life.marker)
            self._mark_ready()
            self._note(life.marker, life.running.birth)
        else:
            self._measured = await self._around.machine.measure(life.running.birth, life.marker)
        self._around.changed()
        return describe_exit(await life.ended)

    async def _spawn(self) -> None:
        around, wanted = self._around, self.wanted
        place = self._take_place()
        launch = make_launch(wanted.runnable, wanted.wish, place, around.options.environment)
        self._marker = marker = f"{around.ids.new_id()}@{around.options.home}"
        self._began_after = self.tail.begin(f"starting {self.backend} {wanted.runnable.version} on port {place.port}")
        self._write(marker, None)
        oom_kills = around.machine.oom_kills()
        wish = Spawn(
            command=launch.command,
            environment={**launch.environment, MARKER: marker},
            directory=launch.directory,
            stdout=self.tail.path_of("stdout"),
            stderr=self.tail.path_of("stderr"),
        )
        try:
            running = await around.machine.spawn(wish)
        except OSError as error:
            what = error.filename or launch.command[0]
            raise EngineFailed(f"{self.key} could not be started: {error.strerror}: {what}.") from error
        self._begin_life(running, marker, oom_kills)
        self._write(marker, running.birth)
        around.changed()

    def _begin_life(self, running: Running, marker: str, oom_kills: int | None = None) -> None:
        ended = self._around.tasks.start(running.ended(), name=f"wait for {self.key}")
        self._life = _Life(running=running, ended=ended, marker=marker, oom_kills=oom_kills)
        self._silences = 0

    def _take_place(self) -> Place:
        around, held = self._around, self._held
        if held.port is not None and not around.ports.is_bindable(held.port):
            # Somebody took it during the pause after a crash.
            self._release_port()
        if held.port is None:
            allotted = around.ports.allot(self.key, around.clock.monotonic())
            if allotted.how is Choice.STOLEN:
                log.warning(
                    "a port was taken from its last owner", port=allotted.port, key=self.key, was=allotted.loser
                )
            held.port = allotted.port
            held.threads = around.threads.take(self.key, self.wanted.wish.threads)
        if not held.api_key and self.wanted.runnable.manifest.api_key != "none":
            held.api_key = around.ids.secret()
        return Place(host=self._listens_on(), port=held.port, threads=held.threads, api_key=held.api_key)

    async def _wait_ready(self, life: _Life) -> None:
        clock, probe = self._around.clock, self.wanted.runnable.manifest.ready
        assert self._held.port is not None, "a process that starts has a port"
        url = probe_url(self.wanted.runnable, self._around.options, self._held.port)
        budget_s = probe.timeout_s if self.wanted.wish.ready_s is None else self.wanted.wish.ready_s
        deadline_s = clock.monotonic() + budget_s
        while True:
            is_ready = await self._around.ready(url, self._held.api_key)
            if life.ended.done():
                raise self._ended_early(life, life.ended.result())
            if self._unwanted.is_set():
                raise ProcessStopping(f"{self.key} was stopped while it was starting.")
            if is_ready and life.running.is_alive() and await self._is_ours(life):
                return
            if clock.monotonic() >= deadline_s:
                raise EngineFailed(f"{self.key} was not ready after {budget_s:g} s.", code=LOAD_TIMEOUT)
            await asyncio.wait({life.ended}, timeout=READY_POLL_S)

    async def _is_ours(self, life: _Life) -> bool:
        """Another worker of this machine may have given the port to an engine of its own in the same moment."""
        assert self._held.port is not None, "a process that starts has a port"
        return await self._around.machine.listens(life.running.birth, life.marker, self._held.port) is not False

    def _ended_early(self, life: _Life, code: int | None) -> EngineFailed:
        """A SIGKILL that nobody here has sent is the kernel's if its counter has moved meanwhile."""
        now = self._around.machine.oom_kills() if code in _KILLED else None
        is_for_memory = now is not None and life.oom_kills is not None and now > life.oom_kills
        slug = OUT_OF_MEMORY if is_for_memory else EngineFailed.code
        return EngineFailed(f"{self.key} {describe_exit(code)} before it was ready.", code=slug)

    def _mark_ready(self) -> None:
        assert self._life is not None, "something is ready"
        self._life.ready_at_s = self._around.clock.monotonic()
        self.state, self.was_ready = State.READY, True
        # After `stop` this was settled already, the other way.
        self._settled.set()

    async def _clear(self, outcome: Done[str] | Failed) -> float:
        """Wait until nothing of the process is left. How long it was ready."""
        life, machine = self._life, self._around.machine
        if life is None:
            return 0.0
        birth = life.running.birth
        await machine.kill(birth, life.marker)
        while life.running.is_alive() or await machine.is_any_left(birth, life.marker):
            await self._around.clock.sleep(LEFTOVER_POLL_S)
            await machine.kill(birth, life.marker)
        words = outcome.value if isinstance(outcome, Done) else outcome.sentence
        drained = await attempt(lambda: self._drain(words))
        if isinstance(drained, Failed):
            log.warning("the last output of an engine was not kept", key=self.key, error=drained.sentence)
        self._life = None
        return 0.0 if life.ready_at_s is None else self._around.clock.monotonic() - life.ready_at_s

    async def _drain(self, words: str) -> None:
        while self.tail.copy():
            await self._around.clock.sleep(0)
        self.tail.copy(is_final=True)
        self.tail.remark(words)

    async def _back_off(self, outcome: Done[str] | Failed, healthy_s: float) -> None:
        patience = self._around.options.patience
        self.restarts = self.restarts.after_crash(healthy_s, patience)
        self.state = State.BACKING_OFF
        self._note(self._marker, None)
        self._around.changed()
        pause_s = self.restarts.pause_s(patience)
        how = outcome.value if isinstance(outcome, Done) else outcome.sentence
        log.warning("an engine crashed", key=self.key, how=how, restart_in_s=pause_s, restarts=self.restarts.total)
        await self._pause()

    def _has_lost_its_port(self) -> bool:
        """It never was ready, and somebody else listens where it should have: worth another port, a few times."""
        port = self._held.port
        if self.was_ready or port is None or self._around.ports.is_bindable(port) or self._ports_lost >= PORTS_LOST_MAX:
            return False
        self._ports_lost += 1
        log.warning("another program has taken the port of an engine that was starting", key=self.key, port=port)
        return True

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self.restarts.pause_s(self._around.options.patience)):
                await self._unwanted.wait()
        except TimeoutError:
            self._check_installation()
        self.state = State.STARTING
        if not self._unwanted.is_set():
            self._failure = None
            self._settled.clear()

    def _check_installation(self) -> None:
        found = self._around.find(self.backend)
        if found is None or identity_of(found.directory) != self.wanted.identity:
            log.warning("an engine that crashed is not started again: its backend is gone", key=self.key)
            self._unwanted.set()

    # --- bookkeeping ---

    def _listens_on(self) -> str:
        return listens_on(self.wanted.runnable.manifest, self._around.options.host)

    async def _signal_and_wait(self, send: Callable[[Birth, str], Awaitable[None]], limit_s: float) -> None:
        if self._life is not None:
            await send(self._life.running.birth, self._life.marker)
        await self.ends_within(limit_s)

    def _with_last_words(self, error: Exception) -> CorralError:
        if not isinstance(error, EngineFailed):
            return error if isinstance(error, CorralError) else EngineFailed(f"{self.key}: {error!r}.")
        last = self.tail.last_words(self._began_after, LAST_LINES)
        slug = error.slug if error.slug != EngineFailed.code else self._recognised(last)
        cause = " It ran out of memory." if slug == OUT_OF_MEMORY else ""
        text = "".join(f"\n    {line}" for line in last[-LAST_WORDS:])
        return EngineFailed(
            f"{error.message}{cause}{text}",
            hint="The log of this process has the rest.",
            code=slug,
            details={"key": self.key},
        )

    def _recognised(self, lines: tuple[str, ...]) -> str:
        """The code whose signs the manifest finds in what the engine has said."""
        for slug, signs in self.wanted.runnable.manifest.errors.items():
            if any(re.search(sign, line, re.IGNORECASE) for sign in signs for line in lines):
                return slug
        return EngineFailed.code

    def _settle(self, error: CorralError | None) -> None:
        if not self._settled.is_set():
            self._failure = error or ProcessStopping(f"{self.key} was stopped while it was starting.")
            self._settled.set()

    def _write(self, marker: str, birth: Birth | None) -> None:
        wanted, held = self.wanted, self._held
        assert held.port is not None, "a process has a port before it is written down"
        self._around.journal.write(
            ProcessRecord(
                key=self.key,
                marker=marker,
                birth=birth,
                port=held.port,
                threads=held.threads,
                backend=self.backend,
                version=wanted.runnable.version,
                directory=str(wanted.runnable.directory),
                identity=wanted.identity,
                command_hash=wanted.command_hash,
                wish=wanted.wish,
                api_key=held.api_key,
                state=str(self.state),
                restarts=self.restarts.total,
                crashes_in_a_row=self.restarts.in_a_row,
            )
        )

    def _note(self, marker: str, birth: Birth | None) -> None:
        """As good as it goes: an engine does not end because a disk is full."""
        if self._held.port is None:
            return
        try:
            self._write(marker, birth)
        except OSError as error:
            log.warning("the record of a process is not as it is", key=self.key, error=str(error))

    def _hold(self, record: ProcessRecord) -> None:
        """What an earlier worker had given to it."""
        self._held = _Held(port=record.port, threads=record.threads, api_key=record.api_key)
        self._marker = record.marker
        self._around.ports.hold(self.key, record.port)
        self._around.threads.hold(self.key, record.threads)
        self.restarts = Restarts(total=record.restarts, in_a_row=record.crashes_in_a_row)

    def _release_port(self) -> None:
        if self._held.port is not None:
            self._around.ports.release(self.key, self._held.port, self._around.clock.monotonic())
            self._held.port = None

    def _finish(self) -> None:
        self._release_port()
        self._around.threads.release(self.key)
        try:
            self._around.journal.remove(self.key)
        except OSError as error:
            # The next worker will find that this process is dead.
            log.warning("the record of a process stays", key=self.key, error=str(error))
        self._settle(None)
        self.finished.set()


def probe_url(runnable: Runnable, options: SupervisorOptions, port: int) -> str:
    listens = listens_on(runnable.manifest, options.host)
    return f"http://{_join(_ANY_HOST.get(listens, listens), port)}{runnable.manifest.ready.path}"


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
