"""What can be set about running engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corral.worker.processes.launch import LOOPBACK
from corral.worker.processes.logs.book import LogLimits
from corral.worker.processes.logs.tail import TailLimits
from corral.worker.processes.ports import BASE_DEFAULT
from corral.worker.processes.restarts import Patience


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorOptions:
    # The records of processes and their logs.
    root: Path
    # The worker's own environment, of which engines see a little.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Where engines that check a key listen, and under which name others reach them.
    host: str = LOOPBACK
    advertised_host: str = LOOPBACK
    port_base: int = BASE_DEFAULT
    port_max: int | None = None
    # How many threads the machine has.
    threads: int = 1
    # A stop takes no longer than both together, and fits into the time that a service has to stop.
    grace_s: float = 8.0
    kill_limit_s: float = 4.0
    # How long an engine of an earlier worker may take to answer: it may be busy.
    adoption_s: float = 10.0
    # How often engines that are ready are asked whether they still answer, and how many silences in a row are told.
    watch_s: float = 10.0
    watch_misses: int = 3
    patience: Patience = field(default_factory=Patience)
    logs: LogLimits = field(default_factory=LogLimits)
    tail: TailLimits = field(default_factory=TailLimits)

    @property
    def home(self) -> str:
        """What engines of this worker are marked with: the same for every way to write the path."""
        return str(self.root.resolve())
