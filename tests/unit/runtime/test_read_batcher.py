"""What is read in one turn is taken together, in its order, and whoever breaks breaks alone."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from corral.runtime.read_batcher import BATCH_MIN, DIRECT_COUNT, KEPT_BYTES_MAX, ReadBatcher

LARGE = b"x" * (KEPT_BYTES_MAX + 1)


class RecordingReceiver:
    def __init__(self, received: list[tuple[str, bytes]], name: str = "") -> None:
        self._received = received
        self.name = name
        self.taken: list[bytes] = []
        self.is_broken_off = False

    def receive_data(self, data: bytes) -> None:
        assert not self.is_broken_off
        if data == b"break":
            raise RuntimeError(self.name)
        self.taken.append(data)
        self._received.append((self.name, data))

    def on_receive_error(self) -> None:
        self.is_broken_off = True


async def crowded(intake: ReadBatcher) -> None:
    """It has seen a crowd, so that what comes next is gathered."""
    for _ in range(BATCH_MIN):
        intake.add(RecordingReceiver([]), b"crowd")
    await asyncio.sleep(0)


async def test_reads_of_many_connections_are_delivered_after_the_last_read() -> None:
    intake, received = ReadBatcher(), list[tuple[str, bytes]]()
    await crowded(intake)
    ended: list[int] = []
    intake.batch_callbacks.append(lambda: ended.append(len(received)))
    takers = [RecordingReceiver(received, str(number)) for number in range(5)]
    for taker in takers:
        intake.add(taker, b"a")
    assert not received
    await asyncio.sleep(0)
    assert received == [(str(number), b"a") for number in range(5)]
    assert ended == [5]


async def test_read_batcher_delivers_at_once_without_a_crowd() -> None:
    intake, received = ReadBatcher(), list[tuple[str, bytes]]()
    taker = RecordingReceiver(received)
    intake.add(taker, b"first")
    await asyncio.sleep(0)
    for number in range(DIRECT_COUNT):
        intake.add(taker, b"%d" % number)
        assert taker.taken[-1] == b"%d" % number


async def test_large_read_is_not_kept_and_does_not_overtake() -> None:
    intake, received = ReadBatcher(), list[tuple[str, bytes]]()
    await crowded(intake)
    one, other = RecordingReceiver(received, "one"), RecordingReceiver(received, "other")
    intake.add(one, b"small")
    intake.add(other, LARGE)
    intake.add(one, LARGE)
    assert received == [("one", b"small"), ("other", LARGE), ("one", LARGE)]


async def test_receiver_that_raises_is_closed_and_the_others_continue() -> None:
    intake, received = ReadBatcher(), list[tuple[str, bytes]]()
    contexts: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    await crowded(intake)
    ended: list[None] = []
    intake.batch_callbacks.append(lambda: ended.append(None))
    before, broken, behind = (
        RecordingReceiver(received, "before"),
        RecordingReceiver(received, "broken"),
        RecordingReceiver(received, "behind"),
    )
    for taker, data in ((before, b"a"), (broken, b"break"), (behind, b"b"), (before, b"c")):
        intake.add(taker, data)
    await asyncio.sleep(0)
    assert received == [("before", b"a")]
    assert ended == [None]
    await asyncio.sleep(0)
    assert received == [("before", b"a"), ("behind", b"b"), ("before", b"c")]
    assert [one.is_broken_off for one in (before, broken, behind)] == [False, True, False]
    assert [str(context["exception"]) for context in contexts] == ["broken"]


async def test_end_that_raises_holds_nothing_up() -> None:
    intake, received = ReadBatcher(), list[tuple[str, bytes]]()
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    await crowded(intake)

    def end() -> None:
        raise RuntimeError("at the end")

    intake.batch_callbacks.append(end)
    taker = RecordingReceiver(received, "taker")
    for data in (b"a", b"b", b"c"):
        intake.add(taker, data)
    intake.add(RecordingReceiver([]), b"break")
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


@given(STEPS)
def test_each_connection_has_all_that_came_on_it_in_its_order(steps: list[Any]) -> None:
    async def scene() -> None:
        intake = ReadBatcher()
        takers = [RecordingReceiver([]) for _ in range(5)]
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
