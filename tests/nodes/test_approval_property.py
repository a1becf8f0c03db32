"""Whatever a worker says, in whatever order, it cannot approve itself and cannot take back an admin's drain.

Hypothesis makes up sequences of everything that a worker can call, with restarts and silence in between, against a
real frontend on a real database. All examples of a test share the database; each has a node of its own.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from corral.domain.node import Node, NodeStatus
from corral.policy.status import compute_status, is_schedulable
from corral.store.access import list_keys
from tests.nodes.registry import bus_key, find_lost, stored
from tests.support.databases import fresh_database
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import PretendNode, age_heartbeat, create_join_token

T = TypeVar("T")
SETTINGS = settings(
    max_examples=10,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
# What a worker would have to hold to act on the bus or through the API.
SECRETS = ("nats_jwt", "nats_url", "api_token")
_numbers = itertools.count(1)
readings = st.fixed_dictionaries(
    {},
    optional={
        "total_vram": st.integers(0, 2**40),
        "available_vram": st.integers(0, 2**40),
        "available_disk": st.integers(0, 2**40),
        "bus_ok": st.booleans(),
        "approved": st.just(True),
        "approved_at": st.just("2026-01-01T00:00:00Z"),
        "status": st.just("healthy"),
        "drained_at": st.none(),
    },
)


class World:
    """A frontend on a loop that outlives the examples; it can be restarted in between."""

    def __init__(self, postgres: str) -> None:
        self._runner = asyncio.Runner()
        self._database, self._frontend = AsyncExitStack(), AsyncExitStack()
        self._url = self.run(self._database.enter_async_context(fresh_database(postgres)))
        self.frontend = self.run(self._start())
        self.tokens = {
            "none": None,
            "wrong": "cj_wrong",
            "right": self.run(create_join_token(self.frontend, max_uses=10_000)),
            "approving": self.run(create_join_token(self.frontend, max_uses=10_000, approves=True)),
        }

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def _start(self) -> RunningFrontend:
        return await self._frontend.enter_async_context(running_frontend(self._url))

    async def restart(self) -> None:
        await self._frontend.aclose()
        self.frontend = await self._start()

    async def count_node_keys(self) -> int:
        async with self.frontend.database.transaction() as tx:
            return sum(key.node_id is not None for key in await list_keys(tx))

    def close(self) -> None:
        self.run(self._frontend.aclose())
        self.run(self._database.aclose())
        self._runner.close()


class OwnCalls(RuleBasedStateMachine):
    """Everything that a worker can do to its own node."""

    world: ClassVar[World]

    def __init__(self) -> None:
        super().__init__()
        self.has_restarted = False
        self.answers: list[Any] = []

    @initialize(node_type=st.sampled_from(["backend", "agent"]))
    def join(self, node_type: str) -> None:
        self.node = PretendNode(self.world.frontend, f"node-{next(_numbers)}")
        self.node_type = node_type
        self.own_credential = self.node.credential
        self._register("right", {"node_type": node_type})
        assert self.node.id
        self.after_join()

    def after_join(self) -> None:
        """What an admin does before the worker begins."""

    def _register(self, token: str, body: dict[str, Any]) -> None:
        secret = self.world.tokens[token]
        self.note(self.world.run(self.node.register(secret, bus_public_key=bus_key(), **body)))

    def note(self, answer: tuple[int, Any]) -> None:
        status, body = answer
        assert status < 500, body
        self.answers.append(body)

    @rule(
        token=st.sampled_from(["none", "wrong", "right", "approving"]),
        is_new_boot=st.booleans(),
        changes=st.fixed_dictionaries(
            {},
            optional={
                "labels": st.sampled_from([{}, {"zone": "b"}, {"approved": "true"}]),
                "vram_budget": st.sampled_from(["", "50%"]),
                "node_type": st.sampled_from(["backend", "agent"]),
                "max_replicas_per_model": st.integers(0, 3),
                "approved": st.just(True),
                "status": st.just("healthy"),
            },
        ),
    )
    def register(self, token: str, is_new_boot: bool, changes: dict[str, Any]) -> None:
        if is_new_boot:
            self.node.reboot()
        self._register(token, {"node_type": self.node_type} | changes)

    @rule(token=st.sampled_from(["none", "right", "approving"]))
    def register_with_another_credential(self, token: str) -> None:
        self.node.credential = "cn_" + "x" * 40
        self._register(token, {"node_type": self.node_type})
        self.node.credential = self.own_credential

    @rule(reading=readings, boot=st.sampled_from(["own", "other", "none"]))
    def heartbeat(self, reading: dict[str, Any], boot: str) -> None:
        boots = {"own": self.node.boot_id, "other": "another-boot", "none": None}
        self.note(self.world.run(self.node.heartbeat(**reading | {"boot_id": boots[boot]})))

    @rule(verb=st.sampled_from(["drain", "resume"]))
    def drain_or_resume_itself(self, verb: str) -> None:
        self.note(self.world.run(self.node.call("POST", f"/{verb}")))

    @rule(call=st.sampled_from([("POST", "/deregister"), ("DELETE", "")]))
    def leave(self, call: tuple[str, str]) -> None:
        self.note(self.world.run(self.node.call(*call)))

    @rule()
    def refresh_credentials(self) -> None:
        self.note(self.world.run(self.node.call("POST", "/credentials", {"bus_public_key": bus_key()})))

    @rule(verb=st.sampled_from(["approve", "resume", "drain"]))
    def play_the_admin(self, verb: str) -> None:
        path = f"/api/nodes/{self.node.id}/{verb}"
        status, body = self.world.run(self.world.frontend.call("POST", path, key=self.node.credential))
        assert status == 401, body

    @rule()
    def be_silent(self) -> None:
        async def pass_time() -> None:
            await age_heartbeat(self.node, 61)
            await find_lost(self.world.frontend)

        self.world.run(pass_time())

    @rule()
    def worker_restarts(self) -> None:
        self.node.reboot()
        self._register("none", {"node_type": self.node_type})

    @precondition(lambda self: not self.has_restarted)
    @rule()
    def frontend_restarts(self) -> None:
        self.has_restarted = True
        self.world.run(self.world.restart())
        self.node.frontend = self.world.frontend

    def stored(self) -> Node:
        return self.world.run(stored(self.node))


class PendingNode(OwnCalls):
    @invariant()
    def is_not_approved(self) -> None:
        node = self.stored()
        assert node.approved_at is None
        assert compute_status(node) is NodeStatus.PENDING
        assert not is_schedulable(node)

    @invariant()
    def was_never_given_a_secret(self) -> None:
        while self.answers:
            answer = self.answers.pop()
            assert not any(answer.get(name) for name in SECRETS), answer
            assert not answer.get("approved"), answer


class DrainedNode(OwnCalls):
    def after_join(self) -> None:
        for verb in ("approve", "drain"):
            status, body = self.world.run(self.node.call_as_admin("POST", f"/{verb}"))
            assert status == 200, body

    @invariant()
    def is_drained(self) -> None:
        node = self.stored()
        assert node.drained_at is not None
        assert compute_status(node) is NodeStatus.DRAINING
        assert not is_schedulable(node)


def _explore(postgres: str, machine: type[OwnCalls]) -> int:
    """How many keys of nodes there are in the end."""
    machine.world = World(postgres)
    try:
        run_state_machine_as_test(machine, settings=SETTINGS)
        return machine.world.run(machine.world.count_node_keys())
    finally:
        machine.world.close()


@pytest.mark.behaviour("NODE-201")
@pytest.mark.behaviour("OPS-59")
def test_pending_node_never_approves_itself_by_any_sequence_of_its_own_calls(postgres: str) -> None:
    assert _explore(postgres, PendingNode) == 0


@pytest.mark.behaviour("NODE-202")
@pytest.mark.behaviour("OPS-60")
def test_drained_node_never_resumes_itself_by_any_sequence_of_its_own_calls(postgres: str) -> None:
    _explore(postgres, DrainedNode)
