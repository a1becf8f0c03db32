"""Whether learning how fast replicas are is worth it: a small world of replicas in virtual time, by seed.

Each replica works on its requests together and slows down as it fills; the lengths of answers differ widely. The same
requests are routed with what is learnt and without, and the mean times are compared.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import pytest

from corral.adapters.system import SystemClock
from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.gateway.routing.replica_pool import ReplicaCheckout, ReplicaPool, ReplicaPools
from tests.serving.scene import RUN_HASH, seats_with

PARALLEL = 8
# How much each request slows down the others that a replica works on.
SLOWING = 0.08
LOOK_S = 2.0


@dataclass(eq=False, slots=True)
class RunningRequest:
    work_left: float
    came: float
    began: float
    held: ReplicaCheckout


class PoolSimulation:
    def __init__(self, speeds: Sequence[float], *, learns: bool) -> None:
        self.speeds = {str(number): speed for number, speed in enumerate(speeds)}
        self.learns = learns
        self.now = 0.0
        self.took: list[float] = []
        self.running: dict[str, list[RunningRequest]] = {name: [] for name in self.speeds}
        self.seats: ReplicaPools = seats_with(
            [_replica(name) for name in self.speeds], clock=SystemClock(), parallel=PARALLEL
        )
        found = self.seats.find_pool("chat")
        assert found is not None
        self.bench: ReplicaPool = found
        self.waiting: list[tuple[float, float]] = []

    def run(self, load: float, requests: int = 1500) -> float:
        """The mean time of an answer."""
        chance = random.Random(1)
        rate = load * sum(speed * PARALLEL / (1 + SLOWING * PARALLEL) for speed in self.speeds.values())
        came, looked = 0.0, 0.0
        for _ in range(requests):
            came += chance.expovariate(rate)
            self._work_until(came)
            self.waiting.append((came, chance.lognormvariate(-0.5, 1.0)))
            self._serve()
            if self.learns and came - looked > LOOK_S:
                self.seats.fade_times(came - looked)
                looked = came
                for seat in self.seats:
                    seat.is_used = False
        return fmean(self.took[requests // 10 :])

    def _serve(self) -> None:
        while self.waiting and (held := self.bench.check_out()) is not None:
            came, work = self.waiting.pop(0)
            self.running[held.replica.id].append(RunningRequest(work, came, self.now, held))

    def _work_until(self, moment: float) -> None:
        while True:
            ends = [
                (one.work_left / self._pace(name), name, one) for name, ones in self.running.items() for one in ones
            ]
            first_s, name, first = min(ends, key=lambda end: end[0], default=(float("inf"), "", None))
            step_s = min(first_s, moment - self.now)
            for each, ones in self.running.items():
                done = self._pace(each) * step_s
                for one in ones:
                    one.work_left -= done
            self.now += step_s
            if first is None or step_s < first_s:
                return
            self.running[name].remove(first)
            if self.learns:
                first.held.record_success(self.now - first.began, 0.1)
            self.took.append(self.now - first.came)
            first.held.release()
            self._serve()

    def _pace(self, name: str) -> float:
        return self.speeds[name] / (1 + SLOWING * len(self.running[name]))


def _replica(name: str) -> Replica:
    return Replica(
        id=name,
        node_id=NodeId(name),
        model="chat",
        index=0,
        state=ReplicaState.LOADED,
        address=f"{name}:1",
        revision=RUN_HASH,
    )


@pytest.mark.parametrize(
    ("speeds", "load", "most"),
    [
        # Equal replicas: chance makes some look slow, and that must cost little.
        ([1.0, 1.0, 1.0], 0.5, 1.05),
        ([1.0, 1.0, 1.0], 0.85, 1.05),
        # Unequal ones: the slow are asked less.
        ([2.0, 1.0, 0.5, 0.25], 0.1, 0.7),
        ([2.0, 1.0, 0.5, 0.25], 0.5, 0.85),
        ([1.0, 1.0, 0.25], 0.85, 1.0),
    ],
)
def test_learning_how_fast_replicas_are_helps_where_they_differ_and_costs_little_where_they_do_not(
    speeds: list[float], load: float, most: float
) -> None:
    with_learning, without = (
        PoolSimulation(speeds, learns=True).run(load),
        PoolSimulation(speeds, learns=False).run(load),
    )
    assert with_learning <= most * without
