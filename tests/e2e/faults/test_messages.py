"""What the bus may do to messages: lose an answer, repeat events, and bring them in another order."""

from __future__ import annotations

import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.adapters.nats.client import NatsBus
from corral.bus.messages import JobEvent
from corral.bus.subjects import JOB_EVENT, BusRole
from corral.domain.operation import JobPhase, JobState
from corral.ports.bus import Delivery
from tests.e2e.faults.scene import MIB, Scene, scene_of
from tests.support.polling import eventually
from tests.worker.backends.server import trickle

# Leases of 30 s run out in here, and the machine may have other work.
pytestmark = pytest.mark.timeout(240)

PHASES = [str(phase) for phase in JobPhase]


async def test_command_whose_answer_is_lost_is_one_job_and_no_attempt(tmp_path: Path) -> None:
    async with scene_of(tmp_path, "worker-1") as scene:
        scene.offer("engine")
        worker = scene.cluster.workers["worker-1"]
        worker.send(signal.SIGSTOP)
        # The command is delivered, and nobody answers within the two seconds that there are.
        key = await scene.ask("engine", "worker-1")
        unconfirmed = await eventually(lambda: _target_is(scene, key, "unconfirmed"), within_s=60)
        assert unconfirmed["nodes"][0]["attempt"] == 0
        worker.send(signal.SIGCONT)
        done = await scene.becomes(key, "completed")
        (was,), (now,) = unconfirmed["nodes"], done["nodes"]
        assert (now["job_id"], now["attempt"], now["state"]) == (was["job_id"], 0, "success")
        assert (scene.accepted("worker-1"), scene.fetched("engine")) == (1, [None])
        await scene.shows_installed("worker-1", "engine")


async def _target_is(scene: Scene, key: str, state: str) -> Any:
    found = await scene.operation(key)
    return found if [node["state"] for node in found["nodes"]] == [state] else None


class Echo:
    """Receives what a worker publishes, and publishes it again with the worker's own permissions."""

    def __init__(self, ear: NatsBus, mouth: NatsBus, node: str) -> None:
        self._ear = ear
        self._mouth = mouth
        self._node = node
        self._rng = random.Random(7)
        self.received: dict[tuple[str, int], JobEvent] = {}

    async def listen(self) -> None:
        await self._ear.subscribe(JOB_EVENT, self._take, node=self._node)

    async def _take(self, delivery: Delivery[JobEvent]) -> None:
        event = delivery.message
        self.received.setdefault((event.job_id, event.seq), event)

    async def repeat(self) -> None:
        """Publish every message so far twice, in a random order."""
        again = [*self.received.values()] * 2
        self._rng.shuffle(again)
        for event in again:
            await self._mouth.publish(JOB_EVENT, event, node=self._node)


@asynccontextmanager
async def _echo(scene: Scene, name: str) -> AsyncIterator[Echo]:
    node = (await scene.cluster.frontends[0].node(name))["id"]
    nats = scene.cluster.nats
    ear, mouth = nats.bus(BusRole.FRONTEND, "the test's ear"), nats.bus(BusRole.WORKER, node)
    await ear.start()
    await mouth.start()
    try:
        await eventually(lambda: _connected(ear, mouth))
        echo = Echo(ear, mouth, node)
        await echo.listen()
        yield echo
    finally:
        await mouth.stop()
        await ear.stop()


async def _connected(*buses: NatsBus) -> bool:
    return all(bus.is_connected for bus in buses)


async def test_events_that_come_twice_and_in_another_order_move_nothing_back(tmp_path: Path) -> None:
    async with scene_of(tmp_path, "worker-1") as scene, _echo(scene, "worker-1") as echo:
        scene.offer("engine", size=MIB).faults = [trickle(20, 0.2)]
        key = await scene.ask("engine", "worker-1")
        shown: list[tuple[float, int]] = []

        async def is_done() -> bool:
            await echo.repeat()
            for frontend in scene.cluster.frontends:
                found = await scene.operation(key, frontend)
                for target in found["nodes"]:
                    assert target["state"] in ("queued", "working", "success")
                    step = PHASES.index(target.get("phase") or "queued")
                    shown.append((target["percentage"], step))
            return bool(found["state"] == "completed")

        await eventually(is_done, within_s=60)
        for one_of in range(2):
            assert [seen[one_of] for seen in shown] == sorted(seen[one_of] for seen in shown)
        # So it was a bar that had something to go back to.
        assert len({percent for percent, _ in shown if 0 < percent < 100}) > 3
        assert (scene.accepted("worker-1"), scene.fetched("engine")) == (1, [None])
        await _assert_nothing_changes(scene, echo, await scene.becomes(key, "completed"))


async def _assert_nothing_changes(scene: Scene, echo: Echo, done: Any) -> None:
    """Repeat all messages after the end; a later operation shows that they were received."""
    last = max(echo.received.values(), key=lambda event: event.seq)
    assert last.state == JobState.DONE
    await echo.repeat()
    scene.offer("other")
    await scene.becomes(await scene.ask("other", "worker-1"), "completed")
    await echo.repeat()
    assert await scene.operation(done["id"]) == done
