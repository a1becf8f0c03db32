"""Counting requests: the one place where the numbers of `/metrics` and of `corral top` come from.

Guarantee: every request that has ended is counted once, a sum never falls, and what is kept is bounded by the models
and replicas that there are: what has gone is added up under its model, and a model that has gone under no name.
What has ended is noted at once and counted some requests later, or when somebody asks.
Limit: the numbers are of this process since its start. Nothing is locked: it belongs to one event loop.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import NamedTuple

from corral.domain.answered import Answered, Origin
from corral.insight.histogram import QUEUE_BOUNDS, REQUEST_BOUNDS, TOKEN_BOUNDS, Histogram

# What is counted under no name of its own.
OTHER = "other"
# More rows than a cluster has replicas; what comes beyond it is counted together.
ROWS_MAX = 10_000
# So many are counted together: the code that counts is then at hand in the processor's cache, which it is not between
# two requests, and that is most of its time.
TOGETHER = 128
# Codes of errors are slugs of ours; an engine's own can be anything.
CODES_MAX = 200
_OURS = (Origin.GATEWAY, Origin.ENGINE)


class Place(NamedTuple):
    """What a row is about. Without a replica: none was reached."""

    model: str
    call: str
    replica_id: str = ""


class Row:
    """The sums of one place."""

    __slots__ = (
        "cached_tokens",
        "completion_tokens",
        "errors",
        "first_byte",
        "inter_token",
        "prompt_tokens",
        "queue",
        "request",
        "statuses",
        "written",
    )

    def __init__(self) -> None:
        self.request = Histogram(REQUEST_BOUNDS)
        self.first_byte = Histogram(REQUEST_BOUNDS)
        self.inter_token = Histogram(TOKEN_BOUNDS)
        self.queue = Histogram(QUEUE_BOUNDS)
        # By the first digit of the status.
        self.statuses = [0] * 10
        # Those that the client is not to blame for; also answers that began well and were cut.
        self.errors = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.completion_tokens = 0
        # Tokens as they could be seen going by: the events of streams, the tokens of other answers.
        self.written = 0

    @property
    def requests(self) -> int:
        return sum(self.statuses)

    def take(self, records: list[Answered]) -> None:
        statuses = self.statuses
        for record in records:
            statuses[record.status // 100] += 1
        self.errors += sum([record.origin in _OURS for record in records])
        # Not those that were turned away: how long that took would only blur how long answers take.
        tried = [record for record in records if record.attempts]
        self.request.observe([record.total_s for record in tried])
        self.queue.observe([record.queue_s for record in tried])
        self.first_byte.observe([record.first_byte_s for record in tried if record.first_byte_s is not None])
        self.inter_token.observe(
            [
                (record.total_s - record.first_byte_s) / (record.events - 1)
                for record in tried
                if record.events > 1 and record.first_byte_s is not None
            ]
        )
        self.prompt_tokens += sum([record.prompt_tokens or 0 for record in tried])
        self.cached_tokens += sum([record.cached_tokens or 0 for record in tried])
        self.completion_tokens += sum([record.completion_tokens or 0 for record in tried])
        self.written += sum([record.events if record.is_stream else record.completion_tokens or 0 for record in tried])

    def add(self, other: Row) -> None:
        self.request.add(other.request)
        self.first_byte.add(other.first_byte)
        self.inter_token.add(other.inter_token)
        self.queue.add(other.queue)
        self.statuses = [mine + its for mine, its in zip(self.statuses, other.statuses, strict=True)]
        self.errors += other.errors
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        self.completion_tokens += other.completion_tokens
        self.written += other.written


class Tally:
    """A `Listener`."""

    def __init__(self) -> None:
        # Ended, and not counted yet.
        self._noted: list[Answered] = []
        self._counted: dict[tuple[str, str, str], Row] = {}
        # What was counted for replicas that have gone, by model and call.
        self._past: defaultdict[tuple[str, str], Row] = defaultdict(Row)
        self._errors: Counter[tuple[str, str]] = Counter()

    def answered(self, *records: Answered) -> None:
        self._noted += records
        if len(self._noted) >= TOGETHER:
            self._count()

    def _count(self) -> None:
        noted, self._noted = self._noted, []
        alike: defaultdict[tuple[str, str, str], list[Answered]] = defaultdict(list)
        for record in noted:
            alike[record.model, record.call, record.replica_id].append(record)
            if record.error_code:
                self._fail(record.origin.value, record.error_code)
        for key, records in alike.items():
            (self._counted.get(key) or self._open(Place(*key))).take(records)

    @property
    def _rows(self) -> dict[tuple[str, str, str], Row]:
        """With all that has ended."""
        if self._noted:
            self._count()
        return self._counted

    def rows(self) -> Iterator[tuple[Place, Row]]:
        """Of what is there now."""
        return ((Place(*key), row) for key, row in self._rows.items())

    def totals(self) -> dict[tuple[str, str], Row]:
        """By model and call, since the start; the caller's own."""
        sums: defaultdict[tuple[str, str], Row] = defaultdict(Row)
        rows = self._rows
        for (model, call), row in self._past.items():
            sums[model, call].add(row)
        for (model, call, _), row in rows.items():
            sums[model or OTHER, call].add(row)
        return dict(sums)

    def errors(self) -> dict[tuple[str, str], int]:
        """By who is to blame and code, since the start."""
        self._count()
        return dict(self._errors)

    def forget(self, models: Collection[str], replica_ids: Collection[str]) -> None:
        """These are there; what was counted for others is added up."""
        rows = self._rows
        for key in list(rows):
            model, call, replica_id = key
            if (model and model not in models) or (replica_id and replica_id not in replica_ids):
                self._past[model or OTHER, call].add(rows.pop(key))
        for model, call in list(self._past):
            if model != OTHER and model not in models:
                self._past[OTHER, call].add(self._past.pop((model, call)))

    def _open(self, place: Place) -> Row:
        if len(self._counted) >= ROWS_MAX:
            place = Place("", place.call)
        return self._counted.setdefault(place, Row())

    def _fail(self, origin: str, code: str) -> None:
        if len(self._errors) >= CODES_MAX and (origin, code) not in self._errors:
            code = OTHER
        self._errors[origin, code] += 1
