"""Passwords and tries: slow hashes in threads, a few at a time; five wrong ones a minute."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from corral.access import passwords as module
from corral.access.passwords import AT_ONCE, WAITING_MAX, Passwords
from corral.access.throttle import NAMES_MAX, WINDOW_S, Throttle
from corral.adapters.system import SystemIds
from corral.domain.errors import LimitReached
from tests.support.hand_clock import HandClock


@pytest.mark.behaviour("GW-122")
async def test_a_password_is_right_or_not_and_the_same_one_is_never_hashed_the_same() -> None:
    passwords = Passwords(SystemIds())
    one, other = await passwords.hashed("pässword one"), await passwords.hashed("pässword one")
    assert one != other
    assert await passwords.is_right("pässword one", one)
    assert await passwords.is_right("pässword one", other)
    assert not await passwords.is_right("pässword two", one)
    assert not await passwords.is_right("", one)


@pytest.mark.behaviour("GW-122")
async def test_nobody_has_no_password_and_takes_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    costs: list[tuple[int, int, int]] = []

    def counted(password: str, salt: bytes, cost: tuple[int, int, int]) -> bytes:
        del password, salt
        costs.append(cost)
        return bytes(32)

    passwords = Passwords(SystemIds())
    kept = await passwords.hashed("a password")
    monkeypatch.setattr(module, "_scrypt", counted)
    # Even the one whose hash is what an unknown name is compared with.
    assert not await passwords.is_right("anything", None)
    await passwords.is_right("anything", kept)
    assert costs[0] == costs[1]


@pytest.mark.behaviour("GW-122")
async def test_a_flood_of_tries_takes_little_memory_and_is_turned_away_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running, most, counting, go = 0, 0, threading.Lock(), threading.Event()

    def slow(*_: object) -> bytes:
        nonlocal running, most
        with counting:
            running += 1
            most = max(most, running)
        go.wait()
        with counting:
            running -= 1
        return bytes(32)

    monkeypatch.setattr(module, "_scrypt", slow)
    passwords = Passwords(SystemIds())
    tries = [asyncio.ensure_future(passwords.is_right("x", None)) for _ in range(WAITING_MAX)]
    await asyncio.sleep(0)
    try:
        # One that is let in would wait for `go`: it must fail here instead of hanging.
        with pytest.raises(LimitReached):
            async with asyncio.timeout(30):
                await passwords.is_right("x", None)
    finally:
        go.set()
        await asyncio.gather(*tries)
    assert most == AT_ONCE
    assert not await passwords.is_right("x", None)


@pytest.mark.behaviour("GW-123")
def test_tries_are_counted_for_a_minute_each() -> None:
    clock = HandClock()
    throttle = Throttle(clock, 2, "Too many.")
    throttle.count("a")
    clock.now += 30
    throttle.count("a")
    with pytest.raises(LimitReached) as caught:
        throttle.count("a")
    assert caught.value.details["retry_after_s"] == 30
    throttle.count("b")
    clock.now += 31
    throttle.count("a")
    with pytest.raises(LimitReached):
        throttle.count("a")
    throttle.forget("a")
    throttle.count("a")


@pytest.mark.behaviour("GW-123")
def test_names_are_remembered_within_a_bound() -> None:
    clock = HandClock()
    throttle = Throttle(clock, 1, "Too many.")
    for number in range(NAMES_MAX + 10):
        throttle.count(f"name-{number}")
    assert len(throttle) == NAMES_MAX
    with pytest.raises(LimitReached):
        throttle.count(f"name-{NAMES_MAX}")
    clock.now += WINDOW_S + 1
    throttle.count(f"name-{NAMES_MAX}")


@pytest.mark.behaviour("GW-122")
async def test_a_password_is_checked_while_all_threads_of_the_loop_wait_for_something() -> None:
    loop, over = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    stuck = loop.run_in_executor(None, over.wait)
    try:
        passwords = Passwords(SystemIds())
        async with asyncio.timeout(60):
            assert await passwords.is_right("one", await passwords.hashed("one"))
        assert not stuck.done()
    finally:
        over.set()
        await stuck
