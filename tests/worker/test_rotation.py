"""The bus credential is replaced on a real NATS server while commands come in."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corral.adapters.nats.client import NatsBus
from corral.adapters.system import SystemClock, SystemIds
from corral.app.settings import WorkerSettings
from corral.app.worker import BUS_KEYS, bus_opener
from corral.bus.messages import Describe, Hello
from corral.bus.subjects import NODE_DESCRIBE, NODE_HELLO, Role
from corral.ports.bus import Delivery
from corral.worker.agent import Agent, Profile, Surroundings
from corral.worker.identity import IdentityFile
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
        public_key, node = self.wishes[-1].bus_public_key, self.only_node()
        assert public_key is not None
        return self._server.minter.mint(
            Role.WORKER, public_key, subject_id=node.id, name=node.name, ttl_s=LIFE_S, now=self.clock.wall()
        )


@pytest.fixture
async def frontend_bus(nats: NatsServer) -> AsyncIterator[NatsBus]:
    bus = nats.bus(Role.FRONTEND, "f1")
    await bus.start()
    await eventually(lambda: bus.is_connected, "the frontend is on the bus")
    yield bus
    await bus.stop()


@pytest.mark.behaviour("OPS-90")
async def test_every_command_is_answered_while_credentials_are_replaced_on_one_connection_after_the_other(
    nats: NatsServer, frontend_bus: NatsBus, tmp_path: Path
):
    greetings: list[Hello] = []

    async def on_hello(hello: Delivery[Hello]) -> None:
        greetings.append(hello.message)

    await frontend_bus.subscribe(NODE_HELLO, on_hello)
    control, clock, rng = MintingFrontend(nats), SystemClock(), random.Random(1)
    file = IdentityFile(tmp_path, BUS_KEYS)
    ends: list[BaseException | None] = []
    settings = WorkerSettings(join="http://frontend.example", worker_home=tmp_path)

    async def save(identity: object) -> None:
        return None

    around = Surroundings(
        control=control,
        open_bus=bus_opener(settings, clock, rng, on_crash=ends.append),
        readings=FixedReadings(),
        addresses=addresses_of_a_test,
        save_identity=save,
        new_bus_key=BUS_KEYS.new,
        clock=clock,
        rng=rng,
    )
    profile = Profile(name="gpu-a", version="1", frontend="f", boot_id="boot-0001", token=TOKEN)
    agent = Agent(profile, file.load_or_create(SystemIds()), around, on_end=ends.append)
    await agent.start()
    try:
        await eventually(lambda: agent.not_ready() is None, "the worker is on the bus")
        # The first token has been over for a while when the fourth is in use.
        while control.minted < 4:
            answer = await frontend_bus.request(NODE_DESCRIBE, Describe(), node=str(agent.node_id))
            assert answer.boot_id == "boot-0001"
            assert agent.not_ready() is None
            await clock.sleep(0.01)
    finally:
        await agent.stop()
    assert len(greetings) == 1
    assert len(control.wishes) == 1
    assert ends == []
