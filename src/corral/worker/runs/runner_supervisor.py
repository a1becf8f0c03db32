"""Keeps one runner process (`python -m corral.runner`) warm and speaks JSON lines with it.

    needed --started--> ready for runs --dies--> its runs are lost, pause, started again
                            `--idle after many runs, or large--> replaced at once

The process is apart from the worker, because agent frameworks and tools of others are large and may crash or block;
it gets a cleaned environment, a session of its own, and everything else over its standard input. Guarantees: a run
that was started is reported as ended or as lost, once; a process that has not answered for a minute is killed; a
process that is to end is gone when `stop` returns, with all of its group and all programs of MCP servers, which are
ended after a process that was killed, too (`program_sweeper.py`). Limit: a run is known to the runner by its id alone,
so a run is in the process at most once.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251 - only the type; the generator is passed in
from typing import Any, Protocol

import psutil
import structlog

from corral.domain.errors import TooLarge, Unavailable
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.loop import Loop, LoopOptions, ValueSignal
from corral.runtime.processes import (
    RestartBackoff,
    RestartCount,
    describe_exit,
    end_in_steps,
    kill_group,
    signal_processes,
)
from corral.runtime.tasks import TaskSet
from corral.wire.base import LenientModel
from corral.wire.run_work import ApprovalDecision, RunOutcome, RunSpec
from corral.wire.runner_protocol import (
    LINE_BYTES_MAX,
    PROGRAM_HOMES_VARIABLE,
    TO_WORKER,
    CallMessage,
    CancelMessage,
    DecideMessage,
    EndMessage,
    EventMessage,
    MalformedLine,
    McpMessage,
    McpResultMessage,
    PingMessage,
    PongMessage,
    ReadyMessage,
    ReplyMessage,
    RunnerErrorBody,
    StartMessage,
    StopMessage,
    decode_line,
    encode_line,
)
from corral.worker.runs.program_sweeper import ProgramSweeper

log = structlog.get_logger(__name__)

RUNNER_COMMAND = (sys.executable, "-m", "corral.runner")
# What the runner imports and the worker does not: the extra `agents`.
RUNNER_MODULES = ("jsonschema", "mcp", "pydantic_ai")
RUNNER_BACKOFF = RestartBackoff(first_s=0.5, ceiling_s=30.0, reset_after_s=60.0)
# How often an idle process is measured; the end of its last run is a reason to look at once.
UPKEEP_S = 10.0
# A process that leaves so many pings in a row unanswered stands still: it ends no run, not even at its deadline.
PING_S = 10.0
PINGS_UNANSWERED_MAX = 6
# After SIGKILL a process is gone as soon as the kernel is done with its disk writes.
KILL_LIMIT_S = 10.0
# What a process has written before its end is read within this time; a program that has left its group may keep the
# pipe open.
LAST_WORDS_S = 1.0
LOG_CHARACTERS_MAX = 2000
LOG_FIELDS_MAX = 20
_LOG_LEVELS = {"warning": logging.WARNING, "error": logging.ERROR, "critical": logging.ERROR}
# What the runner gets of the worker's environment: where programs, certificates and proxies are, nothing of Corral's.
_KEPT_NAMES = frozenset(
    {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    | {"LD_LIBRARY_PATH", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
    # By these two, `corral down` finds what a killed worker of `corral up` has left.
    | {"CORRAL_SUPERVISED_HOME", "SUPERVISED_AS"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """How a worker starts its runner process, which executes runs, and when the worker replaces that process."""

    command: tuple[str, ...] = RUNNER_COMMAND
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    directory: Path
    # Imports of a slow machine included; runs that arrive earlier wait this long.
    ready_s: float = 60.0
    stop_s: float = 3.0
    # A process that does not read its standard input for so long does nothing else either.
    write_s: float = 10.0
    runs_max: int = 500
    memory_bytes_max: int = 1024**3
    backoff: RestartBackoff = RUNNER_BACKOFF


class RunnerListener(Protocol):
    """Interface that receives the runner process's messages about one run, such as an LLM agent's turn.

    None follows after `on_end` or `on_lost`.
    """

    def on_event(self, event: EventMessage) -> None: ...

    def on_call(self, call: CallMessage) -> None: ...

    def on_end(self, outcome: RunOutcome) -> None: ...

    def on_lost(self, problem: str) -> None:
        """The process died with the run in it; `problem` is a sentence for people."""
        ...


class _RunnerStreams(asyncio.subprocess.SubprocessStreamProtocol):
    """The pipes of a process, and its exit: `asyncio.subprocess.Process.wait` waits for the pipes too, which programs
    that the process has started may hold open."""

    def __init__(self) -> None:
        super().__init__(limit=LINE_BYTES_MAX, loop=asyncio.get_running_loop())
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class _RunnerChild:
    """Holds one process with the runs that are in it."""

    def __init__(self, transport: asyncio.SubprocessTransport, streams: _RunnerStreams) -> None:
        assert streams.stdin is not None, "the process was started with pipes"
        assert streams.stdout is not None, "the process was started with pipes"
        assert streams.stderr is not None, "the process was started with pipes"
        self.pid: int = transport.get_pid()
        self.stdin, self.stdout, self.stderr = streams.stdin, streams.stdout, streams.stderr
        self.exited = streams.exited
        self.listeners: dict[str, RunnerListener] = {}
        # Calls of MCP servers outside of runs, by id.
        self.mcp_calls: dict[str, asyncio.Future[McpResultMessage]] = {}
        self.started_runs = 0
        # Runs that did not end and were left to themselves in here.
        self.stuck_run_ids: set[str] = set()
        # The end of the process is intended: it is replaced at once, and its end is no crash.
        self.is_ending = False
        self.unanswered_pings = 0
        # Why the process was killed, where its exit code does not say it.
        self.problem = ""
        self._transport = transport
        # What the process has left in its group was killed.
        self._has_cleared = False

    @property
    def returncode(self) -> int | None:
        return self._transport.get_returncode()

    def write(self, message: LenientModel) -> None:
        """Send a message. No-op if the process has ended: its runs are reported as lost."""
        self.write_line(encode_line(message))

    def write_line(self, line: bytes) -> None:
        if not self.exited.is_set() and not self.stdin.is_closing():
            # RuntimeError: how uvloop reports a pipe that was closed.
            with contextlib.suppress(OSError, RuntimeError):
                self.stdin.write(line)

    def send_signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._transport.send_signal(number)

    def kill(self) -> None:
        """Kill the process with its group and its descendants. No-op after the exit of the process was handled, because
        the pid may be another one's from then on."""
        if self._has_cleared:
            return
        # The group is the process's own as long as there is anything in it.
        self._has_cleared = self.exited.is_set()
        descendants: list[psutil.Process] = []
        if not self._has_cleared:
            with contextlib.suppress(psutil.Error):
                descendants = psutil.Process(self.pid).children(recursive=True)
        kill_group(self.pid)
        signal_processes(descendants, signal.SIGKILL)

    async def close(self) -> None:
        """Close the pipes, which a program that has left the group may hold open on the other side."""
        self._transport.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await self.stdin.wait_closed()


class RunnerSupervisor:
    """Keeps the runner process of a worker alive: starts it, hands runs to it, replaces it. A service."""

    name = "runner"

    def __init__(
        self,
        options: RunnerOptions,
        clock: Clock,
        rng: Random,
        on_crash: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._options = options
        self._clock = clock
        self._tasks = TaskSet(self.name, on_crash)
        self._child: _RunnerChild | None = None
        self._needed_event = asyncio.Event()
        self._ready_event = asyncio.Event()
        self._spawn_lock = asyncio.Lock()
        self._restarts = RestartCount()
        self._sweeper = ProgramSweeper(options.directory)
        self._is_stopping = False
        self.upkeep = Loop(LoopOptions(name="runner upkeep", interval_s=UPKEEP_S), self._look_after_idle, clock, rng)
        self.upkeep.on_crash = on_crash
        self.pings = Loop(LoopOptions(name="runner pings", interval_s=PING_S), self._ping, clock, rng)
        self.pings.on_crash = on_crash
        # The pid of a process that has become ready.
        self.became_ready: ValueSignal[int] = ValueSignal()

    @property
    def pid(self) -> int | None:
        """Return the id of the process that takes runs; None while there is none."""
        return self._child.pid if self._child is not None and self._ready_event.is_set() else None

    async def start(self) -> None:
        """Keep a process in the background from the first `warm_up` on: a worker whose runner cannot start is a member
        all the same."""
        self._tasks.start(self._keep_running(), name="keep running")
        await self.upkeep.start()
        await self.pings.start()

    def warm_up(self) -> None:
        """Start the process, because runs may come from now on. Its imports take seconds on a small machine, which is
        why it does not start together with everything else."""
        self._needed_event.set()

    async def stop(self) -> None:
        self._is_stopping = True
        self._ready_event.clear()
        await self.upkeep.stop()
        await self.pings.stop()
        # A start that is interrupted would leave a process behind.
        async with self._spawn_lock:
            child = self._child
        if child is not None:
            await self._end(child)
        await self._tasks.close()
        await asyncio.to_thread(self._sweeper.sweep)

    # --- runs ---

    async def start_run(self, run_id: str, spec: RunSpec, listener: RunnerListener) -> None:
        """Hand a run to the process; from now on `listener` receives what it says about the run.

        Raises `Unavailable` (runner_lost) if there is no process in time or it has the run already, and `TooLarge` for
        a specification that does not fit into a line."""
        line = encode_line(StartMessage(run_id=run_id, spec=spec))
        self.warm_up()
        child = await self._wait_ready()
        if run_id in child.listeners or run_id in child.stuck_run_ids:
            raise Unavailable("The runner process still has an earlier attempt of this run.", code="runner_lost")
        child.listeners[run_id] = listener
        child.started_runs += 1
        child.write_line(line)
        await self._drain(child)

    def cancel_run(self, run_id: str) -> bool:
        """Ask the process to end a run, whose end is reported to the listener. Return False if it has no such run."""
        return self._write_about(run_id, CancelMessage(run_id=run_id))

    def decide_call(self, run_id: str, call_id: str, decision: ApprovalDecision) -> bool:
        """Pass on a person's decision about a tool call. Return False if the process has no such run."""
        message = DecideMessage(run_id=run_id, call_id=call_id, approved=decision.approved, reason=decision.reason)
        return self._write_about(run_id, message)

    def reply(self, run_id: str, reply: ReplyMessage) -> None:
        """Answer a call of a run; an answer that does not fit into a line becomes an error."""
        try:
            self._write_about(run_id, reply)
        except TooLarge as error:
            body = RunnerErrorBody(code=error.slug, message=error.message)
            self._write_about(run_id, ReplyMessage(id=reply.id, error=body))

    async def call_server(self, message: McpMessage) -> McpResultMessage:
        """Call an MCP server outside of any run, and return what it has answered.

        Raises `Unavailable` (runner_lost) if there is no process or it ends before, and `TooLarge` for a message that
        does not fit into a line. Has no limit of its own."""
        line = encode_line(message)
        self.warm_up()
        child = await self._wait_ready()
        result: asyncio.Future[McpResultMessage] = asyncio.get_running_loop().create_future()
        child.mcp_calls[message.id] = result
        try:
            child.write_line(line)
            await self._drain(child)
            return await result
        finally:
            child.mcp_calls.pop(message.id, None)

    def _write_about(self, run_id: str, message: LenientModel) -> bool:
        child = self._child
        if child is None or run_id not in child.listeners:
            return False
        child.write(message)
        return True

    def abandon_run(self, run_id: str) -> None:
        """Give up on a run that does not end: kill the process if no other run is in it, else leave the run alone.

        The listener hears nothing more of the run."""
        child = self._child
        if child is None or child.listeners.pop(run_id, None) is None:
            return
        if child.listeners:
            log.warning("a run does not end and is left alone in the runner", run=run_id)
            child.stuck_run_ids.add(run_id)
            return
        log.warning("a run does not end: its runner is killed", run=run_id, pid=child.pid)
        self._ready_event.clear()
        child.is_ending = True
        child.kill()

    async def _wait_ready(self) -> _RunnerChild:
        try:
            async with asyncio.timeout(self._options.ready_s):
                while not self._ready_event.is_set() or self._child is None:
                    await self._ready_event.wait()
        except TimeoutError as error:
            raise Unavailable(
                "The runner process of this worker does not start.",
                hint="The log of the worker has the reason.",
                code="runner_lost",
            ) from error
        return self._child

    async def _drain(self, child: _RunnerChild) -> None:
        try:
            async with asyncio.timeout(self._options.write_s):
                await child.stdin.drain()
        except TimeoutError:
            log.warning("the runner does not read its input and is killed", pid=child.pid)
            child.kill()
        except (OSError, RuntimeError):
            # The process has ended, and its runs are reported as lost.
            return

    # --- the process ---

    async def _keep_running(self) -> None:
        await self._needed_event.wait()
        while not self._is_stopping:
            began_s = self._clock.monotonic()
            outcome = await attempt(self._run_process)
            if not isinstance(outcome, AttemptFailure) and outcome.value is None:
                continue
            problem = outcome.sentence if isinstance(outcome, AttemptFailure) else outcome.value
            self._restarts = self._restarts.with_crash(self._clock.monotonic() - began_s, self._options.backoff)
            pause_s = self._restarts.compute_pause_s(self._options.backoff)
            log.warning("the runner process is gone", problem=problem, restart_in_s=pause_s)
            await self._clock.sleep(pause_s)

    async def _run_process(self) -> str | None:
        """Run one process from its start to its end. Return how it ended; None if that was intended."""
        async with self._spawn_lock:
            if self._is_stopping:
                return None
            child = self._child = await self._spawn()
        reader = self._tasks.start(self._read_messages(child), name="read messages")
        output = self._tasks.start(_copy_output(child.stderr), name="copy output")
        try:
            await self._wait_until_ready_or_ended(child, reader)
            await child.exited.wait()
            # What the process has started holds its pipes open.
            child.kill()
            await asyncio.wait({reader, output}, timeout=LAST_WORDS_S)
        finally:
            self._ready_event.clear()
            self._child = None
            child.kill()
            reader.cancel()
            output.cancel()
            await child.exited.wait()
            try:
                await child.close()
                await asyncio.to_thread(self._sweeper.sweep)
            finally:
                ending = child.problem or describe_exit(child.returncode)
                _report_lost(child, f"The runner process {ending}.")
        return None if child.is_ending else ending

    async def _spawn(self) -> _RunnerChild:
        # A folder of its own: Python puts it on the module path.
        self._options.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        homes = await asyncio.to_thread(self._sweeper.begin)
        transport, streams = await asyncio.get_running_loop().subprocess_exec(
            _RunnerStreams,
            *self._options.command,
            env={**self._options.environment, PROGRAM_HOMES_VARIABLE: homes},
            cwd=str(self._options.directory),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return _RunnerChild(transport, streams)

    async def _wait_until_ready_or_ended(self, child: _RunnerChild, reader: asyncio.Task[None]) -> None:
        ready = self._tasks.start(self._ready_event.wait(), name="wait for ready")
        try:
            await asyncio.wait({ready, reader}, timeout=self._options.ready_s, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done() and not reader.done():
                log.warning("the runner was not ready in time and is killed", pid=child.pid)
                child.kill()
        finally:
            ready.cancel()

    async def _read_messages(self, child: _RunnerChild) -> None:
        while True:
            try:
                line = await child.stdout.readline()
            except ValueError:
                log.warning("the runner sent a line that is too long; it is dropped", limit_bytes=LINE_BYTES_MAX)
                continue
            if not line:
                break
            self._handle_line(child, line)
        # A process that cannot be read any more is of no use.
        if not child.is_ending:
            child.kill()

    def _handle_line(self, child: _RunnerChild, line: bytes) -> None:
        try:
            message = decode_line(line, TO_WORKER)
        except MalformedLine as error:
            log.warning("the runner sent a message that cannot be read", problem=error.message)
            call_id, run_id = error.details.get("id"), error.details.get("run_id")
            if isinstance(call_id, str) and isinstance(run_id, str):
                body = RunnerErrorBody(code="invalid_request", message=error.message)
                self.reply(run_id, ReplyMessage(id=call_id, error=body))
            return
        match message:
            case ReadyMessage():
                self._handle_ready(child, message)
            case EndMessage():
                self._handle_end(child, message)
            case EventMessage() if message.run_id in child.listeners:
                child.listeners[message.run_id].on_event(message)
            case CallMessage() if message.run_id in child.listeners:
                child.listeners[message.run_id].on_call(message)
            case McpResultMessage() if message.id in child.mcp_calls:
                child.mcp_calls.pop(message.id).set_result(message)
            case PongMessage():
                child.unanswered_pings = 0
            case _:
                # About a run that is over here, or of a newer version.
                return

    def _handle_end(self, child: _RunnerChild, message: EndMessage) -> None:
        listener = child.listeners.pop(message.run_id, None)
        if listener is not None:
            listener.on_end(message.outcome)
        if not child.listeners:
            self.upkeep.wake()

    def _handle_ready(self, child: _RunnerChild, message: ReadyMessage) -> None:
        if not child.is_ending and not self._is_stopping:
            log.info("the runner is ready", pid=child.pid, version=message.version)
            self._ready_event.set()
            self.became_ready.fire(child.pid)

    # --- replacing ---

    async def _ping(self) -> None:
        """Ask the process for a sign of life. Kill it if it has not answered for too long."""
        child = self._child
        if child is None or child.is_ending or not self._ready_event.is_set():
            return
        if child.unanswered_pings < PINGS_UNANSWERED_MAX:
            child.unanswered_pings += 1
            child.write(PingMessage())
            return
        # Pings are counted, not seconds: a worker that stood still itself has sent none.
        child.problem = f"has not answered for {PINGS_UNANSWERED_MAX * PING_S:g} s and was killed"
        log.warning("the runner does not answer and is killed", pid=child.pid)
        child.kill()

    async def _look_after_idle(self) -> None:
        """Replace an idle process that is worn out."""
        child = self._child
        if child is None or child.listeners or child.mcp_calls or not self._ready_event.is_set():
            return
        reason = self._find_replace_reason(child)
        if reason is None:
            return
        log.info("the idle runner is replaced", reason=reason, pid=child.pid)
        self._ready_event.clear()
        await self._end(child)

    def _find_replace_reason(self, child: _RunnerChild) -> str | None:
        if child.stuck_run_ids:
            return "a run in it did not end"
        if child.started_runs >= self._options.runs_max:
            return f"it has executed {child.started_runs} runs"
        try:
            used_bytes = psutil.Process(child.pid).memory_info().rss
        except psutil.Error:
            return None
        return f"it uses {used_bytes} bytes of memory" if used_bytes > self._options.memory_bytes_max else None

    async def _end(self, child: _RunnerChild) -> None:
        """End a process: by a message, by a signal, by force. Return when it is gone."""
        child.is_ending = True

        async def send_stop() -> None:
            child.write(StopMessage())
            child.stdin.close()

        async def terminate() -> None:
            child.send_signal(signal.SIGTERM)

        async def kill() -> None:
            child.kill()

        steps = ((send_stop, self._options.stop_s), (terminate, 1.0), (kill, KILL_LIMIT_S))
        await end_in_steps(steps, partial(_wait_for_exit, child))


def list_missing_runner_modules() -> list[str]:
    """Return the modules that the runner process cannot do without and this Python does not have. Imports none."""
    return [name for name in RUNNER_MODULES if importlib.util.find_spec(name) is None]


def _report_lost(child: _RunnerChild, problem: str) -> None:
    """Tell everything that waits for a process that it is gone."""
    listeners, child.listeners = child.listeners, {}
    for listener in listeners.values():
        listener.on_lost(problem)
    for call in child.mcp_calls.values():
        if not call.done():
            call.set_exception(Unavailable(problem, code="runner_lost"))


def clean_runner_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return what the runner process gets of the worker's environment: no setting and no secret of Corral."""
    kept = {name: value for name, value in inherited.items() if name.upper() in _KEPT_NAMES or name.startswith("LC_")}
    # Its last log lines must not wait in a buffer when it dies.
    return kept | {"PYTHONUNBUFFERED": "1"}


async def _wait_for_exit(child: _RunnerChild, limit_s: float) -> bool:
    try:
        async with asyncio.timeout(limit_s):
            await child.exited.wait()
    except TimeoutError:
        return False
    return True


async def _copy_output(stream: asyncio.StreamReader) -> None:
    """Copy what the process logs into the worker's log, where secrets are masked."""
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            continue
        if not line:
            return
        text = line.decode(errors="replace").rstrip()
        if text:
            _log_line(text)


def _log_line(text: str) -> None:
    """Log a line of the runner: its own entries with their level and fields, anything else as it is."""
    entry = _parse_entry(text)
    if entry is None:
        log.info("runner", line=text[:LOG_CHARACTERS_MAX])
        return
    level = _LOG_LEVELS.get(str(entry.pop("level", "")), logging.INFO)
    event = str(entry.pop("event"))[:LOG_CHARACTERS_MAX]
    fields = {
        name: value[:LOG_CHARACTERS_MAX] if isinstance(value, str) else value
        for name, value in entry.items()
        if name not in ("logger", "process", "timestamp")
    }
    log.log(level, event, process="runner", **{name: fields[name] for name in list(fields)[:LOG_FIELDS_MAX]})


def _parse_entry(text: str) -> dict[str, Any] | None:
    if not text.startswith("{") or len(text) > 8 * LOG_CHARACTERS_MAX:
        return None
    try:
        entry = json.loads(text)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("event"), str) else None
