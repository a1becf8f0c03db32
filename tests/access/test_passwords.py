"""Passwords and tries: slow hashes in threads, a few at a time; five wrong ones a minute."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from corral.access import sessions as module
from corral.access.sessions import NAMES_MAX, THREADS_MAX, WAITING_MAX, WINDOW_S, AttemptThrottle, PasswordHasher
from corral.adapters.system import SystemIdGenerator
from corral.domain.errors import LimitReached
from tests.support.hand_clock import HandClock


@pytest.mark.behaviour("GW-122")
async def test_password_is_right_or_not_and_the_same_one_is_never_hashed_the_same() -> None:
    passwords = PasswordHasher(SystemIdGenerator())
    one, other = await passwords.hash_password("pässword one"), await passwords.hash_password("pässword one")
    assert one != other
    assert await passwords.is_right_password("pässword one", one)
    assert await passwords.is_right_password("pässword one", other)
    assert not await passwords.is_right_password("pässword two", one)
    assert not await passwords.is_right_password("", one)


@pytest.mark.behaviour("GW-122")
async def test_password_check_without_a_user_fails_after_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    costs: list[tuple[int, int, int]] = []

    def counted(password: str, salt: bytes, cost: tuple[int, int, int]) -> bytes:
        del password, salt
        costs.append(cost)
        return bytes(32)

    passwords = PasswordHasher(SystemIdGenerator())
    kept = await passwords.hash_password("a password")
    monkeypatch.setattr(module, "_run_scrypt", counted)
    # Even the one whose hash is what an unknown name is compared with.
    assert not await passwords.is_right_password("anything", None)
    await passwords.is_right_password("anything", kept)
    assert costs[0] == costs[1]


@pytest.mark.behaviour("GW-122")
async def test_flood_of_tries_takes_little_memory_and_is_turned_away_in_the_end(
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

    monkeypatch.setattr(module, "_run_scrypt", slow)
    passwords = PasswordHasher(SystemIdGenerator())
    tries = [asyncio.ensure_future(passwords.is_right_password("x", None)) for _ in range(WAITING_MAX)]
    await asyncio.sleep(0)
    try:
        # One that is let in would wait for `go`: it must fail here instead of hanging.
        with pytest.raises(LimitReached):
            async with asyncio.timeout(30):
                await passwords.is_right_password("x", None)
    finally:
        go.set()
        await asyncio.gather(*tries)
    assert most == THREADS_MAX
    assert not await passwords.is_right_password("x", None)


@pytest.mark.behaviour("GW-123")
def test_tries_are_counted_for_a_minute_each() -> None:
    clock = HandClock()
    throttle = AttemptThrottle(clock, 2, "Too many.")
    throttle.count_attempt("a")
    clock.now += 30
    throttle.count_attempt("a")
    with pytest.raises(LimitReached) as caught:
        throttle.count_attempt("a")
    assert caught.value.details["retry_after_s"] == 30
    throttle.count_attempt("b")
    clock.now += 31
    throttle.count_attempt("a")
    with pytest.raises(LimitReached):
        throttle.count_attempt("a")
    throttle.forget_attempts("a")
    throttle.count_attempt("a")


@pytest.mark.behaviour("GW-123")
def test_names_are_remembered_within_a_bound() -> None:
    clock = HandClock()
    throttle = AttemptThrottle(clock, 1, "Too many.")
    for number in range(NAMES_MAX + 10):
        throttle.count_attempt(f"name-{number}")
    assert len(throttle) == NAMES_MAX
    with pytest.raises(LimitReached):
        throttle.count_attempt(f"name-{NAMES_MAX}")
    clock.now += WINDOW_S + 1
    throttle.count_attempt(f"name-{NAMES_MAX}")


@pytest.mark.behaviour("GW-122")
async def test_password_is_checked_while_all_threads_of_the_loop_wait_for_something() -> None:
    loop, over = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    stuck = loop.run_in_executor(None, over.wait)
    try:
        passwords = PasswordHasher(SystemIdGenerator())
        async with asyncio.timeout(60):
            assert await passwords.is_right_password("one", await passwords.hash_password("one"))
        assert not stuck.done()
    finally:
        over.set()
        await stuck
