"""A fresh credential is taken into use without anybody noticing."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from corral.adapters.nats.authority import NatsAuthority
from corral.adapters.nats.client import NatsBus
from corral.adapters.nats.credentials import NatsCredential, UserTokenIssuer
from corral.adapters.system import SystemClock
from corral.bus.messages import DescribeNode, NodeDescription, WakeNode
from corral.bus.subjects import NODE_DESCRIBE, NODE_WAKE, BusRole
from corral.domain.errors import NotAuthenticated
from corral.ports.bus import Delivery
from tests.bus.conftest import OpenBus
from tests.bus.nats_server import QUICK, NatsServer, ShiftedClock, eventually

DESCRIPTION = NodeDescription(node_id="n1", boot_id="b1", name="rack", version="1", uptime_s=1)


async def describe(delivery: Delivery[DescribeNode]) -> NodeDescription:
    return DESCRIPTION


@pytest.mark.behaviour("OPS-90")
async def test_messages_are_neither_lost_doubled_nor_reordered_while_credentials_rotate(open_bus: OpenBus) -> None:
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, "n1")
    received: list[str] = []
    rereads: list[str] = []
    is_over = asyncio.Event()

    async def wake(delivery: Delivery[WakeNode]) -> None:
        received.append(delivery.message.reason)
        if delivery.message.reason == "last":
            is_over.set()

    async def reread() -> None:
        rereads.append("again")

    await worker.subscribe(NODE_WAKE, wake, node="n1")
    await worker.subscribe(NODE_DESCRIBE, describe, node="n1")
    worker.on_reconnect(reread)
    sent: list[str] = []
    is_rotated = asyncio.Event()

    async def talk() -> None:
        while not is_rotated.is_set():
            sent.append(str(len(sent)))
            await frontend.publish(NODE_WAKE, WakeNode(reason=sent[-1]), node="n1")
            assert await frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1") == DESCRIPTION

    async with asyncio.TaskGroup() as group:
        group.create_task(talk())
        for _ in range(10):
            await worker.refresh_credential()
            await frontend.refresh_credential()
        is_rotated.set()
    await frontend.publish(NODE_WAKE, WakeNode(reason="last"), node="n1")
    await is_over.wait()
    assert received == [*sent, "last"]
    assert len(sent) > 10
    assert rereads == []


@pytest.mark.behaviour("OPS-90")
async def test_unawaited_burst_keeps_its_order_across_a_rotation(open_bus: OpenBus) -> None:
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, "n1")
    received: list[int] = []
    is_over = asyncio.Event()

    async def wake(delivery: Delivery[WakeNode]) -> None:
        received.append(int(delivery.message.reason))
        if received[-1] == 899:
            is_over.set()

    await worker.subscribe(NODE_WAKE, wake, node="n1")

    async def talk() -> None:
        for number in range(900):
            await frontend.publish(NODE_WAKE, WakeNode(reason=str(number)), node="n1")
            if number % 10 == 0:
                await SystemClock().sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(talk())
        for _ in range(3):
            await worker.refresh_credential()
    await is_over.wait()
    assert received == list(range(900))


@pytest.mark.behaviour("OPS-90")
async def test_handler_that_is_slower_than_the_rotation_still_answers(open_bus: OpenBus) -> None:
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, "n1")
    running, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(delivery: Delivery[DescribeNode]) -> NodeDescription:
        running.set()
        await may_answer.wait()
        return DESCRIPTION

    await worker.subscribe(NODE_DESCRIBE, slow, node="n1")
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1", timeout_s=20))
        await running.wait()
        await worker.refresh_credential()
        await frontend.refresh_credential()
        may_answer.set()
    assert asking.result() == DESCRIPTION


@pytest.mark.behaviour("OPS-90")
async def test_credential_is_replaced_by_itself_before_it_runs_out(server: NatsServer, open_bus: OpenBus) -> None:
    clock = ShiftedClock()
    calls: list[float] = []
    fresh = [server.provider(BusRole.WORKER, "n1", ttl_s=hours * 3600.0) for hours in (1, 24)]

    def provide() -> NatsCredential:
        calls.append(clock.monotonic())
        return fresh[min(len(calls), 2) - 1]()

    rereads: list[str] = []

    async def reread() -> None:
        rereads.append("again")

    worker = NatsBus(server.endpoint("n1"), provide, clock=clock, rng=random.Random(1), timing=QUICK)
    worker.on_reconnect(reread)
    await worker.start()
    subscription = await worker.subscribe(NODE_DESCRIBE, describe, node="n1")
    await eventually(lambda: rereads == ["again"], "the first connect")
    frontend = await open_bus(BusRole.FRONTEND, "f1")
    first = worker._current
    assert first is not None
    assert first.credential.expires_at is not None
    clock.ahead = timedelta(minutes=46)  # three quarters of the hour are over
    await eventually(lambda: worker._current is not first, "the longer one is in use")
    assert worker._current is not None
    assert worker._current.credential.expires_at is not None
    assert worker._current.credential.expires_at > first.credential.expires_at
    assert subscription.is_confirmed
    assert await frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1") == DESCRIPTION
    assert rereads == ["again"]
    await worker.stop()


@pytest.mark.behaviour("OPS-90")
async def test_fresh_credential_that_is_refused_leaves_the_old_connection_in_use(
    server: NatsServer, open_bus: OpenBus
) -> None:
    stranger = UserTokenIssuer(NatsAuthority.create().account_seed)
    bad = stranger.make_provider(BusRole.WORKER, subject_id="n1", name="n1", ttl_s=3600, clock=SystemClock())
    given = [server.provider(BusRole.WORKER, "n1")]

    def provide() -> NatsCredential:
        return given[0]()

    worker = await open_bus(BusRole.WORKER, "n1", credentials=provide)
    frontend = await open_bus(BusRole.FRONTEND, "f1")
    await worker.subscribe(NODE_DESCRIBE, describe, node="n1")
    given[0] = bad
    with pytest.raises(NotAuthenticated):
        await worker.refresh_credential()
    assert await frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1") == DESCRIPTION


async def test_refreshing_without_a_connection_leaves_it_to_the_next_connect(
    server: NatsServer, open_bus: OpenBus
) -> None:
    worker = await open_bus(BusRole.WORKER, "n1")
    subscription = await worker.subscribe(NODE_DESCRIBE, describe, node="n1")
    await server.kill()
    await eventually(lambda: not worker.is_connected, "it has noticed")
    await worker.refresh_credential()
    await server.start()
    await eventually(lambda: subscription.is_confirmed, "it is back")


async def test_rotation_leaves_one_connection_open(server: NatsServer, open_bus: OpenBus) -> None:
    worker = await open_bus(BusRole.WORKER, "n1")
    received: asyncio.Queue[Any] = asyncio.Queue()
    await worker.subscribe(NODE_WAKE, received.put, node="n1")
    with capture_logs() as logs:
        await worker.refresh_credential()
    frontend = await open_bus(BusRole.FRONTEND, "f1")
    await eventually(lambda: worker.is_connected and not worker._retiring_connections, "the old connection is closed")
    await frontend.publish(NODE_WAKE, WakeNode(), node="n1")
    await received.get()
    assert [entry["log_level"] for entry in logs] == ["info"]
