"""Limits of keys: buckets of a minute in memory, quotas of a day and a month with what the registry knows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import text

from corral.domain.access import KeyLimit, LimitBalance, Principal
from corral.domain.errors import LimitReached
from corral.domain.usage import RequestRecord
from corral.gateway.routing.key_limiter import FORGOTTEN_AFTER_S, KeyLimiter
from corral.store.database import Database
from tests.support.hand_clock import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def limits(database: Database, clock: HandClock) -> KeyLimiter:
    return KeyLimiter(database, clock)


def key(*limits: KeyLimit, key_id: str = "k1") -> Principal:
    return Principal(key_id=key_id, name="shop", limits=limits)


def ended(tokens: int, *, key_id: str = "k1", model: str = "m") -> RequestRecord:
    return RequestRecord(
        request_id="r",
        key_id=key_id,
        model=model,
        call="chat",
        status=200,
        began_at=0.0,
        queue_s=0.0,
        first_byte_s=0.0,
        total_s=0.0,
        prompt_tokens=tokens // 2,
        completion_tokens=tokens - tokens // 2,
    )


def refused(limits: KeyLimiter, principal: Principal, model: str = "m") -> LimitReached:
    with pytest.raises(LimitReached) as caught:
        limits.admit(principal, model)
    assert caught.value.status == 429
    return caught.value


async def _spend(database: Database, tokens: int, *, model: str = "m", hour: str = "now()") -> None:
    """What a frontend has counted in the registry."""
    statement = f"""
        INSERT INTO usage (hour, key_id, model, call, prompt_tokens, completion_tokens)
        VALUES (date_trunc('hour', {hour}), 'k1', :model, 'chat', :tokens, 0)
        ON CONFLICT (hour, key_id, model, call, node) DO UPDATE SET prompt_tokens = :tokens
    """
    async with database.transaction() as tx:
        await tx.execute(text(statement), {"model": model, "tokens": tokens})


async def _frontends(database: Database, count: int) -> None:
    async with database.transaction() as tx:
        await tx.execute(text("DELETE FROM frontends"))
        for number in range(count):
            row = {"id": f"f{number}", "host": "h", "port": 1, "pid": 1, "version": "1"}
            columns = "INSERT INTO frontends (id, host, port, pid, version) VALUES (:id, :host, :port, :pid, :version)"
            await tx.execute(text(columns), row)


def test_key_without_limits_is_never_refused(limits: KeyLimiter) -> None:
    for _ in range(10_000):
        limits.admit(key(), "m")


@pytest.mark.behaviour("GW-117")
def test_requests_within_the_minute_are_admitted_and_the_next_gets_a_retry_after(
    limits: KeyLimiter, clock: HandClock
) -> None:
    shop = key(KeyLimit(requests_per_minute=6))
    for _ in range(6):
        limits.admit(shop, "m")
    assert refused(limits, shop).details["retry_after_s"] == 10
    clock.now += 9.9
    refused(limits, shop)
    clock.now += 0.2
    limits.admit(shop, "m")
    refused(limits, shop)


@pytest.mark.behaviour("GW-117")
def test_rate_bucket_holds_at_most_one_minute(limits: KeyLimiter, clock: HandClock) -> None:
    shop = key(KeyLimit(requests_per_minute=3))
    limits.admit(shop, "m")
    clock.now += 86_400
    for _ in range(3):
        limits.admit(shop, "m")
    refused(limits, shop)


@pytest.mark.behaviour("GW-117")
def test_each_key_has_limits_of_its_own(limits: KeyLimiter) -> None:
    one, other = key(KeyLimit(requests_per_minute=1)), key(KeyLimit(requests_per_minute=1), key_id="k2")
    limits.admit(one, "m")
    limits.admit(other, "m")
    refused(limits, one)
    refused(limits, other)


@pytest.mark.behaviour("GW-117")
def test_limit_of_a_model_leaves_other_models_alone_and_the_one_of_all_counts_all(limits: KeyLimiter) -> None:
    shop = key(KeyLimit(model="a", requests_per_minute=1), KeyLimit(requests_per_minute=3))
    limits.admit(shop, "a")
    assert "of model a" in refused(limits, shop, "a").message
    limits.admit(shop, "b")
    limits.admit(shop, "c")
    assert "of model" not in refused(limits, shop, "b").message


@pytest.mark.behaviour("GW-117")
def test_refused_request_is_counted_nowhere(limits: KeyLimiter, clock: HandClock) -> None:
    """Neither against the limit that refused it nor against the others."""
    shop = key(KeyLimit(requests_per_minute=2), KeyLimit(model="a", requests_per_minute=1))
    limits.admit(shop, "a")
    for _ in range(5):
        refused(limits, shop, "a")
    limits.admit(shop, "b")
    refused(limits, shop, "b")
    clock.now += 60
    limits.admit(shop, "a")


def test_tokens_are_counted_when_a_request_has_ended_and_an_overdraft_is_waited_for(
    limits: KeyLimiter, clock: HandClock
) -> None:
    shop = key(KeyLimit(tokens_per_minute=600))
    limits.admit(shop, "m")
    limits.admit(shop, "m")
    limits.on_requests_ended(ended(599))
    limits.admit(shop, "m")
    limits.on_requests_ended(ended(601))
    assert refused(limits, shop).details["retry_after_s"] == pytest.approx(61, abs=1)
    clock.now += 59
    refused(limits, shop)
    clock.now += 3
    limits.admit(shop, "m")


def test_tokens_of_another_model_or_key_do_not_count(limits: KeyLimiter) -> None:
    shop = key(KeyLimit(model="a", tokens_per_minute=100))
    limits.admit(shop, "a")
    limits.on_requests_ended(ended(1000, model="b"))
    limits.on_requests_ended(ended(1000, key_id="k2", model="a"))
    limits.on_requests_ended(replace(ended(0, model="a"), prompt_tokens=None, completion_tokens=None))
    limits.admit(shop, "a")


@pytest.mark.behaviour("GW-119")
async def test_frontends_share_a_minutes_limit_and_a_small_share_still_lets_one_through(
    limits: KeyLimiter, database: Database
) -> None:
    await _frontends(database, 3)
    await limits.tick()
    shop, small = key(KeyLimit(requests_per_minute=9)), key(KeyLimit(requests_per_minute=1), key_id="k2")
    for _ in range(3):
        limits.admit(shop, "m")
    assert refused(limits, shop).details["retry_after_s"] == 20
    limits.admit(small, "m")
    assert refused(limits, small).details["retry_after_s"] == 180


@pytest.mark.behaviour("GW-120")
async def test_quota_counts_what_the_registry_knows_and_what_was_spent_here_since(
    limits: KeyLimiter, database: Database
) -> None:
    await _spend(database, 400)
    shop = key(KeyLimit(tokens_per_day=1000))
    limits.admit(shop, "m")
    assert await limits.tick() == 1
    limits.on_requests_ended(ended(599))
    limits.admit(shop, "m")
    limits.on_requests_ended(ended(1))
    error = refused(limits, shop)
    assert error.slug == "insufficient_quota"
    assert 0 < int(str(error.details["retry_after_s"])) <= 86_400


@pytest.mark.behaviour("GW-120")
async def test_spending_is_counted_once_while_it_is_written_to_the_registry(
    limits: KeyLimiter, database: Database
) -> None:
    shop = key(KeyLimit(tokens_per_day=1000))
    limits.admit(shop, "m")
    limits.on_requests_ended(ended(900))
    await limits.tick()
    limits.admit(shop, "m")
    await _spend(database, 900)
    await limits.tick()
    limits.admit(shop, "m")
    limits.on_requests_ended(ended(100))
    refused(limits, shop)
    await limits.tick()
    refused(limits, shop)


@pytest.mark.behaviour("GW-120")
async def test_spending_of_other_frontends_counts_after_the_next_read(limits: KeyLimiter, database: Database) -> None:
    shop = key(KeyLimit(tokens_per_month=1000))
    limits.admit(shop, "m")
    await limits.tick()
    limits.admit(shop, "m")
    await _spend(database, 600, model="a")
    await _spend(database, 400, model="b")
    limits.admit(shop, "m")
    await limits.tick()
    refused(limits, shop)


@pytest.mark.behaviour("GW-120")
async def test_earlier_month_is_another_quota(limits: KeyLimiter, database: Database) -> None:
    await _spend(database, 5000, hour="now() - interval '40 days'")
    shop = key(KeyLimit(tokens_per_month=1000, tokens_per_day=1000))
    limits.admit(shop, "m")
    await limits.tick()
    limits.admit(shop, "m")


@pytest.mark.behaviour("GW-120")
async def test_daily_quota_is_whole_again_at_the_end_of_the_day_also_without_postgresql(
    limits: KeyLimiter, clock: HandClock
) -> None:
    shop = key(KeyLimit(tokens_per_day=1000))
    limits.admit(shop, "m")
    await limits.tick()
    limits.on_requests_ended(ended(1000))
    left_s = int(str(refused(limits, shop).details["retry_after_s"]))
    clock.now += left_s - 2
    refused(limits, shop)
    clock.now += 3
    limits.admit(shop, "m")
    limits.on_requests_ended(ended(1000))
    refused(limits, shop)


@pytest.mark.behaviour("GW-120")
async def test_key_whose_quota_was_never_read_asks_for_a_reading_at_once(database: Database, clock: HandClock) -> None:
    woken: list[int] = []
    limits = KeyLimiter(database, clock, on_new=lambda: woken.append(1))
    limits.admit(key(KeyLimit(requests_per_minute=10)), "m")
    assert woken == []
    with_quota = key(KeyLimit(tokens_per_day=1), key_id="k2")
    limits.admit(with_quota, "m")
    limits.admit(with_quota, "m")
    assert woken == [1]


async def test_limits_unused_for_a_long_time_are_forgotten_unless_they_are_overdrawn(
    limits: KeyLimiter, clock: HandClock
) -> None:
    shop, other = key(KeyLimit(tokens_per_minute=1)), key(KeyLimit(tokens_per_minute=1), key_id="k2")
    limits.admit(shop, "m")
    limits.admit(other, "m")
    limits.on_requests_ended(ended(500))
    clock.now += FORGOTTEN_AFTER_S + 1
    await limits.tick()
    assert len(limits) == 1
    refused(limits, shop)


@pytest.mark.behaviour("GW-132")
async def test_allowance_is_that_of_the_tightest_limit(limits: KeyLimiter, clock: HandClock) -> None:
    asking = key(
        KeyLimit(requests_per_minute=60, tokens_per_minute=600, tokens_per_day=1000),
        KeyLimit(model="m", requests_per_minute=10),
        KeyLimit(model="other", requests_per_minute=1),
    )
    limits.admit(asking, "m")
    limits.on_requests_ended(ended(100))
    left = limits.compute_allowance(asking, "m")
    assert left.requests == LimitBalance(limit=10, remaining=9, reset_s=6.0)
    assert left.tokens == LimitBalance(limit=600, remaining=500, reset_s=10.0)
    clock.now += 6.0
    limits.on_requests_ended(ended(500))
    assert limits.compute_allowance(asking, "m").tokens == LimitBalance(limit=600, remaining=60, reset_s=54.0)
    clock.now += 60.0
    left = limits.compute_allowance(asking, "m")
    assert left.requests == LimitBalance(limit=10, remaining=10, reset_s=0.0)
    assert left.tokens is not None
    assert (left.tokens.limit, left.tokens.remaining) == (1000, 400)
    assert limits.compute_allowance(key(KeyLimit(requests_per_minute=1), key_id="k2"), "m").tokens is None


@pytest.mark.behaviour("GW-132")
async def test_allowance_is_the_share_of_this_frontend(limits: KeyLimiter, database: Database) -> None:
    await _frontends(database, 3)
    await limits.tick()
    asking = key(KeyLimit(requests_per_minute=9, tokens_per_minute=30))
    limits.admit(asking, "m")
    limits.on_requests_ended(ended(20))
    left = limits.compute_allowance(asking, "m")
    assert left.requests == LimitBalance(limit=9, remaining=2, reset_s=20.0)
    assert left.tokens == LimitBalance(limit=30, remaining=0, reset_s=120.0)


@pytest.mark.behaviour("BATCH-12")
async def test_requests_in_the_background_leave_half_of_the_limits_of_their_key(
    limits: KeyLimiter, clock: HandClock
) -> None:
    person = key(KeyLimit(requests_per_minute=10, tokens_per_minute=100))
    batch = replace(person, is_background=True)
    for _ in range(5):
        limits.admit(batch, "m")
    assert refused(limits, batch).details["retry_after_s"] == 6
    for _ in range(5):
        limits.admit(person, "m")
    refused(limits, person)
    clock.now += 60
    limits.admit(batch, "m")
    limits.on_requests_ended(ended(60))
    refused(limits, batch)
    limits.admit(person, "m")


async def test_limit_that_cannot_be_divided_is_open_to_the_background(limits: KeyLimiter) -> None:
    batch = replace(key(KeyLimit(requests_per_minute=1)), is_background=True)
    limits.admit(batch, "m")
    refused(limits, batch)
