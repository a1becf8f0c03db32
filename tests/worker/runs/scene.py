"""An executor with a scripted runner process and frontends that speak real HTTP."""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
from aiohttp import web

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.bus.messages import JobAcceptedReply, StartRun
from corral.domain.run import RunEventType
from corral.wire.run_work import ApprovalDecision, AskAgentIn, RunEventIn, RunEventsIn, RunEventsOut, ToolFileIn
from corral.worker.control_plane import HttpControlPlane
from corral.worker.runs.active_run import RunEndTimeouts
from corral.worker.runs.executor import RunExecutor, RunExecutorDeps
from corral.worker.runs.runner_supervisor import RunnerOptions, RunnerSupervisor, clean_runner_environment
from tests.support.polling import eventually

PROGRAM = Path(__file__).parent / "programs" / "runner.py"
COMMAND = (sys.executable, str(PROGRAM))
NODE = "node-1"
# A run that hangs on purpose needs no five seconds.
TIMEOUTS = RunEndTimeouts(end_s=0.5, stop_s=2.0, stop_runner_s=0.3)
CREDENTIAL = "cn_" + "c" * 43
DONE = {"end": {"state": "completed", "content": "done"}}
WAIT = {"wait": "cancel"}
HANG = {"hang": True}


class PretendRun:
    """A run as the registry of the stand-in has it."""

    def __init__(self, script: list[dict[str, Any]], last_seq: int = 0) -> None:
        self.script = script
        self.last_seq = last_seq
        self.events: list[RunEventIn] = []
        self.job_id = ""
        self.must_stop = False
        self.decisions: dict[str, ApprovalDecision] = {}
        self.deliveries = 0

    def list_data(self, event_type: RunEventType) -> list[dict[str, Any]]:
        return [event.data for event in self.events if event.type is event_type]

    @property
    def text(self) -> str:
        return "".join(data["text"] for data in self.list_data(RunEventType.CONTENT))

    @property
    def outcome(self) -> dict[str, Any] | None:
        return next(iter(self.list_data(RunEventType.END)), None)

    async def wait_outcome(self) -> dict[str, Any]:
        outcome: dict[str, Any] = await until(lambda: self.outcome)
        return outcome

    async def wait_text(self) -> None:
        await until(lambda: self.text)

    @property
    def spec(self) -> dict[str, Any]:
        """The specification as the runner got it."""
        spec: dict[str, Any] = self.list_data(RunEventType.STEP)[0]["spec"]
        return spec


class PretendFrontend:
    """The routes of a frontend that workers call about their runs, and faults on demand."""

    def __init__(self) -> None:
        self.url = ""
        self.runs: dict[str, PretendRun] = {}
        # 503 to every call: PostgreSQL is away.
        self.is_away = False
        self.refused = 0
        # The code of a 503 to calls that fetch work; empty: none.
        self.withholds = ""
        # So many calls are answered with 409 `try_again`: a deadlock in PostgreSQL.
        self.conflicts = 0
        # The same, of calls that store a file.
        self.store_conflicts = 0
        self.deliveries = 0
        self.agent_calls: list[tuple[str, AskAgentIn]] = []
        # What calls of other agents are answered, one after the other; the last one again and again.
        self.agent_answers: list[tuple[int, dict[str, Any]]] = []

    def make_routes(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/api/node/{node}/runs/{run}", self._handle(self._fetch))
        app.router.add_post("/api/node/{node}/runs/{run}/events", self._handle(self._deliver))
        app.router.add_post("/api/node/{node}/runs/{run}/agents/{agent}", self._handle(self._ask))
        app.router.add_post("/api/node/{node}/runs/{run}/files", self._handle(self._store))
        return app

    def _handle(self, answer: Callable[[web.Request, PretendRun], Any]) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            assert request.headers["Authorization"] == f"Bearer {CREDENTIAL}"
            assert request.match_info["node"] == NODE
            if self.is_away:
                self.refused += 1
                return _refuse(503, "store_unavailable")
            if self.conflicts:
                self.conflicts -= 1
                return _refuse(409, "try_again")
            run = self.runs.get(request.match_info["run"])
            if run is None:
                return _refuse(404, "run_not_found")
            response: web.StreamResponse = await answer(request, run)
            return response

        return handle

    async def _fetch(self, request: web.Request, run: PretendRun) -> web.StreamResponse:
        if run.must_stop:
            return _refuse(409, "run_not_held")
        run.job_id = request.query["job_id"]
        if self.withholds:
            self.refused += 1
            return _refuse(503, self.withholds)
        spec = {"run_id": request.match_info["run"], "kind": "task", "model": "m", "extra": {"script": run.script}}
        spec["ticket"] = "a ticket"
        return web.json_response({"job_id": run.job_id, "attempt": 1, "last_seq": run.last_seq, "spec": spec})

    async def _deliver(self, request: web.Request, run: PretendRun) -> web.StreamResponse:
        body = RunEventsIn.model_validate(await request.json())
        run.deliveries += 1
        self.deliveries += 1
        is_held = body.job_id == run.job_id and not run.must_stop
        for event in body.events if is_held else ():
            if event.seq == run.last_seq + 1:
                run.events.append(event)
                run.last_seq += 1
        answer = RunEventsOut(last_seq=run.last_seq, must_stop=not is_held, decisions=run.decisions)
        return web.json_response(answer.model_dump(mode="json"))

    async def _ask(self, request: web.Request, run: PretendRun) -> web.StreamResponse:
        self.agent_calls.append((request.match_info["agent"], AskAgentIn.model_validate(await request.json())))
        status, body = self.agent_answers.pop(0) if len(self.agent_answers) > 1 else self.agent_answers[0]
        return web.json_response(body, status=status)

    async def _store(self, request: web.Request, run: PretendRun) -> web.StreamResponse:
        if self.store_conflicts:
            self.store_conflicts -= 1
            return _refuse(409, "try_again")
        body = ToolFileIn.model_validate(await request.json())
        assert body.job_id == run.job_id
        return web.json_response({"id": "f1", "path": f"kept/{body.name}"})


def _refuse(status: int, code: str) -> web.StreamResponse:
    return web.json_response({"error": {"code": code, "message": "No."}}, status=status)


@asynccontextmanager
async def serve(frontend: PretendFrontend, port: int = 0) -> AsyncIterator[PretendFrontend]:
    runner = web.AppRunner(frontend.make_routes(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    frontend.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield frontend
    finally:
        await runner.cleanup()


class RunScene:
    """One worker's runs."""

    def __init__(self, frontend: PretendFrontend, process: RunnerSupervisor, executor: RunExecutor) -> None:
        self.frontend = frontend
        self.process = process
        self.executor = executor

    def add(self, run_id: str, *script: dict[str, Any], last_seq: int = 0) -> PretendRun:
        """A run that the registry knows and no worker has."""
        run = self.frontend.runs[run_id] = PretendRun(list(script), last_seq)
        return run

    def accept(self, run_id: str, job_id: str = "") -> JobAcceptedReply:
        return self.executor.accept(StartRun(job_id=job_id or f"job of {run_id}", run_id=run_id, kind="task"), NODE)

    def begin(self, run_id: str, *script: dict[str, Any], last_seq: int = 0) -> PretendRun:
        run = self.add(run_id, *script, last_seq=last_seq)
        self.accept(run_id)
        return run

    def get_state(self, run_id: str) -> str:
        event = self.executor.find_job(f"job of {run_id}")
        assert event is not None
        return event.state

    async def end_of(self, run_id: str) -> str:
        """The state of the job, once it has ended."""

        async def look() -> str:
            state = self.get_state(run_id)
            return state if state != "running" else ""

        return await eventually(look)

    async def wait_entries(self, run: PretendRun, event_type: RunEventType = RunEventType.STEP) -> list[dict[str, Any]]:
        """The data of entries of a kind, once there is one."""
        found: list[dict[str, Any]] = await until(lambda: run.list_data(event_type))
        return found

    async def ready_pid(self) -> int:
        return await until(lambda: self.process.pid) or 0


def is_alive(pid: int) -> bool:
    """Return whether a process lives; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until(look: Callable[[], Any]) -> Any:
    async def look_later() -> Any:
        return look()

    return await eventually(look_later)


@asynccontextmanager
async def open_scene(
    directory: Path,
    *,
    max_runs: int = 4,
    command: tuple[str, ...] = COMMAND,
    urls: tuple[str, ...] = (),
    timeouts: RunEndTimeouts = TIMEOUTS,
    **options: Any,
) -> AsyncIterator[RunScene]:
    async with AsyncExitStack() as stack:
        frontend = await stack.enter_async_context(serve(PretendFrontend()))
        clock, rng = SystemClock(), random.Random(1)
        control = HttpControlPlane((*urls, frontend.url), CREDENTIAL, clock=clock, ids=SystemIdGenerator())
        stack.push_async_callback(control.close)
        environment = clean_runner_environment({"PATH": "/usr/bin:/bin", "HOME": str(directory), "CORRAL_TOKEN": "x"})
        process = RunnerSupervisor(
            RunnerOptions(command=command, environment=environment, directory=directory / "runner", **options),
            clock,
            rng,
        )
        executor = RunExecutor(
            RunExecutorDeps(
                control=control,
                runner=process,
                clock=clock,
                rng=rng,
                boot_id="boot-1",
                max_runs=max_runs,
                timeouts=timeouts,
            )
        )
        await process.start()
        stack.push_async_callback(process.stop)
        await executor.start()
        executor.prepare()
        stack.push_async_callback(executor.stop)
        yield RunScene(frontend, process, executor)
