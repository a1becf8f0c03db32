"""The client against a real server: requests, hints, order, errors."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from corral.adapters.nats import client as subscription_module
from corral.adapters.nats.client import NatsBus
from corral.bus.codec import MAX_MESSAGE_BYTES, BadMessage
from corral.bus.messages import (
    DescribeNode,
    NodeDescription,
    StopNode,
    StopNodeReply,
    WakeFrontends,
    WakeNode,
    WorkerHello,
)
from corral.bus.subjects import (
    FRONTENDS_WAKE,
    NODE_DESCRIBE,
    NODE_HELLO,
    NODE_STOP,
    NODE_WAKE,
    BusRole,
)
from corral.domain.errors import (
    BusUnavailable,
    Conflict,
    CorralError,
    NodeUnreachable,
    TooLarge,
)
from corral.ports.bus import Bus, Delivery, Subscription
from tests.bus.conftest import OpenBus, OpenConnection
from tests.bus.nats_server import NatsServer, eventually

DESCRIPTION = NodeDescription(
    node_id="n1", boot_id="b1", name="rack", version="1", uptime_s=3.5, hardware={"gpus": [{"vram_bytes": 1}]}
)


async def describe(delivery: Delivery[DescribeNode]) -> NodeDescription:
    return DESCRIPTION


async def test_frontend_asks_a_worker_and_gets_its_typed_answer(open_bus: OpenBus) -> None:
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, "n1")
    await worker.subscribe(NODE_DESCRIBE, describe, node="n1")
    assert await frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1") == DESCRIPTION


async def test_handler_learns_which_node_has_spoken(open_bus: OpenBus) -> None:
    frontend = await open_bus(BusRole.FRONTEND, "f1")
    deliveries: asyncio.Queue[Delivery[WorkerHello]] = asyncio.Queue()
    await frontend.subscribe(NODE_HELLO, deliveries.put)
    for node in ("n1", "n2"):
        worker = await open_bus(BusRole.WORKER, node)
        await worker.publish(NODE_HELLO, WorkerHello(boot_id=f"boot of {node}"), node=node)
        delivery = await deliveries.get()
        assert (delivery.node, delivery.message.boot_id) == (node, f"boot of {node}")


async def test_wake_message_reaches_every_frontend(open_bus: OpenBus) -> None:
    one, other = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.FRONTEND, "f2")
    received: asyncio.Queue[str] = asyncio.Queue()
    for name, bus in (("f1", one), ("f2", other)):

        async def hear(delivery: Delivery[WakeFrontends], name: str = name) -> None:
            await received.put(name)

        await bus.subscribe(FRONTENDS_WAKE, hear)
    await one.publish(FRONTENDS_WAKE, WakeFrontends())
    assert {await received.get(), await received.get()} == {"f1", "f2"}


async def test_request_to_a_node_that_is_not_there_fails_at_once(open_bus: OpenBus) -> None:
    frontend = await open_bus(BusRole.FRONTEND, "f1")
    with pytest.raises(NodeUnreachable, match=r"nodes\.gone\.describe") as caught:
        await frontend.request(NODE_DESCRIBE, DescribeNode(), node="gone", timeout_s=3600)
    assert caught.value.slug == "node_unreachable"


async def test_bus_request_times_out_with_its_own_code_when_a_connected_node_does_not_answer(open_bus: OpenBus) -> None:
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, "n1")
    may_answer = asyncio.Event()

    async def hang(delivery: Delivery[DescribeNode]) -> NodeDescription:
        await may_answer.wait()
        return DESCRIPTION

    await worker.subscribe(NODE_DESCRIBE, hang, node="n1")
    with pytest.raises(NodeUnreachable) as caught:
        await frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1", timeout_s=0.05)
    assert caught.value.slug == "node_timeout"
    may_answer.set()


async def test_failing_handler_answers_with_its_error_and_goes_on(open_bus: OpenBus) -> None:
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, "n1")
    failures: list[Exception] = [Conflict("The worker is stopping already."), ZeroDivisionError("secret detail")]

    async def stop(delivery: Delivery[StopNode]) -> StopNodeReply:
        if failures:
            raise failures.pop(0)
        return StopNodeReply(accepted=True, boot_id="b1")

    await worker.subscribe(NODE_STOP, stop, node="n1")
    with pytest.raises(Conflict, match="stopping already"):
        await frontend.request(NODE_STOP, StopNode(), node="n1")
    with pytest.raises(CorralError, match="ZeroDivisionError") as caught:
        await frontend.request(NODE_STOP, StopNode(), node="n1")
    assert caught.value.slug == "internal"
    assert "secret detail" not in caught.value.message
    assert (await frontend.request(NODE_STOP, StopNode(), node="n1")).accepted


async def test_slow_handler_neither_reorders_nor_holds_up_other_subscriptions(open_bus: OpenBus) -> None:
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, "n1")
    may_go = asyncio.Event()
    handled: list[str] = []
    done = asyncio.Event()

    async def wake(delivery: Delivery[WakeNode]) -> None:
        if delivery.message.reason == "0":
            await may_go.wait()
        handled.append(delivery.message.reason)
        if len(handled) == 100:
            done.set()

    await worker.subscribe(NODE_WAKE, wake, node="n1")
    await worker.subscribe(NODE_DESCRIBE, describe, node="n1")
    for number in range(100):
        await frontend.publish(NODE_WAKE, WakeNode(reason=str(number)), node="n1")
    # The other subscription answers while the first is stuck in its first message.
    assert await frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1") == DESCRIPTION
    assert handled == []
    may_go.set()
    await done.wait()
    assert handled == [str(number) for number in range(100)]


async def test_flood_of_events_is_bounded_and_makes_all_watchers_read_the_state_again(
    open_bus: OpenBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription_module, "MAX_PENDING_MESSAGES", 10)
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, "n1")
    reread, may_go, last = asyncio.Event(), asyncio.Event(), asyncio.Event()
    handled: list[str] = []

    async def read_again() -> None:
        reread.set()

    async def wake(delivery: Delivery[WakeNode]) -> None:
        await may_go.wait()
        handled.append(delivery.message.reason)
        if delivery.message.reason == "last":
            last.set()

    worker.on_reconnect(read_again)
    await worker.subscribe(NODE_WAKE, wake, node="n1")
    await worker.subscribe(NODE_DESCRIBE, describe, node="n1")
    reread.clear()
    for number in range(50):
        await frontend.publish(NODE_WAKE, WakeNode(reason=str(number)), node="n1")
    # Its answer comes when the worker has received all that was sent before.
    await frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1")
    await reread.wait()
    may_go.set()
    await eventually(lambda: len(handled) >= 10, "the queue was worked off")
    await frontend.publish(NODE_WAKE, WakeNode(reason="last"), node="n1")
    await last.wait()
    assert len(handled) < 20
    numbers = [int(reason) for reason in handled[:-1]]
    assert numbers[:10] == list(range(10))
    # When the handler took its first one decides which of the later ones found room; never their order.
    assert numbers == sorted(set(numbers))


async def test_message_that_cannot_be_read_is_skipped(
    open_bus: OpenBus, open_connection: OpenConnection, server: NatsServer
) -> None:
    worker = await open_bus(BusRole.WORKER, "n1")
    deliveries: asyncio.Queue[Delivery[WakeNode]] = asyncio.Queue()
    await worker.subscribe(NODE_WAKE, deliveries.put, node="n1")
    raw = await open_connection(server.provider(BusRole.FRONTEND, "raw")())
    for data in (b"", b"not json", b"[]", b'{"reason": 5}', b'{"reason": "read", "added_later": true}'):
        await raw.publish("nodes.n1.wake", data)
    assert (await deliveries.get()).message == WakeNode(reason="read")
    assert deliveries.empty()


async def test_reply_that_cannot_be_read_names_the_subject(
    open_bus: OpenBus, open_connection: OpenConnection, server: NatsServer
) -> None:
    frontend = await open_bus(BusRole.FRONTEND, "f1")
    raw = await open_connection(server.provider(BusRole.WORKER, "n1")())
    replies: asyncio.Queue[str] = asyncio.Queue()
    await raw.subscribe("nodes.n1.describe", lambda message: replies.put_nowait(message.reply))
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(_error_of(frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1")))
        await raw.publish(await replies.get(), b'{"node_id": "n1"}')
    assert isinstance(asking.result(), BadMessage)
    assert "nodes.n1.describe" in str(asking.result())
    assert "boot_id" in str(asking.result())


async def test_message_that_is_too_large_fails_at_its_sender_and_the_connection_stays(open_bus: OpenBus) -> None:
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, "n1")
    deliveries: asyncio.Queue[Delivery[WakeNode]] = asyncio.Queue()
    await worker.subscribe(NODE_WAKE, deliveries.put, node="n1")
    fits = "x" * (MAX_MESSAGE_BYTES - len('{"reason":""}'))
    with pytest.raises(TooLarge, match=r"nodes\.n1\.wake"):
        await frontend.publish(NODE_WAKE, WakeNode(reason=fits + "x"), node="n1")
    await frontend.publish(NODE_WAKE, WakeNode(reason=fits), node="n1")
    assert len((await deliveries.get()).message.reason) == len(fits)
    assert frontend.is_connected


async def test_answer_that_is_too_large_comes_back_as_an_error(open_bus: OpenBus) -> None:
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, "n1")

    async def stop(delivery: Delivery[StopNode]) -> StopNodeReply:
        return StopNodeReply(accepted=True, boot_id="x" * MAX_MESSAGE_BYTES)

    await worker.subscribe(NODE_STOP, stop, node="n1")
    with pytest.raises(TooLarge):
        await frontend.request(NODE_STOP, StopNode(), node="n1")


async def test_cancelled_subscription_receives_no_more_messages(open_bus: OpenBus) -> None:
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, "n1")
    subscription = await worker.subscribe(NODE_DESCRIBE, describe, node="n1")
    await frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1")
    await subscription.cancel()
    await worker.subscribe(NODE_WAKE, _nothing, node="n1")  # a round trip: the server knows by now
    with pytest.raises(NodeUnreachable):
        await frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1")


async def test_handler_may_cancel_its_own_subscription(open_bus: OpenBus) -> None:
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, "n1")
    subscriptions: list[Subscription] = []

    async def once(delivery: Delivery[DescribeNode]) -> NodeDescription:
        await subscriptions[0].cancel()
        return DESCRIPTION

    subscriptions.append(await worker.subscribe(NODE_DESCRIBE, once, node="n1"))
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1", timeout_s=20))
        for _ in range(3):
            await worker.refresh_credential()
    assert asking.result() == DESCRIPTION
    with pytest.raises(NodeUnreachable):
        await frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1")


async def test_stopping_lets_a_running_handler_answer(server: NatsServer, open_bus: OpenBus) -> None:
    frontend = await open_bus(BusRole.FRONTEND, "f1")
    worker = server.bus(BusRole.WORKER, "n1")
    running, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(delivery: Delivery[DescribeNode]) -> NodeDescription:
        running.set()
        await may_answer.wait()
        return DESCRIPTION

    await worker.start()
    await worker.subscribe(NODE_DESCRIBE, slow, node="n1")
    await eventually(lambda: worker.is_connected, "the worker is connected")
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1"))
        await running.wait()
        stopping = group.create_task(worker.stop())
        await eventually(lambda: not worker.is_connected, "the worker is stopping")
        assert not stopping.done()
        may_answer.set()
    assert asking.result() == DESCRIPTION


async def test_request_without_a_connection_raises_unavailable(tmp_path: Path) -> None:
    async with NatsServer(tmp_path, is_started=False) as server:
        bus = server.bus(BusRole.FRONTEND, "f1")
        await bus.start()
        try:
            with pytest.raises(BusUnavailable, match=str(server.port)):
                await bus.request(NODE_DESCRIBE, DescribeNode(), node="n1")
            with pytest.raises(BusUnavailable):
                await bus.publish(FRONTENDS_WAKE, WakeFrontends())
        finally:
            await bus.stop()


def _as_the_port(bus: NatsBus) -> Bus:
    # The type checker holds the client to the port.
    return bus


async def _nothing(delivery: Delivery[WakeNode]) -> None:
    return


async def _error_of(work: object) -> Exception | None:
    try:
        await work  # type: ignore[misc]  # any awaitable
    except CorralError as error:
        return error
    return None
