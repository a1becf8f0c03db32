"""Frames of changes and of progress, made once for everybody who reads the same."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime

from corral.api.events import render
from corral.api.operations.views import progress_out
from corral.bus.messages import OperationDelta
from corral.domain.cluster import Event
from corral.ports.runtime import Clock
from corral.wire.events import EventOut

PROGRESS = "operation.progress"
# Frames that are kept for the other readers. Progress of a thousand nodes is a third of a megabyte.
FRAMES_MAX = 512
BIG_FRAMES_MAX = 8


class Frames:
    """The last few frames."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changes: OrderedDict[int, tuple[Event, bytes]] = OrderedDict()
        self._progress: OrderedDict[int, tuple[OperationDelta, bytes]] = OrderedDict()

    def change(self, event: Event) -> bytes:
        # By identity: the feed and the deltas hand the same value to all, and the entry keeps it alive.
        kept = self._changes.get(id(event))
        if kept is None:
            kept = self._changes[id(event)] = (event, render(event, ()).encode())
            if len(self._changes) > FRAMES_MAX:
                self._changes.popitem(last=False)
        return kept[1]

    def progress(self, delta: OperationDelta) -> bytes:
        kept = self._progress.get(id(delta))
        if kept is None:
            kept = self._progress[id(delta)] = (delta, _delta(self._clock.wall(), delta).encode())
            if len(self._progress) > BIG_FRAMES_MAX:
                self._progress.popitem(last=False)
        return kept[1]


def _delta(at: datetime, delta: OperationDelta) -> str:
    event = EventOut(
        id="",
        kind=PROGRESS,
        key=delta.operation_id,
        at=at,
        data=progress_out(delta).model_dump(mode="json", by_alias=True, exclude_unset=True),
    )
    return f"event: {PROGRESS}\ndata: {event.model_dump_json()}\n\n"
