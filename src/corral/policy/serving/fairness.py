"""Whose turn it is: deficit round robin between keys, in tokens.

Keys that have somebody waiting take turns. At its turn a key is given a quantum of tokens and sends on whoever it can
pay for, first come first served; what is left it keeps for its next turn, as long as somebody of it waits.

Guarantee: no key that waits is passed over for ever, however many others come. Of two keys that both wait all the time,
neither gets ahead of the other by more than one quantum and one request. Removing somebody costs the same however long
the line is. Limit: a cost is what was expected when the request came; nobody is charged afterwards.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

QUANTUM_TOKENS = 1024

T = TypeVar("T")


class _Lane(Generic[T]):
    """One key's own line."""

    __slots__ = ("deficit", "is_at_turn", "line")

    def __init__(self) -> None:
        self.line: OrderedDict[int, tuple[int, T]] = OrderedDict()
        self.deficit = 0
        # It has been given its quantum for the present turn.
        self.is_at_turn = False

    @property
    def cost(self) -> int:
        """What the first in line costs."""
        return next(iter(self.line.values()))[0]


class Turns(Generic[T]):
    def __init__(self, quantum: int = QUANTUM_TOKENS) -> None:
        assert quantum > 0
        self._quantum = quantum
        # In the order of their turns, the next one first. None of them is empty.
        self._lanes: OrderedDict[str, _Lane[T]] = OrderedDict()
        self._tickets: dict[int, str] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._tickets)

    def add(self, who: str, cost: int, item: T) -> int:
        """The last of its key. The ticket is what it can be taken out by."""
        self._last += 1
        lane = self._lanes.get(who)
        if lane is None:
            lane = self._lanes[who] = _Lane()
        lane.line[self._last] = (max(1, cost), item)
        self._tickets[self._last] = who
        return self._last

    def remove(self, ticket: int) -> bool:
        """It does not wait any more. False if it was not waiting."""
        who = self._tickets.pop(ticket, None)
        if who is None:
            return False
        del self._lanes[who].line[ticket]
        self._close_if_empty(who)
        return True

    def take(self) -> T | None:
        """The one whose turn it is; None if nobody waits."""
        passed_over = 0
        while self._lanes:
            who, lane = next(iter(self._lanes.items()))
            if not lane.is_at_turn:
                lane.is_at_turn = True
                lane.deficit += self._quantum
            if lane.cost <= lane.deficit:
                return self._first_of(who, lane)
            lane.is_at_turn = False
            self._lanes.move_to_end(who)
            passed_over += 1
            if passed_over == len(self._lanes):
                self._skip_rounds()
                passed_over = 0
        return None

    def clear(self) -> list[T]:
        """Everybody, in no order; nobody waits afterwards."""
        everybody = [item for lane in self._lanes.values() for _, item in lane.line.values()]
        self._lanes.clear()
        self._tickets.clear()
        return everybody

    def _first_of(self, who: str, lane: _Lane[T]) -> T:
        ticket, (cost, item) = lane.line.popitem(last=False)
        lane.deficit -= cost
        del self._tickets[ticket]
        self._close_if_empty(who)
        return item

    def _close_if_empty(self, who: str) -> None:
        """Who has nobody waiting saves nothing up."""
        if not self._lanes[who].line:
            del self._lanes[who]

    def _skip_rounds(self) -> None:
        """A whole round was too dear for everybody: the rounds in which that stays so are done in one step."""
        rounds = min((lane.cost - lane.deficit - 1) // self._quantum for lane in self._lanes.values())
        for lane in self._lanes.values():
            lane.deficit += rounds * self._quantum
