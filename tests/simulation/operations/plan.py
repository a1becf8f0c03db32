"""What goes wrong while operations run: as `tests.simulation.plan`, shorter and with the faults that matter here."""

from __future__ import annotations

from tests.simulation.chance import chance
from tests.simulation.plan import Fault, Kind, Plan

FIRST_FAULT_S = 8.0
FAULTS_END_S = 80.0
# When everybody is back: the longest that operations may take to come to their ends.
SETTLE_WITHIN_S = 900.0
# Every so many seeds the bus is away for two minutes, longer than any lease.
LONG_OUTAGE_EVERY = 20
# Those that are here twice strike at what only operations have: owners, jobs and the order of events.
KINDS = (
    Kind.FRONTEND_CRASH,
    Kind.FRONTEND_CRASH,
    Kind.FRONTEND_RESTART,
    Kind.FRONTEND_FREEZE,
    Kind.FRONTEND_FREEZE,
    Kind.FRONTEND_WITHOUT_STORE,
    Kind.FRONTEND_STALLED_STORE,
    Kind.FRONTEND_STALLED_STORE,
    Kind.FRONTEND_WITHOUT_BUS,
    Kind.STORE_AWAY,
    Kind.STORE_NOISE,
    Kind.BUS_AWAY,
    Kind.BUS_NOISE,
    Kind.BUS_SHUFFLE,
    Kind.BUS_SHUFFLE,
    Kind.HTTP_NOISE,
    Kind.WORKER_AMBUSH,
    Kind.WORKER_AMBUSH,
    Kind.WORKER_CRASH,
    Kind.WORKER_STOP,
    Kind.WORKER_FREEZE,
    Kind.WORKER_WITHOUT_BUS,
    Kind.WORKER_WITHOUT_HTTP,
    Kind.CLOCK_STEP,
)
# Kinds that are not here take up to half a minute.
LONGEST_S = {
    Kind.BUS_AWAY: 60.0,
    Kind.WORKER_CRASH: 50.0,
    Kind.WORKER_FREEZE: 50.0,
    Kind.BUS_NOISE: 70.0,
    Kind.BUS_SHUFFLE: 70.0,
}


def plan_of_operations(seed: int) -> Plan:
    rng = chance(seed, "plan of operations")
    number = rng.choice((0, 1, 2, 3, 4, 6))
    kinds = rng.sample(KINDS, k=3)
    faults = []
    for _ in range(number):
        kind = rng.choice(kinds)
        start_s = rng.uniform(FIRST_FAULT_S, FAULTS_END_S - 10)
        length_s = min(rng.uniform(2, LONGEST_S.get(kind, 30.0)), FAULTS_END_S - start_s)
        faults.append(
            Fault(start_s=start_s, length_s=length_s, kind=kind, target=rng.randrange(60), strength=rng.random())
        )
    end_s = FAULTS_END_S
    if seed % LONG_OUTAGE_EVERY == LONG_OUTAGE_EVERY - 1:
        faults.append(Fault(start_s=40, length_s=120, kind=Kind.BUS_AWAY, target=0, strength=1))
        end_s = 165.0
    return Plan(
        frontends=2,
        workers=rng.choice((2, 3, 3, 4)),
        watchers=0,
        feed_interval_s=rng.choice((6.0, 12.0)),
        outbox_retention_s=86400.0,
        faults_end_s=end_s,
        quiet_s=SETTLE_WITHIN_S,
        faults=tuple(sorted(faults, key=lambda fault: fault.start_s)),
    )
