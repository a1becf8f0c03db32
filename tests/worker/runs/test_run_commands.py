"""Commands about runs over a real bus: at an agent node, and at a backend node beside its other jobs."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from corral.adapters.nats.client import NatsBus
from corral.adapters.system import SystemClock
from corral.bus import subjects
from corral.bus.messages import BackendCommand, CancelJob, GetJobs, JobEvent, StartRun, WakeRun
from corral.bus.subjects import BusRole
from corral.domain.errors import NodeUnreachable, Unavailable
from corral.domain.operation import JobPhase
from corral.wire.run_work import ApprovalDecision
from corral.worker.bus_link import CommandHandler
from corral.worker.command_handler import BackendCommandHandler, CommandHandlerDeps, RunCommandHandler
from corral.worker.control_reporter import BackendReporter, HoldingsReporter
from corral.worker.jobs.runner import JobRunner, JobRunnerDeps
from corral.worker.runs import trace_sender
from tests.bus.nats_server import NatsServer, eventually
from tests.support import polling
from tests.worker.pretend_work import (
    PretendDisk,
    PretendFiles,
    PretendInstaller,
    PretendJournal,
    PretendProcesses,
    wire_build,
)
from tests.worker.runs.scene import DONE, NODE, WAIT, RunScene, until
from tests.worker.standin import PretendFrontend

BACKEND = "cpu-llama-cpp"


class CommandScene:
    """The bus of a frontend, and a node that is subscribed with its own permissions."""

    def __init__(self, frontend_bus: NatsBus, scene: RunScene) -> None:
        self.bus = frontend_bus
        self.runs = scene

    async def start(self, run_id: str) -> JobEvent:
        command = StartRun(job_id=f"job of {run_id}", run_id=run_id, kind="task")
        return (await self.bus.request(subjects.RUN_START, command, node=NODE)).job

    async def cancel(self, job_id: str) -> JobEvent | None:
        return (await self.bus.request(subjects.JOBS_CANCEL, CancelJob(job_id=job_id), node=NODE)).job

    async def get(self, *job_ids: str) -> dict[str, str]:
        answer = await self.bus.request(subjects.JOBS_GET, GetJobs(job_ids=job_ids), node=NODE)
        assert answer.boot_id == "boot-1"
        return {event.job_id: event.state for event in answer.jobs}


async def _join(nats: NatsServer, role: BusRole, handler: CommandHandler) -> NatsBus:
    bus = nats.bus(role, NODE)
    await bus.start()
    await eventually(lambda: bus.is_connected, "the node is on the bus")
    # Refused here if the role may not listen to one of these subjects.
    await handler.subscribe(bus, NODE)
    return bus


@pytest.fixture
async def frontend_bus(nats: NatsServer) -> AsyncIterator[NatsBus]:
    bus = nats.bus(BusRole.FRONTEND, "f1")
    await bus.start()
    await eventually(lambda: bus.is_connected, "the frontend is on the bus")
    yield bus
    await bus.stop()


@pytest.fixture
async def agent(nats: NatsServer, frontend_bus: NatsBus, scene: RunScene) -> AsyncIterator[CommandScene]:
    bus = await _join(nats, BusRole.AGENT, RunCommandHandler(scene.executor, "boot-1"))
    yield CommandScene(frontend_bus, scene)
    await bus.stop()


async def test_agent_node_executes_lists_and_cancels_runs(agent: CommandScene):
    run = agent.runs.add("r1", WAIT)
    accepted = await agent.start("r1")
    assert (accepted.state, accepted.seq, accepted.operation_id) == ("running", 1, "r1")
    await agent.runs.wait_entries(run)
    agent.runs.add("r2", DONE)
    await agent.start("r2")
    await agent.runs.end_of("r2")
    assert await agent.get() == {"job of r1": "running", "job of r2": "done"}
    assert await agent.get("job of r2", "unknown") == {"job of r2": "done"}
    assert await agent.get("unknown") == {}
    cancelled = await agent.cancel("job of r1")
    assert cancelled is not None
    assert cancelled.state in ("running", "done")
    assert await agent.runs.end_of("r1") == "done"
    again = await agent.cancel("job of r1")
    assert again is not None
    assert again.state == "done"
    assert await agent.cancel("unknown") is None
    assert (await run.wait_outcome())["state"] == "cancelled"


async def test_refusal_of_a_busy_worker_reaches_the_frontend_with_its_code(agent: CommandScene):
    for number in range(4):
        agent.runs.add(f"r{number}", WAIT)
        await agent.start(f"r{number}")
    agent.runs.add("r4", DONE)
    with pytest.raises(Unavailable) as refused:
        await agent.start("r4")
    assert refused.value.slug == "worker_busy"


@pytest.mark.behaviour("WRK-25")
async def test_wake_brings_a_decision_to_the_runner_at_once(agent: CommandScene, monkeypatch: pytest.MonkeyPatch):
    # A sign of life would bring it too, later.
    monkeypatch.setattr(trace_sender, "SIGN_OF_LIFE_S", 3600.0)
    run = agent.runs.add("r1", {"wait": "decide"}, DONE)
    await agent.start("r1")
    await agent.runs.wait_entries(run)
    run.decisions = {"c1": ApprovalDecision(approved=True)}
    await agent.bus.publish(subjects.RUN_WAKE, WakeRun(run_id="r1"), node=NODE)
    assert await agent.runs.end_of("r1") == "done"


async def test_agent_node_takes_no_commands_about_backends(agent: CommandScene):
    with pytest.raises(NodeUnreachable):
        await agent.bus.request(
            subjects.BACKEND_DELETE, BackendCommand(job_id="j", generation=1, backend=BACKEND), node=NODE
        )


async def test_removed_node_ends_its_runs(nats: NatsServer, frontend_bus: NatsBus, scene: RunScene):
    handler = RunCommandHandler(scene.executor, "boot-1")
    bus = await _join(nats, BusRole.AGENT, handler)
    try:
        run = scene.add("r1", WAIT)
        await CommandScene(frontend_bus, scene).start("r1")
        await scene.wait_entries(run)
        await handler.on_removed()
        assert (scene.get_state("r1"), run.outcome) == ("done", None)
    finally:
        await bus.stop()


async def test_backend_node_executes_runs_beside_its_other_jobs(
    nats: NatsServer, frontend_bus: NatsBus, scene: RunScene
):
    clock, rng, disk = SystemClock(), random.Random(1), PretendDisk()
    installer, files, processes = PretendInstaller(disk, clock), PretendFiles(disk, clock), PretendProcesses(clock)
    runner = JobRunner(
        JobRunnerDeps(
            installer=installer,
            files=files,
            processes=processes,
            journal=PretendJournal(disk),
            clock=clock,
            rng=rng,
            boot_id="boot-1",
        )
    )
    control = PretendFrontend(clock)
    handler = BackendCommandHandler(
        CommandHandlerDeps(
            runner=runner,
            backend_reporter=BackendReporter(control, runner.get_inventory, boot_id="boot-1", clock=clock, rng=rng),
            holdings_reporter=HoldingsReporter(control, processes, files, boot_id="boot-1", clock=clock, rng=rng),
            installer=installer,
            files=files,
            processes=processes,
            boot_id="boot-1",
            runs=scene.executor,
        )
    )
    await runner.start()
    bus = await _join(nats, BusRole.WORKER, handler)
    try:
        node = CommandScene(frontend_bus, scene)
        installer.gates.hold(BACKEND, JobPhase.CHECKING)
        install = BackendCommand(job_id="j1", generation=1, backend=BACKEND, build=wire_build(BACKEND, "1"))
        await frontend_bus.request(subjects.BACKEND_INSTALL, install, node=NODE)
        run = scene.add("r1", WAIT)
        await node.start("r1")
        await scene.wait_entries(run)
        await until(lambda: installer.gates.has_reached(BACKEND, JobPhase.CHECKING))
        assert await node.get() == {"j1": "running", "job of r1": "running"}
        assert await node.get("job of r1") == {"job of r1": "running"}
        assert await node.get("j1", "job of r1") == {"j1": "running", "job of r1": "running"}
        assert await node.get("j1") == {"j1": "running"}
        assert await node.cancel("job of r1") is not None
        assert await scene.end_of("r1") == "done"
        assert (await node.get())["j1"] == "running"
        assert await node.cancel("j1") is not None

        async def is_cancelled() -> bool:
            return await node.get("j1") == {"j1": "cancelled"}

        await polling.eventually(is_cancelled)
        other = scene.add("r2", WAIT)
        await node.start("r2")
        await scene.wait_entries(other)
        await handler.on_removed()
        assert scene.get_state("r2") == "done"
    finally:
        await bus.stop()
        await runner.stop()
