"""Outages: the server dies, is not there yet, or does not want this credential."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from corral.adapters.nats.authority import NatsAuthority
from corral.adapters.nats.client import NatsBus
from corral.adapters.nats.credentials import NatsCredential, UserTokenIssuer, make_credential, new_user_key
from corral.adapters.system import SystemClock
from corral.bus.messages import DescribeNode, NodeDescription, WakeFrontends
from corral.bus.subjects import FRONTENDS_WAKE, NODE_DESCRIBE, NODE_WAKE, BusRole
from corral.domain.errors import BusUnavailable, NotAuthenticated
from corral.ports.bus import Delivery
from tests.bus.conftest import OpenBus, OpenConnection
from tests.bus.nats_server import QUICK, NatsServer, ShiftedClock, eventually

DESCRIPTION = NodeDescription(node_id="n1", boot_id="b1", name="rack", version="1", uptime_s=1)


async def describe(delivery: Delivery[DescribeNode]) -> NodeDescription:
    return DESCRIPTION


class CallCounter:
    """A callback that counts its runs."""

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self) -> None:
        self.runs += 1


async def test_bus_client_reconnects_and_reads_the_state_again_after_nats_was_killed(
    server: NatsServer, open_bus: OpenBus
) -> None:
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, "n1")
    rereads = [CallCounter(), CallCounter()]
    subscription = await worker.subscribe(NODE_DESCRIBE, describe, node="n1")
    for reread in rereads:
        worker.on_reconnect(reread)
    for outage in (1, 2):
        await server.kill()
        await eventually(lambda: not worker.is_connected and not frontend.is_connected, "both have noticed")
        assert not subscription.is_confirmed
        await server.start()
        await eventually(lambda: subscription.is_confirmed and frontend.is_connected, "both are back")
        assert await frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1") == DESCRIPTION
        await eventually(lambda n=outage: all(reread.runs >= n for reread in rereads), "callbacks ran")  # type: ignore[misc]


async def test_failing_callback_does_not_keep_the_others_from_running(server: NatsServer) -> None:
    worker = server.bus(BusRole.WORKER, "n1")
    counted = CallCounter()

    async def fail() -> None:
        raise ValueError("no registry")

    worker.on_reconnect(fail)
    worker.on_reconnect(counted)
    await worker.start()
    await eventually(lambda: counted.runs == 1, "the second callback ran")
    await worker.stop()


async def test_client_may_start_before_the_server_and_loses_no_subscription(tmp_path: Path) -> None:
    async with NatsServer(tmp_path, is_started=False) as server:
        tried: list[str] = []
        mint = server.provider(BusRole.WORKER, "n1")

        def provide() -> NatsCredential:
            tried.append("once more")
            return mint()

        frontend, worker = server.bus(BusRole.FRONTEND, "f1"), server.bus(BusRole.WORKER, "n1", credentials=provide)
        first = CallCounter()
        worker.on_reconnect(first)
        with capture_logs() as logs:
            await worker.start()
            await frontend.start()
            subscription = await worker.subscribe(NODE_DESCRIBE, describe, node="n1")
            assert not worker.is_connected
            assert not subscription.is_confirmed
            await eventually(lambda: len(tried) > 3, "it has tried several times")
            await eventually(lambda: len(logs) == 2, "and each client has said so once")
        assert first.runs == 0
        await server.start()
        await eventually(lambda: subscription.is_confirmed and frontend.is_connected, "both have connected")
        assert await frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1") == DESCRIPTION
        await eventually(lambda: first.runs == 1, "the callback ran for the first connect")
        await worker.stop()
        await frontend.stop()


async def test_subscription_that_is_refused_at_a_later_connect_does_not_keep_the_others_away(tmp_path: Path) -> None:
    async with NatsServer(tmp_path, is_started=False) as server:
        worker = server.bus(BusRole.WORKER, "n1")
        await worker.start()

        async def wake(delivery: Delivery[Any]) -> None:
            return

        foreign = await worker.subscribe(NODE_WAKE, wake, node="n2")
        own = await worker.subscribe(NODE_WAKE, wake, node="n1")
        with capture_logs() as logs:
            await server.start()
            await eventually(lambda: own.is_confirmed, "the allowed one is there")
        assert not foreign.is_confirmed
        assert [entry["subject"] for entry in logs if entry["event"] == "subscription refused"] == ["nodes.n2.wake"]
        await worker.stop()


async def test_request_under_way_fails_at_once_when_the_connection_ends(server: NatsServer, open_bus: OpenBus) -> None:
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, "n1")
    received, never = asyncio.Event(), asyncio.Event()

    async def hang(delivery: Delivery[DescribeNode]) -> NodeDescription:
        received.set()
        await never.wait()
        return DESCRIPTION

    subscription = await worker.subscribe(NODE_DESCRIBE, hang, node="n1")

    async def ask() -> None:
        with pytest.raises(BusUnavailable):
            await frontend.request(NODE_DESCRIBE, DescribeNode(), node="n1", timeout_s=3600)

    async with asyncio.TaskGroup() as group:
        group.create_task(ask())
        await received.wait()
        await server.kill()
    never.set()
    await subscription.cancel()


def minted(minter: UserTokenIssuer, *, age_s: float = 0.0, ttl_s: float = 3600.0) -> NatsCredential:
    seed, public = new_user_key()
    then = SystemClock().wall() - timedelta(seconds=age_s)
    token = minter.mint(BusRole.FRONTEND, public, subject_id="f1", name="f1", ttl_s=ttl_s, now=then)
    return make_credential(token, seed, subject_id="f1")


@pytest.mark.behaviour("BUS-13")
async def test_credential_that_has_run_out_is_refused(server: NatsServer, open_connection: OpenConnection) -> None:
    with pytest.raises(NotAuthenticated, match=str(server.port)):
        await open_connection(minted(server.minter, age_s=60, ttl_s=30))


@pytest.mark.behaviour("BUS-13")
async def test_credential_of_another_account_is_refused(server: NatsServer, open_connection: OpenConnection) -> None:
    stranger = UserTokenIssuer(NatsAuthority.create().account_seed)
    with pytest.raises(NotAuthenticated):
        await open_connection(minted(stranger))


@pytest.mark.behaviour("BUS-13")
async def test_token_is_of_no_use_without_the_key_that_it_was_minted_for(
    server: NatsServer, open_connection: OpenConnection
) -> None:
    theirs = minted(server.minter)
    thief_seed, _ = new_user_key()
    object.__setattr__(theirs, "seed", thief_seed)
    with pytest.raises(NotAuthenticated):
        await open_connection(theirs)


@pytest.mark.behaviour("BUS-13")
async def test_client_whose_credential_ran_out_comes_back_with_the_next_one(server: NatsServer) -> None:
    slow = ShiftedClock()
    slow.ahead = -timedelta(days=1)  # so that it does not think of rotating in time

    def provide() -> NatsCredential:
        return minted(server.minter, ttl_s=2)

    bus = NatsBus(server.endpoint("f1"), provide, clock=slow, rng=random.Random(1), timing=QUICK)
    connects = CallCounter()
    received: asyncio.Queue[Any] = asyncio.Queue()
    bus.on_reconnect(connects)
    await bus.start()
    subscription = await bus.subscribe(FRONTENDS_WAKE, received.put)
    with capture_logs() as logs:
        await eventually(lambda: connects.runs >= 2, "the server ended the connection and the next credential is used")
    assert "expired" in str(logs)
    await eventually(lambda: subscription.is_confirmed, "the subscription is back")
    await bus.publish(FRONTENDS_WAKE, WakeFrontends())
    await received.get()
    await bus.stop()


async def test_client_can_be_stopped_at_any_moment_of_its_attempts_to_connect(tmp_path: Path) -> None:
    async with NatsServer(tmp_path, is_started=False) as server:
        for turns in range(30):
            bus = server.bus(BusRole.FRONTEND, "f1")
            await bus.start()
            for _ in range(turns):
                await SystemClock().sleep(0)
            async with asyncio.timeout(20):
                await bus.stop()


async def test_bus_retries_a_credential_provider_that_has_no_credential_yet(server: NatsServer) -> None:
    given: list[NatsCredential] = []

    def provide() -> NatsCredential:
        if not given:
            raise NotAuthenticated("This node is not approved yet.")
        return given[0]

    bus = server.bus(BusRole.FRONTEND, "f1", credentials=provide)
    with capture_logs() as logs:
        await bus.start()
        await eventually(lambda: bool(logs), "the provider was called once")
    given.append(minted(server.minter))
    await eventually(lambda: bus.is_connected, "it is connected")
    assert "not approved yet" in str(logs)
    await bus.stop()
