"""When deliveries of a trace leave, how they are repeated, and when they end: in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from corral.domain.errors import (
    Conflict,
    CorralError,
    InvalidRequest,
    NotAuthenticated,
    NotFound,
    StoreUnavailable,
    TooLarge,
    Unavailable,
)
from corral.domain.run import RunEventType
from corral.wire.run_work import (
    ApprovalDecision,
    AskAgentIn,
    AskAgentOut,
    McpServerFetchIn,
    McpServerFetchOut,
    RunEventIn,
    RunEventsIn,
    RunEventsOut,
    RunOutcome,
    RunWorkOut,
)
from corral.worker.control_plane import RunCall
from corral.worker.runs.event_queue import RunEventQueue
from corral.worker.runs.trace_sender import RunAttempt, RunTraceSender, TraceSendResult
from tests.simulation.chance import chance
from tests.simulation.clock import SimClock
from tests.simulation.run import simulate
from tests.simulation.virtual_loop import VirtualLoop

CONTENT, STATUS = RunEventType.CONTENT, RunEventType.STATUS
IDS = RunAttempt(node_id="n1", run_id="r1", job_id="j1", boot_id="b1")


class PretendTrace:
    """A control plane that keeps the trace of one run as a frontend does, with faults on demand."""

    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self.stored: list[RunEventIn] = []
        # (seconds, entries) of every call, also of those that failed.
        self.calls: list[tuple[float, list[RunEventIn]]] = []
        self.error: CorralError | None = None
        self.answers_to_lose = 0
        self.is_storing = True
        self.takes_s = 0.0
        self.in_flight = 0
        self.must_stop = False
        self.decisions: dict[str, ApprovalDecision] = {}

    async def send_run_events(self, node_id: str, run_id: str, delivery: RunEventsIn) -> RunEventsOut:
        assert (node_id, run_id, delivery.job_id, delivery.boot_id) == ("n1", "r1", "j1", "b1")
        self.calls.append((self.clock.monotonic(), list(delivery.events)))
        self.in_flight += 1
        assert self.in_flight == 1, "one delivery at a time"
        await self.clock.sleep(self.takes_s)
        self.in_flight -= 1
        if self.error is not None:
            raise self.error
        for event in delivery.events:
            if self.is_storing and event.seq == len(self.stored) + 1:
                self.stored.append(event)
        if self.answers_to_lose:
            self.answers_to_lose -= 1
            raise Unavailable("The connection broke before the answer.", code="unreachable")
        return RunEventsOut(last_seq=len(self.stored), must_stop=self.must_stop, decisions=self.decisions)

    def list_frontend_urls(self) -> tuple[str, ...]:
        return ()

    async def fetch_run(self, node_id: str, run_id: str, job_id: str) -> RunWorkOut:
        raise NotImplementedError

    async def ask_agent(self, node_id: str, run_id: str, agent: str, body: AskAgentIn) -> AskAgentOut:
        raise NotImplementedError

    async def fetch_mcp_server(self, node_id: str, body: McpServerFetchIn) -> McpServerFetchOut:
        raise NotImplementedError

    async def call_run(self, node_id: str, run_id: str, call: RunCall) -> dict[str, Any]:
        raise NotImplementedError


class SenderScene:
    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = SimClock(loop)
        self.trace = PretendTrace(self.clock)
        self.queue = RunEventQueue(0, self.clock)
        self.answers: list[RunEventsOut] = []
        rng = chance(loop.seed, "sender")
        self.sender = RunTraceSender(IDS, self.queue, self.trace, self.clock, rng, self.answers.append)
        self.task: asyncio.Task[TraceSendResult] = loop.create_task(self.sender.run())

    def say(self, text: str) -> None:
        self.queue.put(CONTENT, "", {"text": text})
        self.sender.notify()

    def put(self, **data: object) -> None:
        self.queue.put(STATUS, "", data)
        self.sender.notify()

    def end(self) -> None:
        self.queue.put_end(RunOutcome(state="completed"))
        self.sender.wake()

    async def result(self) -> TraceSendResult:
        return await self.task

    def list_times(self) -> list[float]:
        """When entries were sent, without signs of life."""
        return [round(at, 3) for at, events in self.trace.calls if events]


def play(story: Callable[[SenderScene], Awaitable[None]]) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        scene = SenderScene(loop)
        try:
            await story(scene)
        finally:
            scene.task.cancel()
            await asyncio.wait({scene.task})

    simulate(0, scenario)


def test_first_delta_leaves_at_once_and_later_ones_at_most_ten_times_a_second():
    async def story(scene: SenderScene) -> None:
        await scene.clock.sleep(1)
        for number in range(100):
            scene.say(f"{number} ")
            await scene.clock.sleep(0.01)
        await scene.clock.sleep(1)
        times = scene.list_times()
        assert times[0] == 1.0
        assert all(later - earlier >= 0.0999 for earlier, later in pairwise(times))
        assert 9 <= len(times) <= 12
        stored_text = "".join(event.data["text"] for event in scene.trace.stored)
        assert stored_text == "".join(f"{number} " for number in range(100))

    play(story)


def test_entry_that_is_no_text_leaves_at_once_with_the_text_before_it():
    async def story(scene: SenderScene) -> None:
        scene.say("a")
        await scene.clock.sleep(0.02)
        scene.say("b")
        await scene.clock.sleep(0.02)
        scene.put(step=1)
        await scene.clock.sleep(0.01)
        assert scene.list_times() == [0.0, 0.04]
        assert [event.type for event in scene.trace.stored] == [CONTENT, CONTENT, STATUS]

    play(story)


def test_silent_run_sends_a_sign_of_life_every_five_seconds():
    async def story(scene: SenderScene) -> None:
        await scene.clock.sleep(3)
        scene.put(step=1)
        await scene.clock.sleep(27.5)
        assert [round(at, 3) for at, _ in scene.trace.calls] == [3.0, 8.0, 13.0, 18.0, 23.0, 28.0]
        assert [len(events) for _, events in scene.trace.calls] == [1, 0, 0, 0, 0, 0]

    play(story)


def test_wake_fetches_decisions_at_once():
    async def story(scene: SenderScene) -> None:
        await scene.clock.sleep(1)
        scene.trace.decisions = {"c1": ApprovalDecision(approved=True)}
        scene.sender.wake()
        await scene.clock.sleep(0.01)
        assert [answer.decisions for answer in scene.answers] == [scene.trace.decisions]

    play(story)


@pytest.mark.behaviour("WRK-22")
@pytest.mark.parametrize("error", [Unavailable("Away."), StoreUnavailable("Away."), NotAuthenticated("Who?")])
def test_delivery_is_repeated_with_growing_pauses_until_frontends_are_back(error: CorralError):
    async def story(scene: SenderScene) -> None:
        scene.trace.error = error
        for number in range(50):
            scene.say(f"{number} ")
            await scene.clock.sleep(1)
        scene.end()
        assert len(scene.trace.calls) <= 30
        gaps = [later - earlier for (earlier, _), (later, _) in pairwise(scene.trace.calls)]
        assert gaps[0] < 0.5
        assert max(gaps) < 5
        scene.trace.error = None
        assert await scene.result() is TraceSendResult.STORED
        assert "".join(event.data["text"] for event in scene.trace.stored[:-1]) == "".join(f"{n} " for n in range(50))
        assert [event.seq for event in scene.trace.stored] == list(range(1, len(scene.trace.stored) + 1))
        assert len(scene.trace.stored) == 3, "what waited was joined"

    play(story)


@pytest.mark.behaviour("WRK-22")
def test_lost_answers_lead_to_no_second_entry():
    async def story(scene: SenderScene) -> None:
        scene.trace.answers_to_lose = 2
        scene.say("a")
        await scene.clock.sleep(0.3)
        scene.say("b")
        scene.end()
        assert await scene.result() is TraceSendResult.STORED
        assert [event.data.get("text") for event in scene.trace.stored] == ["a", "b", None]

    play(story)


def test_slow_frontend_gets_one_delivery_at_a_time_and_everything_in_order():
    async def story(scene: SenderScene) -> None:
        scene.trace.takes_s = 0.7
        for number in range(30):
            scene.put(number=number)
            await scene.clock.sleep(0.1)
        scene.end()
        assert await scene.result() is TraceSendResult.STORED
        assert [event.data["number"] for event in scene.trace.stored[:-1]] == list(range(30))
        assert len(scene.trace.calls) < 10

    play(story)


def test_answer_that_the_run_is_not_ours_ends_the_delivery():
    async def story(scene: SenderScene) -> None:
        scene.trace.must_stop = True
        scene.trace.decisions = {"c1": ApprovalDecision(approved=True)}
        scene.say("a")
        assert await scene.result() is TraceSendResult.NOT_OURS
        assert scene.answers == []

    play(story)


@pytest.mark.parametrize(
    ("error", "is_final"),
    [
        (NotFound("No such run.", code="run_not_found"), True),
        (Conflict("Not yours.", code="run_not_held"), True),
        (NotFound("A page of a proxy.", code="unexpected_answer"), False),
        (Conflict("Another change got in between.", code="try_again"), False),
    ],
)
def test_refusal_of_a_frontend_ends_the_delivery_and_the_page_of_a_proxy_does_not(error: CorralError, is_final: bool):
    async def story(scene: SenderScene) -> None:
        scene.trace.error = error
        scene.say("a")
        await scene.clock.sleep(1)
        assert scene.task.done() == is_final

    play(story)


@pytest.mark.parametrize("error", [TooLarge("Too large."), InvalidRequest("Bad.")])
def test_refused_entries_are_reduced_until_they_are_accepted(error: CorralError):
    async def story(scene: SenderScene) -> None:
        scene.trace.error = error
        scene.put(poison="x")
        scene.end()
        await scene.clock.sleep(0.05)
        scene.trace.error = None
        assert await scene.result() is TraceSendResult.STORED
        first, end = scene.trace.stored
        assert "poison" not in first.data
        assert end.data["state"] == "completed"

    play(story)


def test_trace_is_given_up_after_a_quarter_of_an_hour_without_an_answer():
    async def story(scene: SenderScene) -> None:
        scene.say("a")
        await scene.clock.sleep(100)
        scene.trace.error = Unavailable("Away.")
        scene.end()
        await scene.clock.sleep(14 * 60)
        assert not scene.task.done()
        assert await scene.result() is TraceSendResult.GIVEN_UP
        assert 1000 <= scene.clock.monotonic() <= 1010

    play(story)


def test_trace_goes_on_with_the_numbers_of_a_registry_that_has_lost_entries():
    async def story(scene: SenderScene) -> None:
        scene.put(number=1)
        await scene.clock.sleep(1)
        scene.trace.stored.clear()
        scene.put(number=2)
        await scene.clock.sleep(1)
        assert [event.data for event in scene.trace.stored] == [{"number": 2}]

    play(story)


def test_frontend_that_stores_nothing_is_not_called_without_pauses():
    async def story(scene: SenderScene) -> None:
        scene.trace.is_storing = False
        scene.put(number=1)
        await scene.clock.sleep(20)
        assert 5 <= len(scene.trace.calls) <= 15
        scene.trace.is_storing = True
        scene.end()
        assert await scene.result() is TraceSendResult.STORED

    play(story)
