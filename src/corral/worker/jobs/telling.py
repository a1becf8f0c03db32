"""One job: where it is, and telling it no more often than anybody can look.

Guarantee: the first tick goes out at once, then the newest one every 250 ms at most; a change of phase goes out
undelayed with the bytes of the tick that waited, and the last word always. Numbers only grow, over restarts too: each
life takes them from a stock that was written to the journal before. The percentage never goes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from corral.bus.messages import JobEvent
from corral.domain.backend import Build
from corral.domain.operation import Fault, JobState, Phase
from corral.ports.runtime import Clock
from corral.runtime.tasks import Tasks
from corral.worker.jobs.percent import WHOLE, Window, percent_of, within
from corral.worker.jobs.record import JobRecord, Stop

DEBOUNCE_S = 0.25
# A job that moves or not says that it lives; whoever hears nothing for longer asks.
SILENCE_S = 5.0
# How many numbers one write to the journal reserves: far more than a job says until the next one.
SEQ_STOCK = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """What jobs are told with."""

    clock: Clock
    tasks: Tasks
    send: Callable[[JobEvent], None]


class Job:
    """`Report` for the work in it. Made from a record; `record()` gives the present one back."""

    def __init__(self, record: JobRecord, build: Build | None, voice: Voice) -> None:
        self.id = record.job_id
        self.kind = record.kind
        self.command = record.command
        self.backend = record.backend
        self.build = build
        self.number = record.number
        self.lives = record.lives
        self.event = record.event
        self.stop: Stop | None = record.stop
        self.keeps_partial = record.keeps_partial
        self.stop_asked = asyncio.Event()
        self.has_discarded = False
        # Where in the bar the present part of the work moves.
        self.window: Window = WHOLE
        self._saved: JobEvent | None = None
        self._reserved_seq = record.reserved_seq
        self._voice = voice
        self._phase = Phase(record.event.phase) if record.event.phase else Phase.QUEUED
        # Whether the bytes of the event were counted in the present phase.
        self._has_counted = False
        self._told_at: float | None = None
        self._trailing: asyncio.Task[Any] | None = None
        if self.stop is not None:
            self.stop_asked.set()

    @property
    def is_ended(self) -> bool:
        return JobState(self.event.state).is_final

    @property
    def is_saved(self) -> bool:
        return self._saved is self.event

    @property
    def generation(self) -> int:
        return self.event.generation

    def record(self) -> JobRecord:
        """As it is to be written now, with numbers for what is said until the next time."""
        seq = self.event.seq
        return JobRecord(
            kind=self.kind,
            command=self.command,
            backend=self.backend,
            event=self.event,
            reserved_seq=seq if self.is_ended else seq + SEQ_STOCK,
            number=self.number,
            stop=self.stop,
            keeps_partial=self.keeps_partial,
            lives=self.lives,
        )

    def written(self, record: JobRecord) -> None:
        """This is on the disk: its numbers may be used."""
        self._saved = record.event
        self._reserved_seq = max(self._reserved_seq, record.reserved_seq)

    def ask_to_stop(self, stop: Stop, *, keeps_partial: bool) -> None:
        """A pause can become a cancellation; nothing takes back a cancellation."""
        if self.stop in (None, Stop.PAUSE):
            self.stop = stop
            self.keeps_partial = keeps_partial
        self.stop_asked.set()

    # --- for the work: corral.worker.work.Report ---

    def phase(self, phase: Phase) -> None:
        if phase is self._phase or self.is_ended:
            return
        self._phase, self._has_counted = phase, False
        # The bytes stay until the next phase counts its own: a tick that was held back would be lost otherwise, here or
        # wherever only the newest event of a job is kept.
        self._note(phase=str(phase))
        self._tell()

    def moved(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        if self.is_ended:
            return
        self._has_counted = True
        self._note(current_bytes=current_bytes, total_bytes=total_bytes, file_name=file_name)
        wait_s = self._to_wait_s()
        if wait_s <= 0:
            self._tell()
        elif self._trailing is None:
            self._trailing = self._voice.tasks.start(self._tell_later(wait_s), name=f"tell {self.id}")

    # --- for the runner ---

    def running(self) -> None:
        self._note(state=str(JobState.RUNNING))
        self._tell()

    def has_stopped(self, keys: tuple[str, ...]) -> None:
        """Processes that this job has ended; told with everything that follows, an error too."""
        known = self.event.stopped
        self._note(stopped=(*known, *(key for key in keys if key not in known)))

    def keep_alive(self) -> None:
        is_silent = self._told_at is None or self._voice.clock.monotonic() - self._told_at >= SILENCE_S
        if not self.is_ended and is_silent:
            self._tell()

    def end(self, state: JobState, *, fault: Fault | None = None, result: Mapping[str, str] | None = None) -> None:
        """The last word; sent by `tell_end`, when it is on the disk."""
        assert state.is_final, f"{state} is no end"
        if self._trailing is not None:
            self._trailing.cancel()
        self.event = replace(
            self.event,
            seq=self.event.seq + 1,
            state=str(state),
            percent=100.0 if state is JobState.DONE else self.event.percent,
            error_code=fault.code if fault else "",
            error_text=fault.text if fault else "",
            result=dict(result or {}),
        )

    def tell_end(self) -> None:
        self._voice.send(self.event)

    def _note(self, **changes: Any) -> None:
        self.event = replace(self.event, **changes)
        counted = (self.event.current_bytes, self.event.total_bytes) if self._has_counted else (None, None)
        here = percent_of(self._phase, *counted)
        at_least = within(self.window, here)
        if at_least > self.event.percent:
            self.event = replace(self.event, percent=round(at_least, 1))

    def _tell(self) -> None:
        if self.event.seq >= self._reserved_seq:
            # Silent until the journal has been written again: a number that is not reserved might come twice.
            return
        self._told_at = self._voice.clock.monotonic()
        self.event = replace(self.event, seq=self.event.seq + 1)
        self._voice.send(self.event)

    def _to_wait_s(self) -> float:
        if self._told_at is None:
            return 0.0
        return self._told_at + DEBOUNCE_S - self._voice.clock.monotonic()

    async def _tell_later(self, wait_s: float) -> None:
        await self._voice.clock.sleep(wait_s)
        self._trailing = None
        # A change of phase in the meantime has told the newest already.
        remaining_s = self._to_wait_s()
        if self.is_ended:
            return
        if remaining_s > 0:
            self._trailing = self._voice.tasks.start(self._tell_later(remaining_s), name=f"tell {self.id}")
            return
        self._tell()
