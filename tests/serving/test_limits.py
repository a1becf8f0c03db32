"""Limits of keys: buckets of a minute in memory, quotas of a day and a month with what the registry knows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import text

from corral.domain.access import KeyLimit, Left, Principal
from corral.domain.answered import Answered
from corral.domain.errors import LimitReached
from corral.serving.limits import FORGOTTEN_AFTER_S, Limits
from corral.store.database import Database
from tests.support.hand_clock import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def limits(database: Database, clock: HandClock) -> Limits:
    return Limits(database, clock)


def key(*limits: KeyLimit, key_id: str = "k1") -> Principal:
    return Principal(key_id=key_id, name="shop", limits=limits)


def ended(tokens: int, *, key_id: str = "k1", model: str = "m") -> Answered:
    return Answered(
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


def refused(limits: Limits, principal: Principal, model: str = "m") -> LimitReached:
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


def test_who_has_no_limits_is_never_refused(limits: Limits) -> None:
    for _ in range(10_000):
        limits.admit(key(), "m")


@pytest.mark.behaviour("GW-117")
def test_requests_of_a_minute_are_let_in_and_the_next_is_told_when_to_come_back(
    limits: Limits, clock: HandClock
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
def test_a_bucket_holds_a_minute_and_not_more_however_long_nobody_asks(limits: Limits, clock: HandClock) -> None:
    shop = key(KeyLimit(requests_per_minute=3))
    limits.admit(shop, "m")
    clock.now += 86_400
    for _ in range(3):
        limits.admit(shop, "m")
    refused(limits, shop)


@pytest.mark.behaviour("GW-117")
def test_each_key_has_limits_of_its_own(limits: Limits) -> None:
    one, other = key(KeyLimit(requests_per_minute=1)), key(KeyLimit(requests_per_minute=1), key_id="k2")
    limits.admit(one, "m")
    limits.admit(other, "m")
    refused(limits, one)
    refused(limits, other)


@pytest.mark.behaviour("GW-117")
def test_a_limit_of_a_model_leaves_other_models_alone_and_the_one_of_all_counts_all(limits: Limits) -> None:
    shop = key(KeyLimit(model="a", requests_per_minute=1), KeyLimit(requests_per_minute=3))
    limits.admit(shop, "a")
    assert "of model a" in refused(limits, shop, "a").message
    limits.admit(shop, "b")
    limits.admit(shop, "c")
    assert "of model" not in refused(limits, shop, "b").message


@pytest.mark.behaviour("GW-117")
def test_a_refused_request_is_counted_nowhere(limits: Limits, clock: HandClock) -> None:
    """Neither against the limit that refused it nor against the others."""
    shop = key(KeyLimit(requests_per_minute=2), KeyLimit(model="a", requests_per_minute=1))
    limits.admit(shop, "a")
    for _ in range(5):
        refused(limits, shop, "a")
    limits.admit(shop, "b")
    refused(limits, shop, "b")
    clock.now += 60
    limits.admit(shop, "a")


@pytest.mark.behaviour("GW-118")
def test_tokens_are_counted_when_a_request_has_ended_and_a_debt_is_waited_for(limits: Limits, clock: HandClock) -> None:
    shop = key(KeyLimit(tokens_per_minute=600))
    limits.admit(shop, "m")
    limits.admit(shop, "m")
    limits.answered(ended(599))
    limits.admit(shop, "m")
    limits.answered(ended(601))
    assert refused(limits, shop).details["retry_after_s"] == pytest.approx(61, abs=1)
    clock.now += 59
    refused(limits, shop)
    clock.now += 3
    limits.admit(shop, "m")


@pytest.mark.behaviour("GW-118")
def test_tokens_of_another_model_or_key_do_not_count(limits: Limits) -> None:
    shop = key(KeyLimit(model="a", tokens_per_minute=100))
    limits.admit(shop, "a")
    limits.answered(ended(1000, model="b"))
    limits.answered(ended(1000, key_id="k2", model="a"))
    limits.answered(replace(ended(0, model="a"), prompt_tokens=None, completion_tokens=None))
    limits.admit(shop, "a")


@pytest.mark.behaviour("GW-119")
async def test_frontends_share_a_minutes_limit_and_a_small_share_still_lets_one_through(
    limits: Limits, database: Database
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
async def test_a_quota_counts_what_the_registry_knows_and_what_was_spent_here_since(
    limits: Limits, database: Database
) -> None:
    await _spend(database, 400)
    shop = key(KeyLimit(tokens_per_day=1000))
    limits.admit(shop, "m")
    assert await limits.tick() == 1
    limits.answered(ended(599))
    limits.admit(shop, "m")
    limits.answered(ended(1))
    error = refused(limits, shop)
    assert error.slug == "insufficient_quota"
    assert 0 < int(str(error.details["retry_after_s"])) <= 86_400


@pytest.mark.behaviour("GW-120")
async def test_what_is_written_to_the_registry_is_not_counted_twice_and_not_forgotten_meanwhile(
    limits: Limits, database: Database
) -> None:
    shop = key(KeyLimit(tokens_per_day=1000))
    limits.admit(shop, "m")
    limits.answered(ended(900))
    await limits.tick()
    limits.admit(shop, "m")
    await _spend(database, 900)
    await limits.tick()
    limits.admit(shop, "m")
    limits.answered(ended(100))
    refused(limits, shop)
    await limits.tick()
    refused(limits, shop)


@pytest.mark.behaviour("GW-120")
async def test_what_other_frontends_spent_is_seen_with_the_next_reading(limits: Limits, database: Database) -> None:
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
async def test_an_earlier_month_is_another_quota(limits: Limits, database: Database) -> None:
    await _spend(database, 5000, hour="now() - interval '40 days'")
    shop = key(KeyLimit(tokens_per_month=1000, tokens_per_day=1000))
    limits.admit(shop, "m")
    await limits.tick()
    limits.admit(shop, "m")


@pytest.mark.behaviour("GW-120")
async def test_at_the_end_of_the_day_the_quota_is_whole_again_also_without_the_registry(
    limits: Limits, clock: HandClock
) -> None:
    shop = key(KeyLimit(tokens_per_day=1000))
    limits.admit(shop, "m")
    await limits.tick()
    limits.answered(ended(1000))
    left_s = int(str(refused(limits, shop).details["retry_after_s"]))
    clock.now += left_s - 2
    refused(limits, shop)
    clock.now += 3
    limits.admit(shop, "m")
    limits.answered(ended(1000))
    refused(limits, shop)


@pytest.mark.behaviour("GW-120")
async def test_a_key_whose_quota_was_never_read_asks_for_a_reading_at_once(
    database: Database, clock: HandClock
) -> None:
    woken: list[int] = []
    limits = Limits(database, clock, on_new=lambda: woken.append(1))
    limits.admit(key(KeyLimit(requests_per_minute=10)), "m")
    assert woken == []
    with_quota = key(KeyLimit(tokens_per_day=1), key_id="k2")
    limits.admit(with_quota, "m")
    limits.admit(with_quota, "m")
    assert woken == [1]


async def test_what_nobody_asked_for_in_a_long_time_is_forgotten_unless_it_is_in_debt(
    limits: Limits, clock: HandClock
) -> None:
    shop, other = key(KeyLimit(tokens_per_minute=1)), key(KeyLimit(tokens_per_minute=1), key_id="k2")
    limits.admit(shop, "m")
    limits.admit(other, "m")
    limits.answered(ended(500))
    clock.now += FORGOTTEN_AFTER_S + 1
    await limits.tick()
    assert len(limits) == 1
    refused(limits, shop)


@pytest.mark.behaviour("GW-132")
async def test_what_is_left_is_that_of_the_tightest_limit(limits: Limits, clock: HandClock) -> None:
    asking = key(
        KeyLimit(requests_per_minute=60, tokens_per_minute=600, tokens_per_day=1000),
        KeyLimit(model="m", requests_per_minute=10),
        KeyLimit(model="other", requests_per_minute=1),
    )
    limits.admit(asking, "m")
    limits.answered(ended(100))
    left = limits.allowance(asking, "m")
    assert left.requests == Left(limit=10, remaining=9, reset_s=6.0)
    assert left.tokens == Left(limit=600, remaining=500, reset_s=10.0)
    clock.now += 6.0
    limits.answered(ended(500))
    assert limits.allowance(asking, "m").tokens == Left(limit=600, remaining=60, reset_s=54.0)
    clock.now += 60.0
    left = limits.allowance(asking, "m")
    assert left.requests == Left(limit=10, remaining=10, reset_s=0.0)
    assert left.tokens is not None
    assert (left.tokens.limit, left.tokens.remaining) == (1000, 400)
    assert limits.allowance(key(KeyLimit(requests_per_minute=1), key_id="k2"), "m").tokens is None


@pytest.mark.behaviour("GW-132")
async def test_what_is_left_is_what_this_frontend_would_let_in(limits: Limits, database: Database) -> None:
    await _frontends(database, 3)
    await limits.tick()
    asking = key(KeyLimit(requests_per_minute=9, tokens_per_minute=30))
    limits.admit(asking, "m")
    limits.answered(ended(20))
    left = limits.allowance(asking, "m")
    assert left.requests == Left(limit=9, remaining=2, reset_s=20.0)
    assert left.tokens == Left(limit=30, remaining=0, reset_s=120.0)
