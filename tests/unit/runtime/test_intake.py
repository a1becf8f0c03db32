"""What is read in one turn is taken together, in its order, and whoever breaks breaks alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.runtime.intake import CROWD, KEPT_BYTES_MAX, TAKEN_AT_ONCE, Intake

LARGE = b"x" * (KEPT_BYTES_MAX + 1)


class Taker:
    def __init__(self, said: list[tuple[str, bytes]], name: str = "") -> None:
        self._said = said
        self.name = name
        self.taken: list[bytes] = []
        self.is_broken_off = False

    def take(self, data: bytes) -> None:
        assert not self.is_broken_off
        if data == b"break":
            raise RuntimeError(self.name)
        self.taken.append(data)
        self._said.append((self.name, data))

    def break_off(self) -> None:
        self.is_broken_off = True


async def crowded(intake: Intake) -> None:
    """It has seen a crowd, so that what comes next is gathered."""
    for _ in range(CROWD):
        intake.add(Taker([]), b"crowd")
    await asyncio.sleep(0)


@pytest.mark.behaviour("GW-191")
async def test_what_a_crowd_has_sent_is_taken_when_all_of_it_has_been_read() -> None:
    intake, said = Intake(), list[tuple[str, bytes]]()
    await crowded(intake)
    ended: list[int] = []
    intake.at_end.append(lambda: ended.append(len(said)))
    takers = [Taker(said, str(number)) for number in range(5)]
    for taker in takers:
        intake.add(taker, b"a")
    assert not said
    await asyncio.sleep(0)
    assert said == [(str(number), b"a") for number in range(5)]
    assert ended == [5]


async def test_without_a_crowd_everything_is_taken_at_once() -> None:
    intake, said = Intake(), list[tuple[str, bytes]]()
    taker = Taker(said)
    intake.add(taker, b"first")
    await asyncio.sleep(0)
    for number in range(TAKEN_AT_ONCE):
        intake.add(taker, b"%d" % number)
        assert taker.taken[-1] == b"%d" % number


@pytest.mark.behaviour("GW-191")
async def test_a_large_read_is_not_kept_and_does_not_overtake() -> None:
    intake, said = Intake(), list[tuple[str, bytes]]()
    await crowded(intake)
    one, other = Taker(said, "one"), Taker(said, "other")
    intake.add(one, b"small")
    intake.add(other, LARGE)
    intake.add(one, LARGE)
    assert said == [("one", b"small"), ("other", LARGE), ("one", LARGE)]


@pytest.mark.behaviour("GW-191")
async def test_who_breaks_is_broken_off_and_the_others_go_on() -> None:
    intake, said = Intake(), list[tuple[str, bytes]]()
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    await crowded(intake)
    ended: list[None] = []
    intake.at_end.append(lambda: ended.append(None))
    before, broken, behind = Taker(said, "before"), Taker(said, "broken"), Taker(said, "behind")
    for taker, data in ((before, b"a"), (broken, b"break"), (behind, b"b"), (before, b"c")):
        intake.add(taker, data)
    await asyncio.sleep(0)
    assert said == [("before", b"a")]
    assert ended == [None]
    await asyncio.sleep(0)
    assert said == [("before", b"a"), ("behind", b"b"), ("before", b"c")]
    assert [one.is_broken_off for one in (before, broken, behind)] == [False, True, False]
    assert [str(context["exception"]) for context in told] == ["broken"]


@pytest.mark.behaviour("GW-191")
async def test_an_end_that_raises_holds_nothing_up() -> None:
    intake, said = Intake(), list[tuple[str, bytes]]()
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    await crowded(intake)

    def end() -> None:
        raise RuntimeError("at the end")

    intake.at_end.append(end)
    taker = Taker(said, "taker")
    for data in (b"a", b"b", b"c"):
        intake.add(taker, data)
    intake.add(Taker([]), b"break")
    intake.add(taker, b"d")
    for _ in range(3):
        await asyncio.sleep(0)
    intake.add(taker, b"e")
    await asyncio.sleep(0)
    assert taker.taken == [b"a", b"b", b"c", b"d", b"e"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 4), st.sampled_from([b"a", b"b", b"c", LARGE])),
        st.sampled_from(["run", "turn"]),
    ),
    max_size=60,
)


@pytest.mark.behaviour("GW-191")
@given(STEPS)
def test_each_connection_has_all_that_came_on_it_in_its_order(steps: list[Any]) -> None:
    async def scene() -> None:
        intake = Intake()
        takers = [Taker([]) for _ in range(5)]
        came: list[list[bytes]] = [[] for _ in takers]
        for step in steps:
            if step == "run":
                intake.run()
            elif step == "turn":
                await asyncio.sleep(0)
            else:
                number, data = step
                came[number].append(data)
                intake.add(takers[number], data)
            assert all(sent[: len(taker.taken)] == taker.taken for taker, sent in zip(takers, came, strict=True))
        await asyncio.sleep(0)
        assert [taker.taken for taker in takers] == came

    asyncio.run(scene())
