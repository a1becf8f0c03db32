"""The simulated bus: it keeps the port's promises, and its faults do what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from corral.bus.messages import DescribeNode, NodeDescription, WakeFrontends, WakeNode, WorkerHello
from corral.bus.subjects import FRONTENDS_WAKE, NODE_DESCRIBE, NODE_HELLO, NODE_WAKE, BusRole
from corral.domain.errors import BusUnavailable, NodeUnreachable, NotAllowed, NotFound
from corral.ports.bus import Bus, Delivery
from tests.simulation.bus import SimBus
from tests.simulation.chance import chance
from tests.simulation.clock import SimClock
from tests.simulation.network import BusFaults, Network
from tests.simulation.run import simulate
from tests.simulation.trace import Trace
from tests.simulation.virtual_loop import VirtualLoop

T = TypeVar("T")
DESCRIPTION = NodeDescription(node_id="n1", boot_id="b", name="one", version="1", uptime_s=1.0)


class World:
    """Holds a frontend `f1` and a worker `n1`, both connected."""

    def __init__(self, loop: VirtualLoop, faults: BusFaults | None) -> None:
        self.clock = SimClock(loop)
        self.trace = Trace(loop)
        self.network = Network(loop, chance(loop.seed, "network"), faults=faults, trace=self.trace)
        self.frontend = SimBus(loop, self.network, role=BusRole.FRONTEND, owner_id="f1")
        self.worker = SimBus(loop, self.network, role=BusRole.WORKER, owner_id="n1")
        self.received: list[str] = []

    async def start(self) -> None:
        for bus in (self.frontend, self.worker):
            is_up = asyncio.Event()
            bus.on_reconnect(_set(is_up))
            await bus.start()
            await is_up.wait()

    async def stop(self) -> None:
        await self.frontend.stop()
        await self.worker.stop()

    async def describe(self, _delivery: Delivery[DescribeNode]) -> NodeDescription:
        self.received.append("describe")
        return DESCRIPTION

    async def wake(self, delivery: Delivery[WakeNode]) -> None:
        self.received.append(delivery.message.reason)

    async def ask(self) -> NodeDescription:
        return await self.frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1")


def _set(event: asyncio.Event) -> Callable[[], Awaitable[None]]:
    async def call() -> None:
        event.set()

    return call


def in_world(seed: int, body: Callable[[World], Awaitable[T]], faults: BusFaults | None = None) -> T:
    async def scenario(loop: VirtualLoop) -> T:
        world = World(loop, faults)
        await world.start()
        result = await body(world)
        await world.stop()
        return result

    return simulate(seed, scenario)


def test_simulated_bus_passes_the_contract_of_the_bus():
    async def body(world: World) -> None:
        bus: Bus = world.frontend
        assert bus.is_connected

    in_world(0, body)


def test_request_is_answered(seed: int):
    async def body(world: World) -> None:
        subscription = await world.worker.subscribe(NODE_DESCRIBE, world.describe, node="n1")
        assert subscription.is_confirmed
        assert await world.ask() == DESCRIPTION

    in_world(seed, body)


def test_request_without_a_subscriber_fails_at_once(seed: int):
    async def body(world: World) -> None:
        with pytest.raises(NodeUnreachable, match="No subscriber listens") as failure:
            await world.ask()
        assert failure.value.slug == "node_unreachable"
        assert world.clock.monotonic() < 1

    in_world(seed, body)


REPEATED = BusFaults(repeat=1.0, late=1.0, late_s=1.0)


def test_repeated_request_that_was_delivered_once_is_not_called_one_without_a_subscriber(seed: int):
    async def body(world: World) -> None:
        async def describe_and_die(delivery: Delivery[DescribeNode]) -> NodeDescription:
            world.worker.unplug()
            return await world.describe(delivery)

        await world.worker.subscribe(NODE_DESCRIBE, describe_and_die, node="n1")
        with pytest.raises(NodeUnreachable) as failure:
            await world.ask()
        assert (world.received, failure.value.slug) == (["describe"], "node_timeout")

    in_world(seed, body, REPEATED)


def test_repeated_request_without_a_subscriber_is_not_delivered_later(seed: int):
    async def body(world: World) -> None:
        with pytest.raises(NodeUnreachable, match="No subscriber listens"):
            await world.ask()
        await world.worker.subscribe(NODE_DESCRIBE, world.describe, node="n1")
        await world.clock.sleep(10.0)
        assert world.received == []

    in_world(seed, body, REPEATED)


def test_request_without_a_reply_fails_after_its_timeout(seed: int):
    async def body(world: World) -> None:
        await world.worker.subscribe(NODE_DESCRIBE, world.describe, node="n1")
        world.network.cut("n1", notice_after_s=None)
        with pytest.raises(NodeUnreachable) as failure:
            await world.ask()
        assert failure.value.slug == "node_timeout"
        assert world.clock.monotonic() >= 2

    in_world(seed, body)


def test_one_way_cut_lets_the_request_through_and_loses_the_answer():
    async def body(world: World) -> None:
        await world.worker.subscribe(NODE_DESCRIBE, world.describe, node="n1")
        world.network.cut("n1", sends=False, hears=True, notice_after_s=None)
        with pytest.raises(NodeUnreachable):
            await world.ask()
        assert world.received == ["describe"]

    in_world(0, body)


def test_handlers_error_reaches_the_caller():
    async def refuse(_delivery: Delivery[DescribeNode]) -> NodeDescription:
        raise NotFound("No such thing here.")

    async def body(world: World) -> None:
        await world.worker.subscribe(NODE_DESCRIBE, refuse, node="n1")
        with pytest.raises(NotFound, match="No such thing here"):
            await world.ask()

    in_world(0, body)


def test_hints_of_one_sender_arrive_in_order(seed: int):
    async def body(world: World) -> None:
        await world.worker.subscribe(NODE_WAKE, world.wake, node="n1")
        for number in range(20):
            await world.frontend.publish(NODE_WAKE, WakeNode(reason=str(number)), node="n1")
        await world.clock.sleep(1)
        assert world.received == [str(number) for number in range(20)]

    in_world(seed, body)


def test_faults_lose_repeat_and_reorder_hints_by_the_seed():
    async def body(world: World) -> tuple[list[str], str]:
        await world.worker.subscribe(NODE_WAKE, world.wake, node="n1")
        for number in range(100):
            await world.frontend.publish(NODE_WAKE, WakeNode(reason=str(number)), node="n1")
        await world.clock.sleep(60)
        return world.received, world.trace.digest()

    faults = BusFaults(lose=0.1, repeat=0.1, reorder=0.3, late=0.2)
    received, digest = in_world(4, body, faults)
    assert set(received) < {str(number) for number in range(100)}
    assert len(set(received)) < len(received)
    assert received != sorted(received, key=int)
    assert in_world(4, body, faults) == (received, digest)
    assert in_world(5, body, faults) != (received, digest)


def test_participant_that_was_cut_off_reads_again_and_hears_again_after_it_is_healed(seed: int):
    async def body(world: World) -> None:
        subscription = await world.worker.subscribe(NODE_WAKE, world.wake, node="n1")
        again = asyncio.Event()
        world.worker.on_reconnect(_set(again))
        world.network.cut("n1", notice_after_s=20)
        await world.frontend.publish(NODE_WAKE, WakeNode(reason="lost"), node="n1")
        await world.clock.sleep(10)
        believed = [subscription.is_confirmed]
        await world.clock.sleep(11)
        believed.append(subscription.is_confirmed)
        assert believed == [True, False]
        with pytest.raises(BusUnavailable):
            await world.worker.publish(NODE_HELLO, WorkerHello(boot_id="b"), node="n1")
        world.network.heal("n1")
        await again.wait()
        await world.frontend.publish(NODE_WAKE, WakeNode(reason="received"), node="n1")
        await world.clock.sleep(1)
        assert world.received == ["received"]

    in_world(seed, body)


def test_simulated_clients_notice_a_server_stop_and_reconnect(seed: int):
    async def body(world: World) -> None:
        await world.worker.subscribe(NODE_DESCRIBE, world.describe, node="n1")
        world.network.stop_server()
        with pytest.raises(BusUnavailable):
            await world.ask()
        world.network.start_server()
        await world.clock.sleep(1)
        assert await world.ask() == DESCRIPTION

    in_world(seed, body)


def test_subject_that_the_registry_does_not_allow_is_refused():
    async def hint(_delivery: Delivery[WakeFrontends]) -> None: ...

    async def body(world: World) -> None:
        with pytest.raises(NotAllowed, match=r"nodes\.n2\.wake"):
            await world.worker.subscribe(NODE_WAKE, world.wake, node="n2")
        with pytest.raises(NotAllowed, match=r"frontends\.wake"):
            await world.worker.subscribe(FRONTENDS_WAKE, hint)
        with pytest.raises(AssertionError, match="may not send"):
            await world.worker.publish(NODE_WAKE, WakeNode(), node="n1")

    in_world(0, body)
