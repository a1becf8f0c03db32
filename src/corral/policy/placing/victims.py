"""The cheapest set of models on one node that together give what is missing: a small knapsack.

Exact for up to `EXACT_MAX` offers: sets are put together from the cheapest on, and given up as soon as what is left
cannot be had for less than the best set so far. Beyond that, greedy: most room for a second of regret first, and then
those go back that turned out not to be needed. Nothing is in the answer that could be left out of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from corral.domain.replica import Replica
from corral.policy.placing.keeping import Keeping

EXACT_MAX = 12

# VRAM and RAM in bytes.
Gain = tuple[int, int]


class Victim(NamedTuple):
    replica: Replica
    cost_s: float


class Offer(NamedTuple):
    victim: Victim
    gain: Gain


def total(gains: Iterable[Gain]) -> Gain:
    vram = ram = 0
    for gain in gains:
        vram += gain[0]
        ram += gain[1]
    return vram, ram


def less(short: Gain, gain: Gain) -> Gain:
    return short[0] - gain[0], short[1] - gain[1]


def is_met(short: Gain) -> bool:
    return short[0] <= 0 and short[1] <= 0


def least_cost(offers: Iterable[Offer], short: Gain) -> float:
    """No set costs less: each kind of room at the best price that anybody offers. Infinite if it cannot be had."""
    price = [math.inf, math.inf]
    offered = [0, 0]
    for victim, gain in offers:
        for kind in range(2):
            if gain[kind] > 0 and short[kind] > 0:
                offered[kind] += gain[kind]
                # A victim goes as a whole: what it gives beyond what is missing is worth nothing.
                price[kind] = min(price[kind], victim.cost_s / min(gain[kind], short[kind]))
    if any(offered[kind] < short[kind] for kind in range(2)):
        return math.inf
    return max((price[kind] * short[kind] for kind in range(2) if short[kind] > 0), default=0.0)


def cheapest_set(offers: Sequence[Offer], short: Gain, keeping: Keeping, limit_s: float) -> list[Offer] | None:
    """None: there is no set that gives enough, or none below `limit_s`."""
    ordered = sorted(
        (offer for offer in offers if _share(offer.gain, short) > 0),
        key=lambda offer: (offer.victim.cost_s, offer.victim.replica.model, offer.victim.replica.index),
    )
    found = _greedy(ordered, short, keeping)
    if len(ordered) <= EXACT_MAX:
        found = _Exact(ordered, keeping, found, limit_s).search(short)
    if found is None or sum(offer.victim.cost_s for offer in found) >= limit_s:
        return None
    return found


class _Going:
    """Counts victims against their models' minimums while a set is put together."""

    def __init__(self, keeping: Keeping) -> None:
        self._keeping = keeping
        self._models: Counter[str] = Counter()

    def add(self, replica: Replica) -> bool:
        spare = self._keeping.spare(replica.model)
        if spare == math.inf or not self._keeping.is_counted(replica):
            return True
        if self._models[replica.model] + 1 > spare:
            return False
        self._models[replica.model] += 1
        return True

    def remove(self, replica: Replica) -> None:
        if self._models[replica.model] and self._keeping.is_counted(replica):
            self._models[replica.model] -= 1


def _greedy(offers: Sequence[Offer], short: Gain, keeping: Keeping) -> list[Offer] | None:
    going = _Going(keeping)
    chosen: list[Offer] = []
    left = short
    for offer in sorted(offers, key=lambda offer: -_share(offer.gain, short) / offer.victim.cost_s):
        if is_met(left):
            break
        if _share(offer.gain, left) > 0 and going.add(offer.victim.replica):
            chosen.append(offer)
            left = less(left, offer.gain)
    if not is_met(left):
        return None
    for offer in sorted(chosen, key=lambda offer: -offer.victim.cost_s):
        without = total(other.gain for other in chosen if other is not offer)
        if is_met(less(short, without)):
            chosen.remove(offer)
    return chosen


def _share(gain: Gain, short: Gain) -> float:
    """How much of what is missing it gives: 1 is all of one kind."""
    share = 0.0
    for given, missing in zip(gain, short, strict=True):
        if missing > 0 and given > 0:
            share += min(given, missing) / missing
    return share


class _Exact:
    """Every set, the cheapest offers first, leaving out what cannot become cheaper than the best one."""

    def __init__(self, offers: Sequence[Offer], keeping: Keeping, found: list[Offer] | None, limit_s: float) -> None:
        self._offers = offers
        self._going = _Going(keeping)
        self._chosen: list[Offer] = []
        self._best = found
        self._best_s = limit_s if found is None else min(limit_s, sum(offer.victim.cost_s for offer in found))

    def search(self, short: Gain) -> list[Offer] | None:
        self._look(0, short, 0.0)
        return self._best

    def _look(self, start: int, left: Gain, spent_s: float) -> None:
        if is_met(left):
            self._best, self._best_s = list(self._chosen), spent_s
            return
        if spent_s + least_cost(self._offers[start:], left) >= self._best_s:
            return
        for number in range(start, len(self._offers)):
            offer = self._offers[number]
            cost_s = spent_s + offer.victim.cost_s
            if cost_s >= self._best_s:
                return  # The following ones cost no less.
            if _share(offer.gain, left) > 0 and self._going.add(offer.victim.replica):
                self._chosen.append(offer)
                self._look(number + 1, less(left, offer.gain), cost_s)
                self._chosen.pop()
                self._going.remove(offer.victim.replica)
