"""A frontend that has lost NATS leaves what needs workers to the peers that have it."""

from __future__ import annotations

import pytest

from corral.operations.dispatcher import OFF_BUS_S
from corral.reconcile.leader import Leader
from corral.store.database import Database
from tests.operations.driving import Driver, driver, submit, workers
from tests.operations.fake_bus import Hub
from tests.operations.scene import asked, read


@pytest.fixture
def hub() -> Hub:
    return Hub()


async def two_frontends(database: Database, hub: Hub) -> tuple[Driver, Driver]:
    """Both have told the registry where they are."""
    made = await driver(database, hub, "frontend-1"), await driver(database, hub, "frontend-2")
    for _ in range(2):
        for each in made:
            await each.presence.tick()
    return made


@pytest.mark.behaviour("FLT-71")
async def test_frontend_off_the_bus_claims_no_operation_while_a_peer_is_on_it(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    cut_off, peer = await two_frontends(database, hub)
    cut_off.bus.unplug()
    operation = await submit(database, asked("solo"))
    assert await cut_off.turn() == 0
    assert (await read(database, operation)).owner is None
    await peer.run()
    assert ((await read(database, operation)).owner, len(worker.commands)) == ("frontend-2", 1)


@pytest.mark.behaviour("FLT-71")
async def test_frontend_off_the_bus_hands_its_operations_over_after_some_seconds(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    cut_off, peer = await two_frontends(database, hub)
    operation = await submit(database, asked("solo"))
    await cut_off.run()
    cut_off.bus.unplug()
    await cut_off.turn()
    assert (await read(database, operation)).owner == "frontend-1", "a reconnect takes less"
    cut_off.clock.ahead += OFF_BUS_S + 1
    await cut_off.turn()
    assert not cut_off.dispatcher.held
    await peer.run()
    await worker.finish()
    await peer.run()
    seen = await read(database, operation)
    assert (seen.state, seen.attempt, len(worker.commands)) == ("completed", 1, 1)


@pytest.mark.behaviour("FLT-71")
async def test_frontends_that_are_all_off_the_bus_go_on_with_what_they_hold(database: Database, hub: Hub) -> None:
    await workers(database, hub, "a")
    first, second = await two_frontends(database, hub)
    for each in (first, second):
        each.bus.unplug()
    for each in (first, second):
        await each.presence.tick()
    await first.presence.tick()
    operation = await submit(database, asked("solo"))
    await first.turn()
    first.clock.ahead += OFF_BUS_S + 1
    await first.turn()
    assert (await read(database, operation)).owner == "frontend-1"


@pytest.mark.behaviour("FLT-71")
async def test_frontend_back_on_the_bus_claims_again(database: Database, hub: Hub) -> None:
    await workers(database, hub, "a")
    cut_off, _ = await two_frontends(database, hub)
    cut_off.bus.unplug()
    operation = await submit(database, asked("solo"))
    await cut_off.turn()
    await cut_off.bus.plug()
    await cut_off.run()
    assert (await read(database, operation)).owner == "frontend-1"


@pytest.mark.behaviour("FLT-71")
async def test_leader_off_the_bus_gives_the_lead_to_a_peer_on_it(database: Database, hub: Hub) -> None:
    cut_off, peer = await two_frontends(database, hub)

    def lead(frontend: Driver, name: str) -> Leader:
        return Leader(database, frontend.clock, name, 15.0, frontend.presence.leaves_to_peers)

    first, second = lead(cut_off, "frontend-1"), lead(peer, "frontend-2")
    await first.tick()
    assert first.is_leader()
    cut_off.bus.unplug()
    await first.tick()
    lease = await second.tick()
    assert (first.is_leader(), second.is_leader()) == (False, True)
    assert lease is not None
    await first.tick()
    assert first.is_led, "it sees that somebody leads"
