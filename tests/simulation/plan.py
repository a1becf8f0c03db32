"""What goes wrong in one run, and when: drawn from the seed, readable when a run has failed.

A plan is a list of faults with a start, a length and a target. How many and which kinds are part of the draw, so that
some seeds see one fault alone and others a storm.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tests.simulation.chance import chance

FIRST_FAULT_S = 25.0
FAULTS_END_S = 400.0
QUIET_S = 200.0
HOUR_S = 3600.0
# Every so many seeds one worker sleeps for an hour, which costs an hour of everybody's loops.
LONG_SLEEP_EVERY = 25


class Kind(StrEnum):
    FRONTEND_CRASH = "frontend crash"
    FRONTEND_RESTART = "frontend restart"
    FRONTEND_FREEZE = "frontend freeze"
    FRONTEND_WITHOUT_STORE = "frontend cut off from PostgreSQL"
    FRONTEND_STALLED_STORE = "frontend whose way to PostgreSQL stalls"
    FRONTEND_WITHOUT_BUS = "frontend cut off from the bus"
    STORE_AWAY = "PostgreSQL away"
    STORE_NOISE = "PostgreSQL unreliable"
    BUS_AWAY = "bus away"
    BUS_NOISE = "bus unreliable"
    HTTP_NOISE = "HTTP unreliable"
    WORKER_CRASH = "worker crash"
    WORKER_STOP = "worker stop"
    WORKER_FREEZE = "worker freeze"
    WORKER_WITHOUT_BUS = "worker cut off from the bus"
    WORKER_WITHOUT_HTTP = "worker cut off from all frontends"
    WORKER_WITHOUT_ONE = "worker cut off from one frontend"
    CLOCK_STEP = "worker's clock set"
    # Only where workers have jobs.
    BUS_SHUFFLE = "bus that shuffles"
    WORKER_AMBUSH = "worker killed at a phase of a job"
    # Only where workers have models.
    WORKER_KILL = "worker killed, and its engines go on"
    ENGINE_DEATH = "engines die"
    ENGINE_STUBBORN = "engines do not end"
    MEMORY_SHORT = "engines run out of memory"
    FILES_LOST = "files of models are damaged"


# Those that matter to a cluster without jobs.
_OF_JOBS = (Kind.WORKER_AMBUSH, Kind.BUS_SHUFFLE)
_OF_MODELS = (Kind.WORKER_KILL, Kind.ENGINE_DEATH, Kind.ENGINE_STUBBORN, Kind.MEMORY_SHORT, Kind.FILES_LOST)
MEMBERSHIP_KINDS = [kind for kind in Kind if kind not in (*_OF_JOBS, *_OF_MODELS)]
# The longest that each lasts; kinds that are not here take up to a minute.
LONGEST_S = {
    Kind.STORE_AWAY: 180.0,
    Kind.STORE_NOISE: 150.0,
    Kind.BUS_NOISE: 150.0,
    Kind.HTTP_NOISE: 150.0,
    Kind.WORKER_CRASH: 120.0,
    Kind.WORKER_STOP: 120.0,
    Kind.WORKER_FREEZE: 200.0,
    Kind.WORKER_WITHOUT_HTTP: 120.0,
}
# Those that may keep the registry from noticing a silent node in time.
DISTURBS_WATCH = frozenset(
    {
        Kind.FRONTEND_CRASH,
        Kind.FRONTEND_RESTART,
        Kind.FRONTEND_FREEZE,
        Kind.FRONTEND_WITHOUT_STORE,
        Kind.FRONTEND_STALLED_STORE,
        Kind.STORE_AWAY,
        Kind.STORE_NOISE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    start_s: float
    length_s: float
    kind: Kind
    target: int
    """Which machine; taken modulo their number."""
    strength: float

    def __str__(self) -> str:
        return (
            f"{self.start_s:7.1f} s  for {self.length_s:6.1f} s  {self.kind}"
            f" (target {self.target}, strength {self.strength:.2f})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    frontends: int
    workers: int
    watchers: int
    feed_interval_s: float
    outbox_retention_s: float
    faults_end_s: float
    quiet_s: float
    """How long everybody has to come back when the faults are over."""
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        head = (
            f"{self.frontends} frontends, {self.workers} workers, {self.watchers} watchers,"
            f" feed every {self.feed_interval_s:g} s, events kept {self.outbox_retention_s:g} s"
        )
        return "\n".join([head, *map(str, self.faults)])


def plan_of(seed: int) -> Plan:
    rng = chance(seed, "plan")
    number = rng.choice((0, 2, 4, 6, 9, 13))
    # A few kinds only, often repeated: storms of everything hide what one kind does.
    kinds = rng.sample(MEMBERSHIP_KINDS, k=rng.randint(2, 6))
    faults = []
    for _ in range(number):
        kind = rng.choice(kinds)
        start_s = rng.uniform(FIRST_FAULT_S, FAULTS_END_S - 10)
        length_s = min(rng.uniform(1, LONGEST_S.get(kind, 60.0)), FAULTS_END_S - start_s)
        faults.append(
            Fault(start_s=start_s, length_s=length_s, kind=kind, target=rng.randrange(60), strength=rng.random())
        )
    end_s = FAULTS_END_S
    if seed % LONG_SLEEP_EVERY == LONG_SLEEP_EVERY - 1:
        faults.append(
            Fault(start_s=100, length_s=HOUR_S, kind=Kind.WORKER_FREEZE, target=rng.randrange(60), strength=1)
        )
        end_s = HOUR_S + 110
    return Plan(
        frontends=rng.choice((2, 2, 2, 3)),
        workers=rng.choice((3, 3, 4, 5)),
        watchers=2,
        feed_interval_s=rng.choice((4.0, 8.0, 12.0)),
        outbox_retention_s=rng.choice((60.0, 86400.0)),
        faults_end_s=end_s,
        quiet_s=QUIET_S,
        faults=tuple(sorted(faults, key=lambda fault: fault.start_s)),
    )
