"""What the machines of one simulated cluster have in common, and what an onlooker has written down about them.

Nothing here is known to the product. The diary says what truly happened (who ran, which heartbeats were answered, what
the admin meant), and `invariants.py` holds the registry against it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from corral.domain.node import Node
from corral.ports.credentials import BusCredential
from corral.store.database import Database
from tests.simulation.chance import Random, chance
from tests.simulation.clock import SimClock
from tests.simulation.gate import SimGate, StoreFaults, Turnstile
from tests.simulation.network import Network
from tests.simulation.trace import Trace
from tests.simulation.virtual_loop import VirtualLoop

ADMIN_KEY = "ck_the-admin-of-the-simulated-cluster-0123456789"
CREDENTIAL_LIFE_S = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredHeartbeat:
    """Holds a heartbeat that a frontend has answered with 200."""

    at_s: float
    node_id: str
    frontend: str


@dataclass(slots=True)
class Life:
    """Describes one process of a frontend, from start to end, and when it could not do its work."""

    frontend: str
    started_s: float
    ended_s: float | None = None
    away: list[tuple[float, float]] = field(default_factory=list)

    def was_well(self, since_s: float, until_s: float) -> bool:
        if self.started_s > since_s or (self.ended_s is not None and self.ended_s < until_s):
            return False
        return not any(start_s < until_s and end_s > since_s for start_s, end_s in self.away)


@dataclass(slots=True)
class Diary:
    beats: list[AnsweredHeartbeat] = field(default_factory=list)
    lives: dict[str, Life] = field(default_factory=dict)
    # Sentences about what must not happen; each ends the run as a failure.
    violations: list[str] = field(default_factory=list)
    # Since when each worker has been silent; absent while it runs and reaches a frontend.
    silent_since_s: dict[str, float] = field(default_factory=dict)
    # Faults under way that may keep the leader from watching, and when the last of them ended.
    disturbances: int = 0
    calm_since_s: float = 0.0

    def calm_for_s(self, now_s: float) -> float:
        return 0.0 if self.disturbances else now_s - self.calm_since_s


@dataclass(slots=True)
class Conditions:
    """Holds what is wrong with the database for all participants now."""

    store_faults: StoreFaults = field(default_factory=StoreFaults)
    store_is_away: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationDeps:
    """Holds what all simulated machines share."""

    loop: VirtualLoop
    url: str
    trace: Trace
    turnstile: Turnstile
    network: Network
    diary: Diary
    conditions: Conditions
    feed_interval_s: float
    outbox_retention_s: float

    @property
    def clock(self) -> SimClock:
        return SimClock(self.loop)

    def rng(self, name: str) -> Random:
        return chance(self.loop.seed, name)

    def gate(self, name: str, faults: StoreFaults | None = None) -> SimGate:
        rng = self.rng(f"{name} to the database")
        return SimGate(name, self.turnstile, loop=self.loop, rng=rng, faults=faults, trace=self.trace)

    def database(self, gate: SimGate) -> Database:
        database = Database(self.url, gate=gate, pool_size=1)
        # Connections break at the gate here, not in the pool: the ping before each transaction would only cost time.
        database.engine.pool._pre_ping = False
        return database

    def now(self) -> float:
        return self.loop.time()

    def violated(self, sentence: str) -> None:
        self.trace.add(f"VIOLATION {sentence}")
        self.diary.violations.append(f"{self.now():.3f} s: {sentence}")


class OpaqueCredentials:
    """Makes credentials without signatures: a number per mint, and a holder that is cut off when revoked. Implements
    `BusCredentials`."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._minted = 0
        self._holders: dict[str, str] = {}

    def mint(self, node: Node, public_key: str) -> BusCredential:
        self._minted += 1
        self._holders[public_key] = node.id
        return BusCredential(token=f"{node.id}.{self._minted}", expires_in_s=CREDENTIAL_LIFE_S)

    def issue_ticket(self, reader: str, scope: str, *, audience: str = "*", ttl_s: float) -> str:
        return f"ticket {reader} {scope} {audience} {ttl_s}"

    def is_valid_ticket(self, text: str, *, reader: str, scope: str, audience: str) -> bool:
        return text.startswith(f"ticket {reader} {scope} {audience} ")

    def find_ticket_scope(self, text: str, *, audience: str) -> tuple[str, float] | None:
        del text, audience
        return None

    def get_ticket_key(self) -> str:
        return ""

    def derive_key(self, purpose: str) -> bytes:
        return purpose.encode()

    async def revoke(self, *public_keys: str) -> None:
        for public_key in public_keys:
            node_id = self._holders.pop(public_key, None)
            if node_id is not None:
                self._network.expel(node_id)
