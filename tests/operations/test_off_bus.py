"""A frontend that has lost NATS leaves what needs workers to the peers that have it."""

from __future__ import annotations

import pytest

from corral.operations.backend_pool import BackendAdmissionController
from corral.operations.dispatcher import OFF_BUS_S
from corral.reconcile.leader import OFF_BUS_GRACE_S, LeaderElector
from corral.store.database import Database
from tests.nodes.registry import ids
from tests.operations.fake_bus import Hub
from tests.operations.manual_dispatcher import Driver, driver, submit, workers
from tests.operations.scene import make_spec, read
from tests.support.frontends import running_frontend


@pytest.fixture
def hub() -> Hub:
    return Hub()


async def two_frontends(database: Database, hub: Hub) -> tuple[Driver, Driver]:
    """Both frontends have registered their addresses."""
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
    operation = await submit(database, make_spec("solo"))
    assert await cut_off.turn() == 0
    assert (await read(database, operation)).owner is None
    await peer.run()
    assert ((await read(database, operation)).owner, len(worker.commands)) == ("frontend-2", 1)


class _ClaimingAdmission(BackendAdmissionController):
    """Has its frontend drive an operation from the admission on, as operations are for which a caller waits."""

    is_claimed_at_once = True


@pytest.mark.behaviour("FLT-71")
async def test_frontend_off_the_bus_leaves_operations_that_it_admits_itself_to_a_peer(
    database: Database, hub: Hub
) -> None:
    (worker,) = await workers(database, hub, "a")
    cut_off, peer = await two_frontends(database, hub)
    admission = _ClaimingAdmission(database, cut_off.builds, ids)
    admission.claimer = cut_off.dispatcher
    cut_off.bus.unplug()
    left = (await admission.admit(make_spec("solo"), "ann")).operation
    assert (left.owner, cut_off.dispatcher.held) == (None, frozenset())
    await peer.run()
    await worker.finish()
    await peer.run()
    assert (await read(database, left)).state == "completed"
    await cut_off.bus.plug()
    held = (await admission.admit(make_spec("cpu-engine", nodes=("a",)), "ann")).operation
    assert (held.owner, cut_off.dispatcher.held) == ("frontend-1", frozenset({held.id}))


@pytest.mark.behaviour("FLT-71")
async def test_frontend_off_the_bus_hands_its_operations_over_after_some_seconds(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    cut_off, peer = await two_frontends(database, hub)
    operation = await submit(database, make_spec("solo"))
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
    operation = await submit(database, make_spec("solo"))
    await first.turn()
    first.clock.ahead += OFF_BUS_S + 1
    await first.turn()
    assert (await read(database, operation)).owner == "frontend-1"


@pytest.mark.behaviour("FLT-71")
async def test_frontend_back_on_the_bus_claims_again(database: Database, hub: Hub) -> None:
    await workers(database, hub, "a")
    cut_off, _ = await two_frontends(database, hub)
    cut_off.bus.unplug()
    operation = await submit(database, make_spec("solo"))
    await cut_off.turn()
    await cut_off.bus.plug()
    await cut_off.run()
    assert (await read(database, operation)).owner == "frontend-1"


def make_elector(frontend: Driver, name: str) -> LeaderElector:
    return LeaderElector(frontend.database, frontend.clock, name, 15.0, frontend.presence.leaves_to_peers)


@pytest.mark.behaviour("FLT-71")
async def test_leader_off_the_bus_gives_the_lead_to_a_peer_on_it_after_the_grace(database: Database, hub: Hub) -> None:
    cut_off, peer = await two_frontends(database, hub)
    first, second = make_elector(cut_off, "frontend-1"), make_elector(peer, "frontend-2")
    await first.tick()
    assert first.is_leader()
    cut_off.bus.unplug()
    await first.tick()
    cut_off.clock.ahead += OFF_BUS_GRACE_S
    await first.tick()
    lease = await second.tick()
    assert (first.is_leader(), second.is_leader()) == (False, True)
    assert lease is not None
    await first.tick()
    assert first.has_recent_leader, "it sees that somebody leads"


@pytest.mark.behaviour("FLT-71")
async def test_leader_keeps_the_lead_through_short_losses_of_the_bus(database: Database, hub: Hub) -> None:
    """As when NATS is restarted twice; each loss is counted from its own beginning."""
    cut_off, peer = await two_frontends(database, hub)
    first, second = make_elector(cut_off, "frontend-1"), make_elector(peer, "frontend-2")
    lease = await first.tick()
    for _ in range(2):
        cut_off.bus.unplug()
        for _ in range(2):
            kept = await first.tick()
            assert lease is not None
            assert kept is not None
            assert (kept.term, first.is_leader()) == (lease.term, True)
            assert await second.tick() is None
            cut_off.clock.ahead += 0.4 * OFF_BUS_GRACE_S
        await cut_off.bus.plug()
        await first.tick()
    assert first.is_leader()


@pytest.mark.behaviour("FLT-71")
async def test_frontend_off_the_bus_does_not_acquire_the_lead_within_the_grace(database: Database, hub: Hub) -> None:
    cut_off, _ = await two_frontends(database, hub)
    elector = make_elector(cut_off, "frontend-1")
    cut_off.bus.unplug()
    assert await elector.tick() is None
    assert not elector.is_leader()


@pytest.mark.behaviour("FLT-71")
async def test_frontend_off_the_bus_looks_at_its_peers_with_every_pass_of_the_dispatcher(database_url: str) -> None:
    """Else what it knows of them would be older than the three seconds after which it hands over."""
    async with running_frontend(database_url) as cut_off:
        presence, leader, dispatcher = (
            cut_off.core.loops["presence"],
            cut_off.core.loops["leader"],
            cut_off.core.dispatcher,
        )
        for loop in (presence, leader, *dispatcher.loops):
            await loop.stop()
        presence._wake.clear()
        leader._wake.clear()
        await dispatcher.tick()
        assert presence._wake.is_set()
        assert leader._wake.is_set(), "its own interval is longer than the grace after which it gives the lead back"
