"""Decides whose turn it is: deficit round robin between keys, in tokens.

Keys with waiting items take turns. At its turn a key is given a quantum of tokens and releases the items that it can
pay for, first come first served; the rest is kept for its next turn, as long as an item of it waits.

Guarantee: no waiting key is passed over for ever, however many others come. Of two keys that both wait all the time,
neither gets ahead of the other by more than one quantum and one request. Removing an item costs the same however long
the queue is. Limit: a cost is what was expected when the request came; it is not corrected afterwards.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

QUANTUM_TOKENS = 1024

T = TypeVar("T")


class _KeyQueue(Generic[T]):
    """Holds what one key has waiting, and the tokens that it has saved up."""

    __slots__ = ("deficit", "entries", "is_at_turn")

    def __init__(self) -> None:
        self.entries: OrderedDict[int, tuple[int, T]] = OrderedDict()
        self.deficit = 0
        # Whether the key has received its quantum for the current turn.
        self.is_at_turn = False

    @property
    def cost(self) -> int:
        """Return the cost of the first item."""
        return next(iter(self.entries.values()))[0]


class FairQueue(Generic[T]):
    """Queues waiting requests of many API keys, and takes them by deficit round robin, weighed by tokens."""

    def __init__(self, quantum: int = QUANTUM_TOKENS) -> None:
        assert quantum > 0
        self._quantum = quantum
        # The queues of keys in the order of their turns, the next one first. None of them is empty.
        self._queues: OrderedDict[str, _KeyQueue[T]] = OrderedDict()
        self._tickets: dict[int, str] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._tickets)

    def add(self, key_id: str, cost: int, item: T) -> int:
        """Append an item to the queue of its key. Return the ticket with which it can be removed."""
        self._last += 1
        lane = self._queues.get(key_id)
        if lane is None:
            lane = self._queues[key_id] = _KeyQueue()
        lane.entries[self._last] = (max(1, cost), item)
        self._tickets[self._last] = key_id
        return self._last

    def remove(self, ticket: int) -> bool:
        """Remove an item. Return False if it was not waiting."""
        key = self._tickets.pop(ticket, None)
        if key is None:
            return False
        del self._queues[key].entries[ticket]
        self._remove_if_empty(key)
        return True

    def pop(self) -> T | None:
        """Remove and return the item whose turn it is; None if the queue is empty."""
        passed_over = 0
        while self._queues:
            key, lane = next(iter(self._queues.items()))
            if not lane.is_at_turn:
                lane.is_at_turn = True
                lane.deficit += self._quantum
            if lane.cost <= lane.deficit:
                return self._pop_first(key, lane)
            lane.is_at_turn = False
            self._queues.move_to_end(key)
            passed_over += 1
            if passed_over == len(self._queues):
                self._skip_rounds()
                passed_over = 0
        return None

    def clear(self) -> list[T]:
        """Remove and return all items, in no order."""
        items = [item for lane in self._queues.values() for _, item in lane.entries.values()]
        self._queues.clear()
        self._tickets.clear()
        return items

    def _pop_first(self, key_id: str, lane: _KeyQueue[T]) -> T:
        ticket, (cost, item) = lane.entries.popitem(last=False)
        lane.deficit -= cost
        del self._tickets[ticket]
        self._remove_if_empty(key_id)
        return item

    def _remove_if_empty(self, key_id: str) -> None:
        """Remove the queue of a key without items, so that it saves no tokens."""
        if not self._queues[key_id].entries:
            del self._queues[key_id]

    def _skip_rounds(self) -> None:
        """Skip rounds in which no key could pay for its first item, in one step."""
        rounds = min((lane.cost - lane.deficit - 1) // self._quantum for lane in self._queues.values())
        for lane in self._queues.values():
            lane.deficit += rounds * self._quantum
