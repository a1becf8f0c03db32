"""The runner under the supervisor of a real worker: both sides of the protocol, as they are shipped."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from corral.adapters.system import SystemClock
from corral.domain.run import RunEventType
from corral.wire.run_work import ApprovalDecision, RunOutcome, RunSpec
from corral.wire.runner_protocol import SERVER_GRACE_VARIABLE, CallMessage, EventMessage, ReplyMessage
from corral.worker.runs.runner_supervisor import RunnerOptions, RunnerSupervisor, clean_runner_environment
from tests.runner.chat_server import ScriptedModel, call, say
from tests.runner.scene import WAIT_S, make_server
from tests.support.polling import eventually
from tests.worker.runs.scene import is_alive


class Listener:
    """Decides and answers at once, and keeps the messages about one run."""

    def __init__(self, supervisor: RunnerSupervisor, run_id: str) -> None:
        self._supervisor = supervisor
        self._run_id = run_id
        self.events: list[EventMessage] = []
        self.outcome: asyncio.Future[RunOutcome] = asyncio.get_running_loop().create_future()

    def on_event(self, event: EventMessage) -> None:
        self.events.append(event)
        if event.event_type is RunEventType.APPROVAL_REQUESTED:
            self._supervisor.decide_call(self._run_id, event.data["call_id"], ApprovalDecision(approved=True))

    def on_call(self, call: CallMessage) -> None:
        if call.method == "flush":
            self._supervisor.reply(self._run_id, ReplyMessage(id=call.id, result={}))
            return
        answer = {"run_id": "r9", "state": "completed", "content": f"about {call.params['message']}"}
        self._supervisor.reply(self._run_id, ReplyMessage(id=call.id, result=answer))

    def on_end(self, outcome: RunOutcome) -> None:
        self.outcome.set_result(outcome)

    def on_lost(self, problem: str) -> None:
        self.outcome.set_exception(AssertionError(problem))


@pytest.fixture
async def supervisor(tmp_path: Path) -> AsyncIterator[RunnerSupervisor]:
    environment = clean_runner_environment(os.environ) | {SERVER_GRACE_VARIABLE: str(WAIT_S)}
    options = RunnerOptions(environment=environment, directory=tmp_path / "runner")
    started = RunnerSupervisor(options, SystemClock(), random.Random(1))
    await started.start()
    yield started
    await started.stop()


async def _run(supervisor: RunnerSupervisor, model: ScriptedModel, run_id: str, **fields: Any) -> Listener:
    spec = RunSpec.model_validate(
        {
            "run_id": run_id,
            "kind": "agent_turn",
            "model": "m",
            "base_urls": [model.url],
            "messages": [{"role": "user", "content": "go"}],
            **fields,
        }
    )
    listener = Listener(supervisor, run_id)
    await supervisor.start_run(run_id, spec, listener)
    return listener


async def test_worker_decides_answers_and_receives_the_end(
    supervisor: RunnerSupervisor, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(call("tools__add", a=1, b=2), call("ask_b", message="it"), say("done"))
    listener = await _run(
        supervisor,
        model,
        "r1",
        mcp_servers=[make_server(tmp_path)],
        tool_rules={"tools__*": "ask"},
        agents=[{"name": "b"}],
    )
    async with asyncio.timeout(WAIT_S):
        outcome = await listener.outcome
    assert (outcome.state, outcome.content) == ("completed", "done")
    assert [message["content"] for message in outcome.messages if message["role"] == "tool"] == ["3", "about it"]
    assert "".join(e.data["text"] for e in listener.events if e.event_type is RunEventType.CONTENT) == "done"


async def test_worker_cancels_a_run_and_stops_the_runner_with_its_servers(
    supervisor: RunnerSupervisor, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(call("tools__wait", name="x"))
    listener = await _run(supervisor, model, "r1", mcp_servers=[make_server(tmp_path)], session_key="k")

    async def has_begun() -> bool:
        return (tmp_path / "began-x").exists()

    await eventually(has_begun)
    assert supervisor.cancel_run("r1")
    async with asyncio.timeout(WAIT_S):
        assert (await listener.outcome).state == "cancelled"
    pid = int((tmp_path / "started").read_text())
    assert psutil.pid_exists(pid)
    await supervisor.stop()

    async def is_gone() -> bool:
        return not psutil.pid_exists(pid)

    await eventually(is_gone)


@pytest.mark.behaviour("WRK-24")
async def test_runner_that_is_killed_leaves_no_process_and_no_folder_of_its_servers(
    supervisor: RunnerSupervisor, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(call("tools__fork", detached=True), call("tools__environment"), call("tools__wait", name="x"))
    listener = await _run(supervisor, model, "r1", mcp_servers=[make_server(tmp_path)])

    async def has_begun() -> bool:
        return (tmp_path / "began-x").exists()

    await eventually(has_begun)
    results = [e.data["content"] for e in listener.events if e.event_type is RunEventType.TOOL_RESULT]
    child, home = int(results[0]), Path(json.loads(results[1])["env"]["HOME"])
    assert psutil.pid_exists(child)
    assert home.exists()
    assert supervisor.pid is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(AssertionError, match="SIGKILL"):
            await listener.outcome
    assert not is_alive(child)
    assert not home.exists()
