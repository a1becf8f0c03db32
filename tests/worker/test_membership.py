"""Membership in virtual time: what the worker does while frontends and bus come and go."""

from __future__ import annotations

import itertools

import pytest
from structlog.testing import capture_logs

from corral.bus.messages import DescribeNode, RunningProcess, StopNode, WakeNode, WorkerHello
from corral.bus.subjects import NODE_DESCRIBE, NODE_HELLO, NODE_STOP, NODE_WAKE
from corral.domain.errors import CorralError, InvalidRequest, NameTaken, NotAuthenticated, Unavailable
from corral.domain.node import NodeType
from corral.ports.bus import Delivery
from corral.worker.membership import EAGER_ATTEMPTS, WAIT_S, SurvivorReader
from tests.worker.scene import Scene, play
from tests.worker.standin import INTERVAL_S

SEEDS = range(4)
HOUR_S = 3600.0


@pytest.mark.parametrize("seed", SEEDS)
def test_lost_answer_to_the_first_registration_ends_in_one_node(seed: int):
    async def story(scene: Scene) -> None:
        scene.frontend.answers_to_lose = 2
        # A token that can be used once: the second call must be recognised by the credential.
        agent = scene.agent()
        await agent.start()
        await scene.until(lambda: bool(scene.frontend.nodes))
        scene.frontend.tokens.clear()
        await scene.until(lambda: agent.node_id is not None)
        assert agent.node_id == scene.frontend.only_node().id
        assert len(scene.frontend.registrations) == 3
        assert (
            len({(registration.credential, registration.boot_id) for registration in scene.frontend.registrations}) == 1
        )

    play(story, seed)


@pytest.mark.behaviour("WRK-4")
def test_taken_name_ends_the_worker_with_the_hint():
    async def story(scene: Scene) -> None:
        scene.frontend.refusals["register"] = [NameTaken("Another machine is gpu-a.", hint="Choose another --name.")]
        await scene.started()
        await scene.until(lambda: bool(scene.ends))
        (error,) = scene.ends
        assert isinstance(error, NameTaken)
        assert error.hint == "Choose another --name."
        await scene.clock.sleep(HOUR_S)
        assert len(scene.frontend.times("register")) == 1

    play(story)


@pytest.mark.behaviour("WRK-4")
@pytest.mark.parametrize("error", [InvalidRequest("labels: wrong."), NotAuthenticated("This join token has expired.")])
def test_permanent_refusal_ends_the_first_registration(error: CorralError):
    async def story(scene: Scene) -> None:
        scene.frontend.refusals["register"] = [error]
        await scene.started()
        await scene.until(lambda: bool(scene.ends))
        assert scene.ends == [error]

    play(story)


@pytest.mark.behaviour("WRK-6")
@pytest.mark.parametrize("seed", SEEDS)
def test_absent_frontend_is_retried_with_growing_pauses(seed: int):
    async def story(scene: Scene) -> None:
        scene.frontend.is_away = True
        with capture_logs() as lines:
            agent = await scene.started()
            await scene.clock.sleep(6 * HOUR_S)
        times = scene.frontend.times("register")
        pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert all(pause < 0.5 for pause in pauses[: EAGER_ATTEMPTS - 1])
        assert all(15 < pause < 45 for pause in pauses[EAGER_ATTEMPTS + 6 :])
        assert len([line for line in lines if "does not respond" in str(line.get("problem"))]) == 1
        assert agent.find_not_ready_reason() == "not registered: The frontend does not respond."
        scene.frontend.is_away = False
        await scene.until(lambda: agent.node_id is not None, 60)
        assert not scene.ends

    play(story, seed)


@pytest.mark.behaviour("WRK-5")
@pytest.mark.parametrize("seed", SEEDS)
def test_pending_worker_is_off_the_bus_and_joins_within_one_heartbeat_of_approval(seed: int):
    async def story(scene: Scene) -> None:
        with capture_logs() as lines:
            agent = await scene.started()
            await scene.clock.sleep(HOUR_S)
        node = scene.frontend.only_node()
        assert not scene.opened
        assert scene.frontend.minted == 0
        assert all(beat.bus_ok is False for beat in node.beats)
        assert len(node.beats) > 300
        waiting = [line for line in lines if line["event"] == "waiting for approval: corral nodes approve gpu-a"]
        assert len(waiting) == 1
        assert agent.find_not_ready_reason() == waiting[0]["event"]
        node.is_approved = True
        took_s = await scene.until(lambda: agent.find_not_ready_reason() is None)
        assert took_s < INTERVAL_S * 1.1 + 1
        await scene.until(lambda: node.beats[-1].bus_ok is True, 1)

    play(story, seed)


@pytest.mark.behaviour("OPS-67")
@pytest.mark.parametrize("seed", SEEDS)
def test_removed_node_registers_again_and_leaves_the_bus(seed: int):
    async def story(scene: Scene) -> None:
        agent = await scene.member()
        first = scene.frontend.only_node()
        scene.frontend.approves = False
        scene.frontend.remove(first)
        await scene.until(lambda: bool(scene.frontend.nodes), 3 * INTERVAL_S)
        second = scene.frontend.only_node()
        assert second.id != first.id
        assert second.credential == first.credential
        await scene.until(lambda: agent.node_id == second.id, 1)
        assert not agent.link.is_connected
        assert scene.saved[-1].node_id == second.id
        # The removed node's key stays refused on the bus for a while.
        assert scene.saved[-1].bus_public_key != scene.saved[0].bus_public_key

    play(story, seed)


def test_removed_node_without_a_valid_token_waits_for_one_and_says_so_once():
    async def story(scene: Scene) -> None:
        agent = await scene.member()
        tokens, scene.frontend.tokens = scene.frontend.tokens, set()
        scene.frontend.remove(scene.frontend.only_node())
        with capture_logs() as lines:
            await scene.clock.sleep(HOUR_S)
        logged = [line for line in lines if line.get("problem") == "This join token is not known here."]
        assert [line["hint"] for line in logged] == ["Make another."]
        assert not scene.ends
        # Whoever has no place has no business on the bus.
        assert (agent.node_id, agent.link.is_connected) == (None, False)
        scene.frontend.tokens = tokens
        await scene.until(lambda: agent.find_not_ready_reason() is None, 60)

    play(story)


def test_newer_process_ends_the_older_one_which_says_no_goodbye():
    async def story(scene: Scene) -> None:
        older = await scene.member()
        await scene.member()
        await scene.until(lambda: bool(scene.ends))
        (error,) = scene.ends
        assert isinstance(error, CorralError)
        assert error.slug == "boot_superseded"
        await older.stop()
        assert not scene.frontend.times("deregister")
        assert not scene.frontend.only_node().has_left

    play(story)


def test_heartbeat_refused_by_credential_leads_to_a_new_registration():
    async def story(scene: Scene) -> None:
        agent = await scene.member()
        scene.frontend.refusals["heartbeat"] = [NotAuthenticated("That is not the credential of this node.")]
        agent.wake()
        await scene.until(lambda: len(scene.frontend.registrations) == 2)
        await scene.until(lambda: agent.find_not_ready_reason() is None)
        assert not scene.ends

    play(story)


def test_frontend_that_takes_registrations_and_no_heartbeats_is_not_hammered():
    async def story(scene: Scene) -> None:
        agent = await scene.member()
        scene.frontend.refusals["heartbeat"] = [NotAuthenticated("No.")] * 10_000
        agent.wake()
        before = len(scene.frontend.calls)
        await scene.clock.sleep(HOUR_S)
        assert len(scene.frontend.calls) - before < 500

    play(story)


@pytest.mark.behaviour("WRK-6")
def test_failed_heartbeat_is_repeated_soon_and_logged_once():
    async def story(scene: Scene) -> None:
        agent = await scene.member()
        await scene.until(lambda: len(scene.frontend.times("heartbeat")) > 2)
        scene.frontend.is_away = True
        await agent.loop.tick_signal.wait(60)
        missed = len(scene.frontend.times("heartbeat"))
        with capture_logs() as lines:
            await scene.clock.sleep(60)
            scene.frontend.is_away = False
            await agent.heartbeat_answered.wait(60)
        pauses = scene.frontend.times("heartbeat")[missed:]
        assert 25 < len(pauses) < 35
        assert len([line for line in lines if line.get("what") == "heartbeat"]) <= 2
        assert agent.find_not_ready_reason() is None

    play(story)


@pytest.mark.parametrize("seed", SEEDS)
def test_heartbeats_go_on_without_the_bus_and_tell_of_it(seed: int):
    async def story(scene: Scene) -> None:
        agent = await scene.member()
        node = scene.frontend.only_node()
        await scene.until(lambda: bool(node.beats) and node.beats[-1].bus_ok is True)
        scene.network.stop_server()
        assert agent.find_not_ready_reason() == "not on the bus"
        count = len(node.beats)
        await scene.until(lambda: node.beats[-1].bus_ok is False, 1.2 * INTERVAL_S)
        await scene.clock.sleep(HOUR_S)
        assert len(node.beats) - count > 300
        scene.network.start_server()
        # At once, not with the next interval.
        await scene.until(lambda: node.beats[-1].bus_ok is True, 1)

    play(story, seed)


def test_every_heartbeat_carries_the_machines_figures():
    async def story(scene: Scene) -> None:
        await scene.member()
        node = scene.frontend.only_node()
        await scene.until(lambda: bool(node.beats))
        beat = node.beats[-1]
        assert (beat.available_ram, beat.available_disk, beat.available_vram) == (32 << 30, 0, None)
        assert [gpu.available_vram for gpu in beat.gpus or ()] == [9 << 30]
        assert beat.boot_id == "boot-0001"
        assert scene.frontend.registrations[0].address == "10.0.0.5:9000"

    play(story)


@pytest.mark.behaviour("OPS-90")
@pytest.mark.parametrize("seed", SEEDS)
def test_credential_is_renewed_at_three_quarters_of_its_life_and_changes_nothing_else(seed: int):
    async def story(scene: Scene) -> None:
        scene.frontend.credential_life_s = HOUR_S
        await scene.member()
        began = scene.clock.monotonic()
        await scene.until(lambda: len(scene.tokens_in_use) == 4, 5 * HOUR_S)
        times = [at - began for at in scene.frontend.times("credentials")]
        # Each is asked for between 75 % and, with the loop's own pace, 77 % of the one before.
        assert [0.74 * number < at / HOUR_S < 0.77 * number for number, at in enumerate(times, 1)] == [True] * 3
        assert scene.tokens_in_use == ["token-1", "token-2", "token-3", "token-4"]
        assert len(scene.opened) == 1
        assert len(scene.frontend.registrations) == 1

    play(story, seed)


@pytest.mark.behaviour("OPS-90")
def test_renewal_that_fails_is_repeated_and_ends_nothing():
    async def story(scene: Scene) -> None:
        scene.frontend.credential_life_s = HOUR_S
        agent = await scene.member()
        scene.frontend.refusals["credentials"] = [Unavailable("PostgreSQL does not respond.")] * 20
        await scene.until(lambda: len(scene.tokens_in_use) == 2, 2 * HOUR_S)
        times = scene.frontend.times("credentials")
        assert len(times) == 21
        assert all(25 < later - earlier < 35 for earlier, later in itertools.pairwise(times))
        assert agent.find_not_ready_reason() is None
        assert not scene.ends

    play(story)


def test_machine_that_slept_through_its_credential_asks_for_another():
    async def story(scene: Scene) -> None:
        agent = await scene.member()
        # Its monotonic clock stood still, so by that the credential is young; the server has thrown it out.
        scene.network.cut(str(agent.node_id), notice_after_s=0)
        await scene.until(lambda: len(scene.tokens_in_use) > 1, 70)

    play(story)


@pytest.mark.behaviour("OPS-90")
def test_agent_node_registers_once_more_when_it_is_approved_and_gets_its_key():
    async def story(scene: Scene) -> None:
        agent = await scene.started(node_type=NodeType.AGENT)
        await scene.until(lambda: bool(scene.frontend.nodes))
        keys = [agent.api_token]
        scene.frontend.only_node().is_approved = True
        await scene.until(lambda: agent.find_not_ready_reason() is None)
        assert [*keys, agent.api_token] == [None, "ck_key-2"]
        assert len({registration.boot_id for registration in scene.frontend.registrations}) == 1
        await scene.clock.sleep(HOUR_S)
        assert len(scene.frontend.registrations) == 2

    play(story)


def test_worker_answers_greets_and_wakes_over_the_bus():
    async def story(scene: Scene) -> None:
        greetings: list[tuple[str | None, str]] = []

        async def on_hello(hello: Delivery[WorkerHello]) -> None:
            greetings.append((hello.node, hello.message.boot_id))

        await scene.frontend_bus.subscribe(NODE_HELLO, on_hello)
        await scene.until(lambda: scene.frontend_bus.is_connected)
        agent = await scene.member()
        assert agent.node_id is not None
        described = await scene.frontend_bus.request(NODE_DESCRIBE, DescribeNode(), node=agent.node_id)
        assert (described.node_id, described.boot_id, described.name) == (agent.node_id, "boot-0001", "gpu-a")
        assert described.hardware["total_ram"] == 64 << 30
        await scene.until(lambda: greetings == [(agent.node_id, "boot-0001")])
        await scene.clock.sleep(1)
        before = len(scene.frontend.times("heartbeat"))
        await scene.frontend_bus.publish(NODE_WAKE, WakeNode(), node=agent.node_id)
        await scene.until(lambda: len(scene.frontend.times("heartbeat")) > before, 1)

    play(story)


@pytest.mark.behaviour("WRK-10")
def test_stop_over_the_bus_is_acknowledged_and_ends_the_worker_without_an_error():
    async def story(scene: Scene) -> None:
        await scene.until(lambda: scene.frontend_bus.is_connected)
        agent = await scene.member()
        assert agent.node_id is not None
        answer = await scene.frontend_bus.request(NODE_STOP, StopNode(), node=agent.node_id)
        assert answer.accepted
        assert answer.boot_id == "boot-0001"
        assert scene.ends == [None]
        await agent.stop()
        assert scene.frontend.only_node().has_left
        assert [name for _, name in scene.frontend.calls[-2:]] == ["drain", "deregister"]

    play(story)


@pytest.mark.behaviour("WRK-10")
@pytest.mark.parametrize("fault", ["is_away", "hangs"])
def test_farewell_does_not_wait_for_a_frontend_that_is_away(fault: str):
    async def story(scene: Scene) -> None:
        agent = await scene.member()
        setattr(scene.frontend, fault, True)
        began = scene.clock.monotonic()
        with capture_logs() as lines:
            await agent.stop()
        assert scene.clock.monotonic() - began < 6
        assert len([line for line in lines if "goodbye" in line["event"]]) == 1
        beats = len(scene.frontend.times("heartbeat"))
        await scene.clock.sleep(HOUR_S)
        assert len(scene.frontend.times("heartbeat")) == beats

    play(story)


@pytest.mark.behaviour("WRK-2")
def test_restarted_worker_keeps_its_node_and_has_a_new_boot_id():
    async def story(scene: Scene) -> None:
        first = await scene.member()
        node_id = first.node_id
        await first.stop()
        scene.frontend.tokens.clear()
        second = await scene.started(token=None)
        await scene.until(lambda: second.find_not_ready_reason() is None)
        assert second.node_id == node_id
        assert [registration.boot_id for registration in scene.frontend.registrations] == ["boot-0001", "boot-0002"]

    play(story)


@pytest.mark.behaviour("NODE-5b")
def test_worker_registers_when_it_knows_what_outlived_the_last_one_and_lists_what_is_ready():
    async def story(scene: Scene) -> None:
        scene.survivors = SurvivorReader(lambda: (_process("ready"), _process("starting", replica=1)))
        agent = await scene.started()
        await scene.clock.sleep(WAIT_S / 2)
        assert (agent.node_id, scene.frontend.registrations) == (None, []), "nobody has looked yet"
        await scene.survivors.start()
        await scene.until(lambda: agent.node_id is not None)
        (registration,) = scene.frontend.registrations
        assert [(one.model, one.replica, one.address, one.revision) for one in registration.running] == [
            ("chat", 0, "127.0.0.1:4000", "r1")
        ]

    play(story)


@pytest.mark.behaviour("NODE-5b")
def test_worker_that_is_still_adopting_registers_with_unknown_processes():
    async def story(scene: Scene) -> None:
        scene.survivors = SurvivorReader(lambda: (_process("ready"),))
        agent = await scene.started()
        await scene.until(lambda: agent.node_id is not None)
        assert [
            (registration.running, registration.is_running_known) for registration in scene.frontend.registrations
        ] == [([], False)]

    play(story)


def _process(state: str, replica: int = 0) -> RunningProcess:
    return RunningProcess(
        key=f"chat#{replica}",
        model="chat",
        replica=replica,
        backend="fake",
        version="1",
        pid=1,
        address=f"127.0.0.1:{4000 + replica}",
        state=state,
        revision="r1",
    )
