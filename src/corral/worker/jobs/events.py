"""The way out of a worker's job events.

Guarantee: putting one never waits. They leave in their order. While the bus is away only the newest of each job is
kept, and it leaves after the reconnect; whoever missed one asks (`jobs.get`).
"""

from __future__ import annotations

from collections import deque
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.bus.messages import JobEvent
from corral.bus.subjects import JOB_EVENT
from corral.domain.errors import Unavailable
from corral.ports.bus import Bus
from corral.ports.runtime import Clock
from corral.runtime.guard import Failed, attempt
from corral.runtime.loop import Loop, LoopPlan

log = structlog.get_logger(__name__)

# Many times what a worker can have to say at once.
MAX_WAITING = 1000
# A connect and every event wake it; this is for a wake that was lost.
LOOK_S = 10.0


class EventOutbox:
    """A service; `loop` is started with the jobs."""

    def __init__(self, clock: Clock, rng: Random) -> None:
        self._waiting: deque[JobEvent] = deque(maxlen=MAX_WAITING)
        self._bus: Bus | None = None
        self._node_id = ""
        self.loop = Loop(LoopPlan(name="job events", interval_s=LOOK_S), self.flush, clock, rng)

    def use(self, bus: Bus, node_id: str) -> None:
        self._bus = bus
        self._node_id = node_id

    def put(self, event: JobEvent) -> None:
        if not self._is_open:
            self._drop_all_but_newest(event.job_id)
        self._waiting.append(event)
        self.loop.wake()

    async def flush(self) -> None:
        """Send what waits, as long as the bus takes it."""
        while self._waiting and self._is_open:
            event = self._waiting.popleft()
            sent = await attempt(lambda told=event: self._publish(told))  # type: ignore[misc]  # bound at once
            if not isinstance(sent, Failed):
                continue
            if isinstance(sent.error, Unavailable):
                self._put_back(event)
                return
            log.warning("a job event cannot be sent", job=event.job_id, problem=sent.sentence)

    @property
    def _is_open(self) -> bool:
        return self._bus is not None and self._bus.is_connected

    async def _publish(self, event: JobEvent) -> None:
        assert self._bus is not None, "nothing is sent before there is a bus"
        await self._bus.publish(JOB_EVENT, event, node=self._node_id)

    def _put_back(self, event: JobEvent) -> None:
        newest = {each.job_id: each for each in (event, *self._waiting)}
        self._waiting = deque(newest.values(), maxlen=MAX_WAITING)

    def _drop_all_but_newest(self, job_id: str) -> None:
        self._waiting = deque((each for each in self._waiting if each.job_id != job_id), maxlen=MAX_WAITING)
