"""How much a key may ask: requests and tokens in a minute, tokens in a day and in a month. Decided in memory.

A minute's limit is a bucket that fills evenly and holds a minute's worth. Each frontend has its share of it: the limit
divided by the number of frontends that are alive. A quota counts what the registry knows, read every few seconds, and
what was spent here since. Limits: a client that asks one frontend only gets that frontend's share; the tokens of a
request are known when it has ended, so those under way may overrun a limit; and what other frontends have spent is seen
some seconds later.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from corral.domain.access import Allowance, KeyLimit, Left, Principal
from corral.domain.answered import Answered
from corral.domain.errors import LimitReached
from corral.policy.serving.allowances import tightest
from corral.ports.runtime import Clock
from corral.store import access_spending as store
from corral.store import cluster as cluster_store
from corral.store.database import Database

INTERVAL_S = 10.0
# As long as a frontend is counted among the living after its last sign.
FRONTEND_ALIVE_S = 20.0
# What was not touched for so long has full buckets, and its spending is in the registry.
FORGOTTEN_AFTER_S = 3600.0
# When the end of a period moves by more than this, it is another period.
_SAME_END_S = 60.0
_DAY_S = 24 * 3600.0
# Of a month the least, until the registry says how long it is.
_MONTH_S = 28 * _DAY_S


@dataclass(slots=True)
class _Bucket:
    """What is left of a minute's worth. Below zero: a debt, which has to be filled up first."""

    level: float
    at: float

    def fill(self, per_minute: float, now: float) -> float:
        """The level now. A share of less than one request still lets one through at a time."""
        self.level = min(max(per_minute, 1.0), self.level + (now - self.at) * per_minute / 60)
        self.at = now
        return self.level


@dataclass(slots=True)
class _Period:
    """Tokens of a calendar day or month."""

    length_s: float
    tokens: int = 0
    ends: float = math.inf

    def spent(self, now: float) -> int:
        if now >= self.ends:
            self.tokens, self.ends = 0, self.ends + self.length_s
        return self.tokens

    def left(self, quota: int, now: float) -> Left:
        spent = self.spent(now)
        return Left(limit=quota, remaining=max(0, quota - spent), reset_s=self.wait_s(now))

    def wait_s(self, now: float) -> float:
        """Until it ends."""
        return self.length_s if self.ends == math.inf else self.ends - now

    def told(self, tokens: int, left_s: float, now: float) -> None:
        """What the registry counts. It and our own count are never more than the truth, so the larger one is right."""
        is_same = self.ends == math.inf or abs(now + left_s - self.ends) < _SAME_END_S
        self.tokens, self.ends = max(tokens, self.tokens if is_same else 0), now + left_s


@dataclass(slots=True)
class _Meter:
    """What counts against one limit of one key."""

    touched: float
    requests: _Bucket
    tokens: _Bucket
    day: _Period = field(default_factory=lambda: _Period(_DAY_S))
    month: _Period = field(default_factory=lambda: _Period(_MONTH_S))

    def spend(self, tokens: int, now: float) -> None:
        self.tokens.level -= tokens
        for period in (self.day, self.month):
            period.spent(now)
            period.tokens += tokens


class Limits:
    """A `Limiter` and a `Listener`. `on_new` is called when a quota is asked for that was never read."""

    def __init__(self, database: Database, clock: Clock, on_new: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._clock = clock
        self.on_new = on_new
        self._frontends = 1
        self._meters: dict[tuple[str, str], _Meter] = {}
        # Keys with a quota that have asked since the registry was read.
        self._asked: set[str] = set()

    def __len__(self) -> int:
        """How many limits are being counted."""
        return len(self._meters)

    def admit(self, principal: Principal, model: str) -> None:
        if not principal.limits:
            return
        now = self._clock.monotonic()
        counted = [
            (limit, self._meter(principal.key_id, limit, now))
            for limit in principal.limits
            if limit.model in ("", model)
        ]
        for limit, meter in counted:
            self._check(principal, limit, meter, now)
        for _, meter in counted:
            meter.requests.level -= 1

    def check_requests(self, principal: Principal) -> None:
        self._requests_of(principal)

    def charge(self, principal: Principal) -> None:
        for meter in self._requests_of(principal):
            meter.requests.level -= 1

    def _requests_of(self, principal: Principal) -> list[_Meter]:
        """The meters of all limits on requests that the key has, for whatever model. `LimitReached`."""
        now = self._clock.monotonic()
        limits = [limit for limit in principal.limits if limit.requests_per_minute is not None]
        counted = [(limit, self._meter(principal.key_id, limit, now)) for limit in limits]
        for limit, meter in counted:
            self._check_requests(principal, limit, meter, now)
        return [meter for _, meter in counted]

    def allowance(self, principal: Principal, model: str) -> Allowance:
        """What is left now, of the tightest of the limits that hold for this model."""
        now = self._clock.monotonic()
        requests: list[Left] = []
        tokens: list[Left] = []
        for limit in principal.limits:
            if limit.model not in ("", model):
                continue
            meter = self._meter(principal.key_id, limit, now)
            if limit.requests_per_minute is not None:
                requests.append(self._left(limit.requests_per_minute, meter.requests, now))
            if limit.tokens_per_minute is not None:
                tokens.append(self._left(limit.tokens_per_minute, meter.tokens, now))
            if limit.tokens_per_day is not None:
                tokens.append(meter.day.left(limit.tokens_per_day, now))
            if limit.tokens_per_month is not None:
                tokens.append(meter.month.left(limit.tokens_per_month, now))
        return Allowance(requests=tightest(requests), tokens=tightest(tokens))

    def answered(self, *records: Answered) -> None:
        if self._meters:  # Somebody who has limits has asked.
            for record in records:
                self._spend(record)

    def _spend(self, record: Answered) -> None:
        tokens = (record.prompt_tokens or 0) + (record.completion_tokens or 0)
        if not tokens:
            return
        now = self._clock.monotonic()
        for model in ("", record.model):
            meter = self._meters.get((record.key_id, model))
            if meter is not None:
                meter.spend(tokens, now)

    async def tick(self) -> int:
        """Read how many frontends share the limits, and what the keys that ask have spent; how many those are."""
        asked = frozenset(self._asked)
        async with self._database.transaction() as tx:
            frontends = await cluster_store.list_frontends(tx, FRONTEND_ALIVE_S)
            spending = await store.read_spending(tx, asked)
        self._asked -= asked
        now = self._clock.monotonic()
        self._frontends = max(1, sum(frontend.alive for frontend in frontends))
        self._take(asked, spending, now)
        self._forget(now)
        return len(asked)

    def _take(self, keys: frozenset[str], spending: store.Spending, now: float) -> None:
        totals: dict[tuple[str, str], tuple[int, int]] = {}
        for spent in spending.spent:
            for name in ("", spent.model):
                day, month = totals.get((spent.key_id, name), (0, 0))
                totals[spent.key_id, name] = (day + spent.day, month + spent.month)
        for place, meter in self._meters.items():
            if place[0] in keys:
                day, month = totals.get(place, (0, 0))
                meter.day.told(day, spending.day_left_s, now)
                meter.month.told(month, spending.month_left_s, now)

    def _forget(self, now: float) -> None:
        self._meters = {
            place: meter
            for place, meter in self._meters.items()
            if meter.touched > now - FORGOTTEN_AFTER_S or meter.tokens.level < 0
        }

    def _meter(self, key_id: str, limit: KeyLimit, now: float) -> _Meter:
        place = (key_id, limit.model)
        meter = self._meters.get(place)
        if meter is None:
            # Full, however much that is: filling cuts it to size.
            meter = _Meter(now, _Bucket(math.inf, now), _Bucket(math.inf, now))
            self._meters[place] = meter
            if limit.has_quota:
                self.on_new()
        meter.touched = now
        if limit.has_quota:
            self._asked.add(key_id)
        return meter

    def _left(self, per_minute: int, bucket: _Bucket, now: float) -> Left:
        share = per_minute / self._frontends
        level = bucket.fill(share, now)
        return Left(limit=per_minute, remaining=max(0, int(level)), reset_s=(max(share, 1.0) - level) * 60 / share)

    def _check(self, principal: Principal, limit: KeyLimit, meter: _Meter, now: float) -> None:
        tokens = limit.tokens_per_minute
        self._check_requests(principal, limit, meter, now)
        if tokens is not None and (level := meter.tokens.fill(tokens / self._frontends, now)) <= 0:
            wait_s = (1 - level) * 60 * self._frontends / tokens
            raise _refusal(principal, limit, f"{tokens} tokens a minute", wait_s)
        quotas = ((limit.tokens_per_day, meter.day, "day"), (limit.tokens_per_month, meter.month, "month"))
        for quota, period, name in quotas:
            if quota is not None and period.spent(now) >= quota:
                wait_s = period.wait_s(now)
                raise _refusal(principal, limit, f"{quota} tokens a {name}", wait_s, code="insufficient_quota")

    def _check_requests(self, principal: Principal, limit: KeyLimit, meter: _Meter, now: float) -> None:
        requests = limit.requests_per_minute
        if requests is not None and (level := meter.requests.fill(requests / self._frontends, now)) < 1:
            wait_s = (1 - level) * 60 * self._frontends / requests
            raise _refusal(principal, limit, f"{requests} requests a minute", wait_s)


def _refusal(principal: Principal, limit: KeyLimit, what: str, wait_s: float, code: str | None = None) -> LimitReached:
    of = f" of model {limit.model}" if limit.model else ""
    after_s = max(1, math.ceil(wait_s))
    return LimitReached(
        f"Key {principal.name} may use {what}{of}, and has.",
        hint=f"Ask again in {after_s} s.",
        code=code,
        details={"retry_after_s": after_s, "model": limit.model or None},
    )
