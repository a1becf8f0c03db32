"""Who may use how many of the machine's threads. Pure: nothing is pinned, engines are told a number.

Guarantee: the counts that are held add up to no more than the machine has, unless there are more processes than
threads: every process gets at least one. A wish is honoured as far as threads are free. Without a wish a process gets
half of the free ones, which is every core on a machine with two threads a core, and leaves room for the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class ThreadBudget:
    total: int
    held: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.total = max(1, self.total)

    @property
    def free(self) -> int:
        return max(0, self.total - sum(self.held.values()))

    def take(self, owner: str, wish: int | None = None) -> int:
        """How many `owner` has from now on; what it had before is given back first."""
        self.release(owner)
        wanted = -(-self.free // 2) if wish is None else wish
        count = max(1, min(wanted, self.free))
        self.held[owner] = count
        return count

    def hold(self, owner: str, count: int) -> None:
        """`owner` was told this number by an earlier worker."""
        self.held[owner] = max(1, count)

    def release(self, owner: str) -> None:
        self.held.pop(owner, None)
