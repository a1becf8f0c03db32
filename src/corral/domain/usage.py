"""Usage: the record of one inference request that has ended, and sums over an hour, a key, a model, a kind of call, a
node. Every counter gets the same record.

The records of every request are created without the cost of an `__init__` (`new_uninitialised`): a frozen dataclass
sets each field through `object.__setattr__`, and keyword arguments go through a dictionary. With two dozen fields
either takes longer than everything that is done with the record. Records that are created less often are frozen
dataclasses.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypeAlias, TypeVar

_T = TypeVar("_T")


class RecordMaker(Protocol):
    """Callable that makes an instance of a record class without running its `__init__`, which is faster."""

    def __call__(self, cls: type[_T], /) -> _T: ...


# Creates an instance without its fields; the caller sets every one of them in the next lines. A builtin, which saves
# one call.
new_uninitialised: RecordMaker = object.__new__


HOUR_S = 3600

# The key that requests are summed by: the hour in which they began (hours since the epoch), key, model, call, and the
# node's name at that time (empty: none was reached). A plain tuple, because one is made for every request.
UsageBucket: TypeAlias = tuple[int, str, str, str, str]


class ErrorOrigin(StrEnum):
    """Names which side caused the error response of an inference request: the client, the engine or the gateway."""

    NONE = ""
    CLIENT = "client"
    GATEWAY = "gateway"
    ENGINE = "engine"


@dataclass(slots=True, kw_only=True)
class RequestRecord:
    """Records one inference request that has ended, for metrics, logs and usage.

    Never changed after it was passed on.
    """

    request_id: str
    key_id: str
    # The model's own name; empty if none was found.
    model: str
    # The kind of call: chat, completions, embeddings, …
    call: str
    status: int
    origin: ErrorOrigin = ErrorOrigin.NONE
    error_code: str = ""
    replica_id: str = ""
    node_name: str = ""
    # The start in seconds since the epoch, by this machine's clock.
    began_at: float
    # Seconds until a replica was picked.
    queue_s: float
    # Seconds until the engine's first byte; None: there was none.
    first_byte_s: float | None
    total_s: float
    is_stream: bool = False
    # How many events of a stream were passed on.
    events: int = 0
    # None: the engine did not report them.
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    # The tokens were counted here by events because the stream ended early or its engine reported none.
    is_estimated: bool = False
    received_bytes: int = 0
    sent_bytes: int = 0
    attempts: int = 1
    # The W3C trace context, from the client or created here; empty: not traced.
    traceparent: str = ""
    # The run that has answered in the place of an engine; the calls that it made of models have their own records.
    run_id: str = ""


@dataclass(slots=True, kw_only=True)
class UsageSums:
    """Adds up inference requests, errors and tokens for usage reports."""

    requests: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    # The prompt tokens that the engine had cached.
    cached_tokens: int = 0
    completion_tokens: int = 0
    # The completion tokens that were counted by events because the engine reported none.
    estimated_tokens: int = 0

    def add(self, other: UsageSums) -> None:
        self.requests += other.requests
        self.errors += other.errors
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        self.completion_tokens += other.completion_tokens
        self.estimated_tokens += other.estimated_tokens


UsageBuckets: TypeAlias = dict[UsageBucket, UsageSums]


class UsageGrouping(StrEnum):
    """Names by what a usage report groups inference requests, such as by key or by model."""

    KEY = "key"
    MODEL = "model"
    USER = "user"
    CALL = "call"
    NODE = "node"
    DAY = "day"
    HOUR = "hour"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """Selects and groups the usage for a usage report; both times are rounded down to the hour."""

    since: datetime
    # The end of the range; None: until now.
    until: datetime | None = None
    by: tuple[UsageGrouping, ...] = ()
    # Filters by one key or by one user.
    key_id: str | None = None
    user_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """Holds one row of a usage report; fields by which the report is not grouped are empty."""

    # The beginning of the day or the hour, in UTC.
    at: datetime | None = None
    key_id: str = ""
    key_name: str = ""
    user_name: str = ""
    model: str = ""
    call: str = ""
    node: str = ""
    sums: UsageSums
