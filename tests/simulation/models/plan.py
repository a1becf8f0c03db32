"""What goes wrong while models are loaded: as `tests.simulation.plan`, with the faults that matter here."""

from __future__ import annotations

from tests.simulation.chance import chance
from tests.simulation.plan import Fault, Kind, Plan

FIRST_FAULT_S = 8.0
FAULTS_END_S = 75.0
# When everybody is back: the longest until nothing is wrong any more.
SETTLE_WITHIN_S = 900.0
KINDS = (
    Kind.FRONTEND_CRASH,
    Kind.FRONTEND_CRASH,
    Kind.FRONTEND_RESTART,
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
    Kind.HTTP_NOISE,
    Kind.WORKER_AMBUSH,
    Kind.WORKER_AMBUSH,
    Kind.WORKER_CRASH,
    Kind.WORKER_STOP,
    Kind.WORKER_FREEZE,
    Kind.WORKER_FREEZE,
    Kind.WORKER_WITHOUT_BUS,
    Kind.WORKER_WITHOUT_HTTP,
    Kind.WORKER_KILL,
    Kind.WORKER_KILL,
    Kind.ENGINE_DEATH,
    Kind.ENGINE_DEATH,
    Kind.ENGINE_STUBBORN,
    Kind.MEMORY_SHORT,
    Kind.FILES_LOST,
)
# Kinds that are not here take up to half a minute.
LONGEST_S = {Kind.WORKER_CRASH: 50.0, Kind.WORKER_FREEZE: 50.0, Kind.BUS_NOISE: 60.0, Kind.BUS_SHUFFLE: 60.0}


def plan_of_models(seed: int) -> Plan:
    rng = chance(seed, "plan of models")
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
    return Plan(
        frontends=rng.choice((2, 2, 3)),
        workers=rng.choice((3, 3, 4, 5)),
        watchers=0,
        feed_interval_s=rng.choice((4.0, 8.0)),
        outbox_retention_s=86400.0,
        faults_end_s=FAULTS_END_S,
        quiet_s=SETTLE_WITHIN_S,
        faults=tuple(sorted(faults, key=lambda fault: fault.start_s)),
    )


def brief_plan() -> Plan:
    """Return the same plan for every seed: half a minute in which a frontend and a worker are killed."""
    kills = ((Kind.FRONTEND_CRASH, 10.0, 8.0), (Kind.WORKER_KILL, 14.0, 6.0), (Kind.BUS_NOISE, 5.0, 20.0))
    return Plan(
        frontends=2,
        workers=3,
        watchers=0,
        feed_interval_s=4.0,
        outbox_retention_s=86400.0,
        faults_end_s=28.0,
        quiet_s=SETTLE_WITHIN_S,
        faults=tuple(
            Fault(start_s=at_s, length_s=for_s, kind=kind, target=0, strength=0.6) for kind, at_s, for_s in kills
        ),
    )
