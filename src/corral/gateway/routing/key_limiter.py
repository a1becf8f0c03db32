"""Enforces the limits of keys in memory: requests and tokens per minute, tokens per day and per month.

A limit per minute is a bucket that fills evenly and holds a minute's worth. Each frontend has its share of the limit:
the limit divided by the number of live frontends. A quota counts the total of the registry, read every few seconds, and
what was spent here since. Limits: a client that uses one frontend only gets that frontend's share; the tokens of a
request are known when it has ended, so open requests may overrun a limit; and what other frontends have spent is seen
some seconds later.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from corral.domain.access import KeyAllowance, KeyLimit, LimitBalance, Principal
from corral.domain.errors import LimitReached
from corral.domain.usage import RequestRecord
from corral.policy.serving.rate_limit_headers import pick_tightest
from corral.ports.runtime import Clock
from corral.store import cluster as cluster_store
from corral.store import usage as store
from corral.store.database import Database

INTERVAL_S = 10.0
# How long a frontend counts as live after its last heartbeat.
FRONTEND_ALIVE_S = 20.0
# After this long without a request, buckets are full and the spending is in the registry.
FORGOTTEN_AFTER_S = 3600.0
# When the end of a period moves by more than this, a new period has begun.
_SAME_END_S = 60.0
_DAY_S = 24 * 3600.0
_DIVISIBLE_SHARE = 2
# The shortest month, until the registry says how long the current one is.
_MONTH_S = 28 * _DAY_S


@dataclass(slots=True)
class _RateBucket:
    """Holds what is left of one limit per minute; below zero, what has been overspent and is refilled first."""

    level: float
    at: float

    def fill(self, per_minute: float, now: float) -> float:
        """Refill the bucket and return its level. A share of less than one request still lets one through at a time."""
        self.level = min(max(per_minute, 1.0), self.level + (now - self.at) * per_minute / 60)
        self.at = now
        return self.level


@dataclass(slots=True)
class _QuotaPeriod:
    """Counts the tokens of one calendar day or month against a quota."""

    length_s: float
    tokens: int = 0
    ends: float = math.inf

    def count_spent(self, now: float) -> int:
        if now >= self.ends:
            self.tokens, self.ends = 0, self.ends + self.length_s
        return self.tokens

    def compute_left(self, quota: int, now: float) -> LimitBalance:
        spent = self.count_spent(now)
        return LimitBalance(limit=quota, remaining=max(0, quota - spent), reset_s=self.compute_wait_s(now))

    def compute_wait_s(self, now: float) -> float:
        """Return the seconds until the period ends."""
        return self.length_s if self.ends == math.inf else self.ends - now

    def apply_registry_total(self, tokens: int, left_s: float, now: float) -> None:
        """Apply the registry's total. Neither it nor our own count ever exceeds the true value, so the larger one is
        kept."""
        is_same = self.ends == math.inf or abs(now + left_s - self.ends) < _SAME_END_S
        self.tokens, self.ends = max(tokens, self.tokens if is_same else 0), now + left_s


@dataclass(slots=True)
class _LimitUsage:
    """Counts what one key has used of one of its limits."""

    touched: float
    requests: _RateBucket
    tokens: _RateBucket
    day: _QuotaPeriod = field(default_factory=lambda: _QuotaPeriod(_DAY_S))
    month: _QuotaPeriod = field(default_factory=lambda: _QuotaPeriod(_MONTH_S))

    def spend(self, tokens: int, now: float) -> None:
        self.tokens.level -= tokens
        for period in (self.day, self.month):
            period.count_spent(now)
            period.tokens += tokens


class KeyLimiter:
    """Decides in memory whether an API key may send another request, by its limits per minute, day and month.

    Implements `Limiter` and `RequestListener`. `on_new` is called when a quota is needed that was never read.
    """

    def __init__(self, database: Database, clock: Clock, on_new: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._clock = clock
        self.on_new = on_new
        self._frontends = 1
        self._meters: dict[tuple[str, str], _LimitUsage] = {}
        # Keys with a quota that have sent requests since the registry was read.
        self._active_keys: set[str] = set()

    def __len__(self) -> int:
        """Return how many limits are being counted."""
        return len(self._meters)

    def admit(self, principal: Principal, model: str) -> None:
        if not principal.limits:
            return
        now = self._clock.monotonic()
        counted = [
            (limit, self._ensure_usage(principal.key_id, limit, now))
            for limit in principal.limits
            if limit.model in ("", model)
        ]
        for limit, meter in counted:
            self._check(principal, limit, meter, now)
        for _, meter in counted:
            meter.requests.level -= 1

    def check_requests(self, principal: Principal) -> None:
        self._check_request_limits(principal)

    def charge(self, principal: Principal) -> None:
        for meter in self._check_request_limits(principal):
            meter.requests.level -= 1

    def _check_request_limits(self, principal: Principal) -> list[_LimitUsage]:
        """Return the usage of all request limits of the key, for any model. Raises `LimitReached`."""
        now = self._clock.monotonic()
        limits = [limit for limit in principal.limits if limit.requests_per_minute is not None]
        counted = [(limit, self._ensure_usage(principal.key_id, limit, now)) for limit in limits]
        for limit, meter in counted:
            self._check_requests(principal, limit, meter, now)
        return [meter for _, meter in counted]

    def compute_allowance(self, principal: Principal, model: str) -> KeyAllowance:
        """Return what is left now of the tightest limit that holds for this model."""
        now = self._clock.monotonic()
        requests: list[LimitBalance] = []
        tokens: list[LimitBalance] = []
        for limit in principal.limits:
            if limit.model not in ("", model):
                continue
            meter = self._ensure_usage(principal.key_id, limit, now)
            if limit.requests_per_minute is not None:
                requests.append(self._compute_left(limit.requests_per_minute, meter.requests, now))
            if limit.tokens_per_minute is not None:
                tokens.append(self._compute_left(limit.tokens_per_minute, meter.tokens, now))
            if limit.tokens_per_day is not None:
                tokens.append(meter.day.compute_left(limit.tokens_per_day, now))
            if limit.tokens_per_month is not None:
                tokens.append(meter.month.compute_left(limit.tokens_per_month, now))
        return KeyAllowance(requests=pick_tightest(requests), tokens=pick_tightest(tokens))

    def on_requests_ended(self, *records: RequestRecord) -> None:
        if self._meters:  # A key with limits has sent a request.
            for record in records:
                self._spend(record)

    def _spend(self, record: RequestRecord) -> None:
        tokens = (record.prompt_tokens or 0) + (record.completion_tokens or 0)
        if not tokens:
            return
        now = self._clock.monotonic()
        for model in ("", record.model):
            meter = self._meters.get((record.key_id, model))
            if meter is not None:
                meter.spend(tokens, now)

    async def tick(self) -> int:
        """Read how many frontends share the limits, and what the active keys have spent. Return the number of those
        keys."""
        active_keys = frozenset(self._active_keys)
        async with self._database.transaction() as tx:
            frontends = await cluster_store.list_frontends(tx, FRONTEND_ALIVE_S)
            spending = await store.read_spending(tx, active_keys)
        self._active_keys -= active_keys
        now = self._clock.monotonic()
        self._frontends = max(1, sum(frontend.alive for frontend in frontends))
        self._apply_spending(active_keys, spending, now)
        self._forget(now)
        return len(active_keys)

    def _apply_spending(self, keys: frozenset[str], spending: store.SpendingSnapshot, now: float) -> None:
        totals: dict[tuple[str, str], tuple[int, int]] = {}
        for spent in spending.spent:
            for name in ("", spent.model):
                day, month = totals.get((spent.key_id, name), (0, 0))
                totals[spent.key_id, name] = (day + spent.day, month + spent.month)
        for meter_key, meter in self._meters.items():
            if meter_key[0] in keys:
                day, month = totals.get(meter_key, (0, 0))
                meter.day.apply_registry_total(day, spending.day_left_s, now)
                meter.month.apply_registry_total(month, spending.month_left_s, now)

    def _forget(self, now: float) -> None:
        self._meters = {
            meter_key: meter
            for meter_key, meter in self._meters.items()
            if meter.touched > now - FORGOTTEN_AFTER_S or meter.tokens.level < 0
        }

    def _ensure_usage(self, key_id: str, limit: KeyLimit, now: float) -> _LimitUsage:
        meter_key = (key_id, limit.model)
        meter = self._meters.get(meter_key)
        if meter is None:
            # A new bucket is full; `fill` cuts the level to the limit.
            meter = _LimitUsage(now, _RateBucket(math.inf, now), _RateBucket(math.inf, now))
            self._meters[meter_key] = meter
            if limit.has_quota:
                self.on_new()
        meter.touched = now
        if limit.has_quota:
            self._active_keys.add(key_id)
        return meter

    def _compute_left(self, per_minute: int, bucket: _RateBucket, now: float) -> LimitBalance:
        share = per_minute / self._frontends
        level = bucket.fill(share, now)
        return LimitBalance(
            limit=per_minute, remaining=max(0, int(level)), reset_s=(max(share, 1.0) - level) * 60 / share
        )

    def _compute_reserve(self, principal: Principal, per_minute: int) -> float:
        """Return how much of a limit per minute is left to the key's other requests: half of it, if these requests are
        in the background. A share of less than two requests cannot be divided."""
        share = per_minute / self._frontends
        return share / 2 if principal.is_background and share >= _DIVISIBLE_SHARE else 0.0

    def _check(self, principal: Principal, limit: KeyLimit, meter: _LimitUsage, now: float) -> None:
        tokens = limit.tokens_per_minute
        self._check_requests(principal, limit, meter, now)
        reserve = 0.0 if tokens is None else self._compute_reserve(principal, tokens)
        if tokens is not None and (level := meter.tokens.fill(tokens / self._frontends, now)) <= reserve:
            wait_s = (1 + reserve - level) * 60 * self._frontends / tokens
            raise _make_limit_error(principal, limit, f"{tokens} tokens a minute", wait_s)
        quotas = ((limit.tokens_per_day, meter.day, "day"), (limit.tokens_per_month, meter.month, "month"))
        for quota, period, name in quotas:
            if quota is not None and period.count_spent(now) >= quota:
                wait_s = period.compute_wait_s(now)
                raise _make_limit_error(principal, limit, f"{quota} tokens a {name}", wait_s, code="insufficient_quota")

    def _check_requests(self, principal: Principal, limit: KeyLimit, meter: _LimitUsage, now: float) -> None:
        requests = limit.requests_per_minute
        reserve = 0.0 if requests is None else self._compute_reserve(principal, requests)
        if requests is not None and (level := meter.requests.fill(requests / self._frontends, now)) < 1 + reserve:
            wait_s = (1 + reserve - level) * 60 * self._frontends / requests
            raise _make_limit_error(principal, limit, f"{requests} requests a minute", wait_s)


def _make_limit_error(
    principal: Principal, limit: KeyLimit, what: str, wait_s: float, code: str | None = None
) -> LimitReached:
    of = f" of model {limit.model}" if limit.model else ""
    after_s = max(1, math.ceil(wait_s))
    return LimitReached(
        f"Key {principal.name} has used its limit of {what}{of}.",
        hint=f"Retry in {after_s} s.",
        code=code,
        details={"retry_after_s": after_s, "model": limit.model or None},
    )
