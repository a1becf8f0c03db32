"""Options of the engine supervisor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corral.runtime.processes import RestartBackoff
from corral.worker.processes.launch import LOOPBACK
from corral.worker.processes.port_pool import BASE_DEFAULT
from corral.worker.processes.process_log import OutputCopierLimits, ProcessLogLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSupervisorOptions:
    """Tunables of the engine supervisor: folders, hosts, ports, threads and time limits."""

    # The folder of the process records and logs.
    root: Path
    # The worker's own environment, of which engines see a little.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    # The host where engines that check a key listen, and the name under which others reach them.
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
    # How often ready engines are probed, and how many silent probes in a row make them unhealthy.
    watch_s: float = 10.0
    watch_misses: int = 3
    restart_backoff: RestartBackoff = field(default_factory=RestartBackoff)
    logs: ProcessLogLimits = field(default_factory=ProcessLogLimits)
    output: OutputCopierLimits = field(default_factory=OutputCopierLimits)

    @property
    def home(self) -> str:
        """Return the mark of this worker's engines: the same for every way to write the path."""
        return str(self.root.resolve())
