"""One worker and one stand-in frontend in virtual time: an hour of outage takes milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from corral.bus.subjects import BusRole
from corral.worker.address import AdvertisedAddresses
from corral.worker.bus_link import BusGrant, CommandHandler
from corral.worker.identity import WorkerIdentity
from corral.worker.membership import Membership, MembershipDeps, SurvivorReader, WorkerProfile
from tests.simulation.bus import SimBus
from tests.simulation.chance import chance
from tests.simulation.clock import SimClock
from tests.simulation.network import Network
from tests.simulation.run import simulate
from tests.simulation.virtual_loop import VirtualLoop
from tests.worker.standin import TOKEN, PretendFrontend

FRONTEND = "http://frontend.example:8080"
REPORT: Mapping[str, object] = {
    "total_ram": 64 << 30,
    "available_ram": 32 << 30,
    "total_disk": 1 << 40,
    "available_disk": 0,
    "total_vram": None,
    "available_vram": None,
    "gpus": [{"vendor": "nvidia", "name": "L4", "total_vram": 24 << 30, "available_vram": 9 << 30}],
    "capability": "default",
    "cpu_cores": 8,
}


class RecordedBus(SimBus):
    """The simulated bus, which also notes which tokens were taken into use."""

    def __init__(self, scene: Scene, grant: BusGrant, newest: Callable[[], BusGrant]) -> None:
        super().__init__(scene.loop, scene.network, role=BusRole.WORKER, owner_id=grant.node_id)
        self._scene = scene
        self._newest = newest
        scene.tokens_in_use.append(grant.token)

    async def refresh_credential(self) -> None:
        self._scene.tokens_in_use.append(self._newest().token)


class FixedReadings:
    async def read(self) -> Mapping[str, object]:
        return REPORT


async def addresses_of_a_test() -> AdvertisedAddresses:
    return AdvertisedAddresses(address="10.0.0.5:9000", http_address="10.0.0.5:9000")


class Scene:
    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.clock = SimClock(loop)
        self.network = Network(loop, chance(loop.seed, "network"))
        self.frontend_bus = SimBus(loop, self.network, role=BusRole.FRONTEND, owner_id="f1")
        self.frontend = PretendFrontend(self.clock)
        self.identity = WorkerIdentity(credential="cn_" + "x" * 43, bus_seed="SU-seed", bus_public_key="U-public")
        self.saved: list[WorkerIdentity] = []
        self.ends: list[BaseException | None] = []
        self.tokens_in_use: list[str] = []
        self.opened: list[RecordedBus] = []
        self.duties: CommandHandler | None = None
        self.survivors: SurvivorReader | None = None
        self._boots = 0
        self._agents: list[Membership] = []

    def agent(self, **changes: Any) -> Membership:
        """A new process of the worker; `changes` are fields of Profile."""
        self._boots += 1
        values: dict[str, Any] = {
            "name": "gpu-a",
            "version": "1.2.3",
            "frontend": FRONTEND,
            "boot_id": f"boot-000{self._boots}",
            "token": TOKEN,
        }
        around = MembershipDeps(
            control=self.frontend,
            open_bus=self._open_bus,
            hardware_reader=FixedReadings(),
            find_addresses=addresses_of_a_test,
            save_identity=self._save,
            new_bus_key=lambda: (f"SU-{len(self.saved)}", f"U-{len(self.saved)}"),
            clock=self.clock,
            rng=chance(self.loop.seed, f"worker {self._boots}"),
            command_handler=self.duties,
            wait_for_processes=self.survivors.wait_for_processes if self.survivors else None,
        )
        made = Membership(WorkerProfile(**(values | changes)), self.identity, around, on_end=self.ends.append)
        self._agents.append(made)
        return made

    async def started(self, **changes: Any) -> Membership:
        agent = self.agent(**changes)
        await agent.start()
        return agent

    async def member(self, **changes: Any) -> Membership:
        """An approved worker that is on the bus."""
        self.frontend.approves = True
        agent = await self.started(**changes)
        await self.until(lambda: agent.find_not_ready_reason() is None)
        return agent

    async def until(self, is_true: Callable[[], bool], limit_s: float = 7200.0) -> float:
        """Let virtual time pass until this holds; how many seconds that took."""
        began = self.clock.monotonic()
        while not is_true():
            waited_s = self.clock.monotonic() - began
            assert waited_s < limit_s, "it did not become true"
            # Looked at closely at first; an hour is not.
            await self.clock.sleep(0.01 if waited_s < 2 else 0.5)
        return self.clock.monotonic() - began

    async def close(self) -> None:
        for agent in self._agents:
            await agent.stop()
        await self.frontend_bus.stop()

    def _open_bus(self, grant: BusGrant, newest: Callable[[], BusGrant]) -> RecordedBus:
        bus = RecordedBus(self, grant, newest)
        self.opened.append(bus)
        return bus

    async def _save(self, identity: WorkerIdentity) -> None:
        self.saved.append(identity)
        self.identity = identity


def play(story: Callable[[Scene], Awaitable[None]], seed: int = 0) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        scene = Scene(loop)
        await scene.frontend_bus.start()
        try:
            await story(scene)
        finally:
            await asyncio.shield(scene.close())

    simulate(seed, scenario)
