"""The bus credential is replaced on a real NATS server while commands come in."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corral.adapters.nats.client import NatsBus
from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.app.settings import WorkerSettings
from corral.app.worker import BUS_KEYS, make_bus_opener
from corral.bus.messages import DescribeNode, WorkerHello
from corral.bus.subjects import NODE_DESCRIBE, NODE_HELLO, BusRole
from corral.ports.bus import Delivery
from corral.worker.identity import WorkerIdentityFile
from corral.worker.membership import Membership, MembershipDeps, WorkerProfile
from tests.bus.nats_server import NatsServer, eventually
from tests.worker.scene import FixedReadings, addresses_of_a_test
from tests.worker.standin import TOKEN, PretendFrontend

LIFE_S = 2


class MintingFrontend(PretendFrontend):
    """Hands out tokens that the server believes, and that it ends when they are over."""

    def __init__(self, server: NatsServer) -> None:
        super().__init__(SystemClock(), approves=True, credential_life_s=LIFE_S)
        self._server = server
        self.bus_url = server.url

    def _mint(self) -> str:
        self.minted += 1
        public_key, node = self.registrations[-1].bus_public_key, self.only_node()
        assert public_key is not None
        return self._server.minter.mint(
            BusRole.WORKER, public_key, subject_id=node.id, name=node.name, ttl_s=LIFE_S, now=self.clock.wall()
        )


@pytest.fixture
async def frontend_bus(nats: NatsServer) -> AsyncIterator[NatsBus]:
    bus = nats.bus(BusRole.FRONTEND, "f1")
    await bus.start()
    await eventually(lambda: bus.is_connected, "the frontend is on the bus")
    yield bus
    await bus.stop()


@pytest.mark.behaviour("OPS-90")
async def test_every_command_is_answered_while_credentials_are_replaced_on_one_connection_after_the_other(
    nats: NatsServer, frontend_bus: NatsBus, tmp_path: Path
):
    greetings: list[WorkerHello] = []

    async def on_hello(hello: Delivery[WorkerHello]) -> None:
        greetings.append(hello.message)

    await frontend_bus.subscribe(NODE_HELLO, on_hello)
    control, clock, rng = MintingFrontend(nats), SystemClock(), random.Random(1)
    file = WorkerIdentityFile(tmp_path, BUS_KEYS)
    ends: list[BaseException | None] = []
    settings = WorkerSettings(join="http://frontend.example", worker_home=tmp_path)

    async def save(identity: object) -> None:
        return None

    around = MembershipDeps(
        control=control,
        open_bus=make_bus_opener(settings, clock, rng, on_crash=ends.append),
        hardware_reader=FixedReadings(),
        find_addresses=addresses_of_a_test,
        save_identity=save,
        new_bus_key=BUS_KEYS.make_key_pair,
        clock=clock,
        rng=rng,
    )
    profile = WorkerProfile(name="gpu-a", version="1", frontend="f", boot_id="boot-0001", token=TOKEN)
    agent = Membership(profile, file.load_or_create(SystemIdGenerator()), around, on_end=ends.append)
    await agent.start()
    try:
        await eventually(lambda: agent.find_not_ready_reason() is None, "the worker is on the bus")
        # The first token has been over for a while when the fourth is in use.
        while control.minted < 4:
            answer = await frontend_bus.request(NODE_DESCRIBE, DescribeNode(), node=str(agent.node_id))
            assert answer.boot_id == "boot-0001"
            assert agent.find_not_ready_reason() is None
            await clock.sleep(0.01)
    finally:
        await agent.stop()
    assert len(greetings) == 1
    assert len(control.registrations) == 1
    assert ends == []
