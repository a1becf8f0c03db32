"""Numbers, joins and bounds the entries of one run's trace on their way to a frontend.

Deltas of text are joined as long as they wait; an entry gets its number when it is first sent and does not change
afterwards, so a delivery that is repeated has the same entries. Guarantees: entries keep their order and numbers have
no gaps; no text is lost unless more than `WAITING_BYTES_MAX` wait, and then an entry says how many were left out; the
last entry (`end`) is never left out. Sizes are those of JSON without raw non-ASCII characters, the longest form that
an entry can have on the wire.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from corral.domain.run import RunEventType
from corral.ports.runtime import Clock
from corral.wire.run_work import (
    DELIVERY_BYTES_MAX,
    EVENT_BYTES_MAX,
    EVENTS_MAX,
    OUTCOME_BYTES_MAX,
    RunEventIn,
    RunOutcome,
    measure_json,
)

WAITING_BYTES_MAX = 4 * 1024 * 1024
# After a reduction so much may wait, so that the next entry does not cause another one.
_REDUCED_BYTES = WAITING_BYTES_MAX * 3 // 4
_REDUCED_EVENT_BYTES = 1024
# Number, time, type and punctuation of an entry, rounded up.
_ENVELOPE_BYTES = 200
# The field of a delta of text, see `wire/runner_protocol.py`.
TEXT_FIELD = "text"
TEXT_TYPES = frozenset({RunEventType.CONTENT, RunEventType.REASONING})
TOOL_CHARACTERS_MAX = 200


@dataclass(slots=True)
class _WaitingEvent:
    """Holds one entry that was not sent yet; the text of a delta may still grow."""

    at: datetime
    type: RunEventType
    tool: str
    data: dict[str, Any]
    size_bytes: int
    # Parts of the field `text` of a delta.
    texts: list[str] = field(default_factory=list)
    is_gap_note: bool = False

    @property
    def is_text(self) -> bool:
        return bool(self.texts)

    @property
    def must_stay(self) -> bool:
        """Return whether the entry must not be left out: the end of the run, and calls with effects, which are few
        because they wait until they are stored."""
        is_call = self.type is RunEventType.TOOL_CALL and self.data.get("is_repeatable") is not True
        return is_call or self.type is RunEventType.END

    def can_join(self, later: _WaitingEvent) -> bool:
        """Return whether two entries are deltas of one text, whatever their sizes."""
        return self.is_text and (self.type, self.tool, self.data) == (later.type, later.tool, later.data)

    def join(self, later: _WaitingEvent) -> None:
        self.texts += later.texts
        self.size_bytes += sum(_measure_text(part) for part in later.texts)

    def number(self, seq: int) -> RunEventIn:
        data = {**self.data, TEXT_FIELD: "".join(self.texts)} if self.is_text else self.data
        return RunEventIn(seq=seq, at=self.at, type=self.type, tool=self.tool, data=data)


class RunEventQueue:
    """Queues the entries of one run's trace at its worker until a frontend has stored them, in order."""

    def __init__(self, last_seq: int, clock: Clock) -> None:
        self._last_seq = last_seq
        self._clock = clock
        self._waiting: deque[_WaitingEvent] = deque()
        # How much memory the entries take that were not sent yet.
        self.waiting_bytes = 0
        # The number up to which a frontend has stored the trace.
        self._stored_seq = last_seq
        # The entries of the delivery under way, which have their numbers.
        self._batch: list[RunEventIn] = []
        self._has_end = False
        self._urgent_count = 0

    @property
    def has_urgent(self) -> bool:
        """Return whether an entry waits that is not a delta of text, or a failed delivery is to be repeated."""
        return bool(self._batch) or self._urgent_count > 0

    @property
    def has_text(self) -> bool:
        return len(self._waiting) > self._urgent_count

    @property
    def is_complete(self) -> bool:
        """Return whether a frontend has stored everything, the last entry included."""
        return self._has_end and not self._waiting and not self._batch

    @property
    def end_seq(self) -> int:
        """Return the number that the last entry will have; a smaller one if texts are joined or left out."""
        return self._last_seq + len(self._waiting)

    def is_stored(self, seq: int) -> bool:
        """Return whether a frontend has stored the trace up to this number, or everything that there is."""
        return self._stored_seq >= seq or not (self._waiting or self._batch)

    def put(self, event_type: RunEventType, tool: str, data: Mapping[str, Any]) -> None:
        """Add an entry. Ignored after the end: what a runner says about a run that is over does not count."""
        if self._has_end:
            return
        data = _clean(data)
        text = data.get(TEXT_FIELD)
        if event_type in TEXT_TYPES and isinstance(text, str):
            rest = {name: value for name, value in data.items() if name != TEXT_FIELD}
            for part in _split_text(text, EVENT_BYTES_MAX - _ENVELOPE_BYTES - measure_json(rest)):
                self._append(self._make_event(event_type, tool, rest, (part,)))
        else:
            self._append(self._make_event(event_type, tool, cut_data(data, EVENT_BYTES_MAX)))
        if self.waiting_bytes > WAITING_BYTES_MAX:
            self._reduce()

    def put_end(self, outcome: RunOutcome) -> None:
        """Add the last entry. Only the first outcome counts."""
        if self._has_end:
            return
        self._has_end = True
        data = cut_data(_clean(outcome.model_dump(mode="json")), OUTCOME_BYTES_MAX)
        self._append(self._make_event(RunEventType.END, "", data))

    def make_batch(self) -> list[RunEventIn]:
        """Return the entries to send now, at most as many as one delivery takes; the same ones until they are stored,
        except that a batch without any is made again."""
        if not self._batch:
            size_bytes = 0
            while self._waiting and len(self._batch) < EVENTS_MAX:
                size_bytes += self._waiting[0].size_bytes
                if self._batch and size_bytes > DELIVERY_BYTES_MAX:
                    break
                event = self._pop_first()
                self._last_seq += 1
                self._batch.append(event.number(self._last_seq))
        return list(self._batch)

    def acknowledge(self, last_seq: int) -> None:
        """Forget the entries that a frontend has stored; the next number is one more than its last one."""
        self._stored_seq = last_seq
        rest = [event for event in self._batch if event.seq > last_seq]
        # Numbers change only if the registry has lost entries that it had stored, or has got entries of its own.
        self._batch = [event.model_copy(update={"seq": last_seq + at}) for at, event in enumerate(rest, start=1)]
        self._last_seq = last_seq + len(rest)

    def shorten_batch(self) -> None:
        """Reduce the entries of the batch to the least that is accepted, after a frontend has refused them."""
        self._batch = [event.model_copy(update={"data": _shorten(event)}) for event in self._batch]

    # --- entries that wait ---

    def _make_event(
        self, event_type: RunEventType, tool: str, data: dict[str, Any], texts: Iterable[str] = ()
    ) -> _WaitingEvent:
        tool = tool[:TOOL_CHARACTERS_MAX]
        parts = list(texts)
        size_bytes = _ENVELOPE_BYTES + measure_json(data) + len(tool) + sum(_measure_text(part) for part in parts)
        return _WaitingEvent(
            at=self._clock.wall(), type=event_type, tool=tool, data=data, size_bytes=size_bytes, texts=parts
        )

    def _append(self, event: _WaitingEvent) -> None:
        last = self._waiting[-1] if self._waiting else None
        if last is not None and last.can_join(event) and last.size_bytes + event.size_bytes <= EVENT_BYTES_MAX:
            self.waiting_bytes -= last.size_bytes
            last.join(event)
            self.waiting_bytes += last.size_bytes
            return
        self._add(event, self._waiting.append)

    def _add(self, event: _WaitingEvent, add: Callable[[_WaitingEvent], None]) -> None:
        add(event)
        self.waiting_bytes += event.size_bytes
        self._urgent_count += not event.is_text

    def _pop_first(self) -> _WaitingEvent:
        event = self._waiting.popleft()
        self.waiting_bytes -= event.size_bytes
        self._urgent_count -= not event.is_text
        return event

    # --- too much waits ---

    def _reduce(self) -> None:
        """Let less wait: join texts that others separate, then leave out the oldest entries, unimportant ones first.

        Answers are in the outcome too; entries about tools are not, so they are cut before the oldest of them go."""
        self._replace(_join_texts(self._waiting))
        self._leave_out(lambda event: event.type is RunEventType.STATUS)
        self._leave_out(lambda event: event.is_text)
        if self.waiting_bytes > _REDUCED_BYTES:
            self._replace(map(self._cut, self._waiting))
        self._leave_out(lambda event: not event.must_stay)
        # Only a runner out of control has so many calls with effects that no frontend has stored.
        self._leave_out(lambda event: event.type is not RunEventType.END)

    def _cut(self, event: _WaitingEvent) -> _WaitingEvent:
        if event.is_text or event.type is RunEventType.END:
            return event
        shorter = self._make_event(event.type, event.tool, cut_data(event.data, _REDUCED_EVENT_BYTES))
        shorter.at, shorter.is_gap_note = event.at, event.is_gap_note
        return shorter

    def _leave_out(self, is_expendable: Callable[[_WaitingEvent], bool]) -> None:
        left_out_count, kept, excess_bytes = 0, deque[_WaitingEvent](), self.waiting_bytes - _REDUCED_BYTES
        for event in self._waiting:
            if excess_bytes > 0 and is_expendable(event) and not event.is_gap_note:
                left_out_count += 1
                excess_bytes -= event.size_bytes
            else:
                kept.append(event)
        if left_out_count:
            self._replace(kept)
            self._note_gap(left_out_count)

    def _note_gap(self, left_out_count: int) -> None:
        """Say how many entries were left out, in the first entry that waits."""
        if self._waiting and self._waiting[0].is_gap_note:
            left_out_count += self._pop_first().data["left_out"]
        note = f"{left_out_count} entries were left out here: the frontends were away for too long."
        event = self._make_event(RunEventType.STATUS, "", {"note": note, "left_out": left_out_count})
        event.is_gap_note = True
        self._add(event, self._waiting.appendleft)

    def _replace(self, events: Iterable[_WaitingEvent]) -> None:
        self._waiting = deque(events)
        self.waiting_bytes = sum(event.size_bytes for event in self._waiting)
        self._urgent_count = sum(not event.is_text for event in self._waiting)


def cut_data(data: Mapping[str, Any], limit_bytes: int) -> dict[str, Any]:
    """Return the data of an entry with its long texts cut, so that it is within the limit, and with a note about it."""
    size_bytes = measure_json(data)
    if size_bytes <= limit_bytes:
        return dict(data)
    note = {"note": f"Cut here: it had {size_bytes} bytes, and an entry has at most {limit_bytes}."}
    # The most characters for each text with which everything fits; half as many each time is near enough.
    characters = limit_bytes
    while characters:
        shorter = {**_cut_texts(data, characters), **note}
        if measure_json(shorter) <= limit_bytes:
            return shorter
        characters //= 2
    return dict(note)


def _clean(value: Any) -> Any:
    """Return the value without characters that PostgreSQL's JSON or UTF-8 cannot hold: a model may send any."""
    if isinstance(value, str):
        if value.isascii() and "\0" not in value:
            return value
        return value.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_clean(str(name)): _clean(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value


def _cut_texts(value: Any, characters: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= characters else value[:characters] + "…"
    if isinstance(value, Mapping):
        return {name: _cut_texts(item, characters) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cut_texts(item, characters) for item in value]
    return value


def _shorten(event: RunEventIn) -> dict[str, Any]:
    note = "Left out: the frontend refused this entry."
    if event.type is not RunEventType.END:
        kept: dict[str, Any] = {name: event.data[name] for name in ("call_id", "is_repeatable") if name in event.data}
        return {TEXT_FIELD: "", "note": note} if event.type in TEXT_TYPES else {**kept, "note": note}
    known = {name: event.data.get(name) for name in ("state", "reason", "error_code")}
    outcome = {name: value for name, value in known.items() if value is not None}
    return {**outcome, "content": str(event.data.get("content") or "")[: EVENT_BYTES_MAX // 16], "note": note}


def _measure_text(text: str) -> int:
    return measure_json(text)


def _split_text(text: str, limit_bytes: int) -> Iterator[str]:
    """Yield the text in parts of which each fits into one entry."""
    if _measure_text(text) <= limit_bytes:
        yield text
        return
    # A character takes at most twelve bytes, as a pair of escapes.
    step = max(1, limit_bytes // 12)
    for at in range(0, len(text), step):
        yield text[at : at + step]


def _join_texts(events: Iterable[_WaitingEvent]) -> Iterator[_WaitingEvent]:
    """Yield the entries with deltas of one text joined that only deltas of the other kind of text separate."""
    stretch: list[_WaitingEvent] = []
    for event in events:
        if not event.is_text:
            yield from stretch
            stretch = []
            yield event
            continue
        earlier = next((each for each in reversed(stretch) if each.can_join(event)), None)
        if earlier is not None and earlier.size_bytes + event.size_bytes <= EVENT_BYTES_MAX:
            earlier.join(event)
        else:
            stretch.append(event)
    yield from stretch
