"""A deliberate defect of the product, and the plan under which a simulated cluster has to catch it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.simulation.plan import Fault as Trouble
from tests.simulation.plan import Kind, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    name: str
    apply: Callable[[pytest.MonkeyPatch], None]
    # One of these has to be said.
    sentences: tuple[str, ...]
    # What makes the moment likely in which it matters: kind, start, length, target.
    faults: tuple[tuple[Kind, float, float, int], ...] = ()
    # One that shows it today, so that the test is short; those after it are there for tomorrow.
    first_seed: int = 0
    # How long the cluster runs: with faults, and afterwards without.
    feed_interval_s: float
    faults_end_s: float
    quiet_s: float

    def plan(self) -> Plan:
        faults = tuple(
            Trouble(start_s=start_s, length_s=length_s, kind=kind, target=target, strength=0.8)
            for kind, start_s, length_s, target in self.faults
        )
        return Plan(
            frontends=2,
            workers=3,
            watchers=0,
            feed_interval_s=self.feed_interval_s,
            outbox_retention_s=86400.0,
            faults_end_s=self.faults_end_s,
            quiet_s=self.quiet_s,
            faults=faults,
        )
