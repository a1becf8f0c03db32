"""RAM that this process may use.

A container's limit is as real as the end of the physical memory: total is the smallest limit on the way from our
control group to the root, and available leaves room for what the group already uses, except for file cache that the
kernel would drop first. Limit: `memory.high` and swap are not counted, and cgroups are looked for in their usual place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from corral.worker.hardware import parse
from corral.worker.hardware.machine import Machine, read_text
from corral.worker.hardware.reading import MemoryReading


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    root: str
    limit: str
    usage: str
    cache: str


# "max" in version 2 is no number; version 1 writes a number near 2^63 instead, far above any physical memory.
_FILES = {
    1: _Files(
        root="/sys/fs/cgroup/memory",
        limit="memory.limit_in_bytes",
        usage="memory.usage_in_bytes",
        cache="total_inactive_file",
    ),
    2: _Files(root="/sys/fs/cgroup", limit="memory.max", usage="memory.current", cache="inactive_file"),
}


def read_memory(machine: Machine) -> MemoryReading:
    """Total and available RAM; raises `ReadingFailed` when the machine does not tell its memory."""
    facts = machine.memory()
    total = max(facts.total_bytes, 0)
    available = max(facts.available_bytes, 0)
    if machine.platform().system == "linux":
        for limit, used in _limits(machine, facts.total_bytes):
            total = min(total, limit)
            available = min(available, max(limit - used, 0))
    return MemoryReading(total_bytes=total, available_bytes=min(available, total))


def _limits(machine: Machine, physical_bytes: int) -> Iterator[tuple[int, int]]:
    """Each limit below the physical memory, with what is used of it."""
    group = parse.memory_cgroup(read_text(machine, "/proc/self/cgroup"))
    if group is None:
        return
    files = _FILES[group.version]
    for level in parse.cgroup_levels(group.path):
        directory = f"{files.root}{level}"
        limit = parse.whole_number(read_text(machine, f"{directory}/{files.limit}"))
        if limit is None or limit >= physical_bytes:
            continue
        usage = parse.whole_number(read_text(machine, f"{directory}/{files.usage}")) or 0
        statistics = read_text(machine, f"{directory}/memory.stat")
        cache = parse.whole_number(parse.key_values(statistics, " ").get(files.cache)) or 0
        yield limit, max(usage - cache, 0)
