"""A request that has ended, however it ended: the one record that everybody who counts is given."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Origin(StrEnum):
    """Who is to blame for an answer that is an error."""

    NOBODY = ""
    CLIENT = "client"
    GATEWAY = "gateway"
    ENGINE = "engine"


@dataclass(slots=True, kw_only=True)
class Answered:
    """Nobody changes one that was told. It is not frozen because the hot path makes it of a `records.blank`."""

    request_id: str
    key_id: str
    # The model's own name; empty if none was found.
    model: str
    # What was asked: chat, completions, embeddings, …
    call: str
    status: int
    origin: Origin = Origin.NOBODY
    error_code: str = ""
    replica_id: str = ""
    node_name: str = ""
    # Seconds since the epoch, by this machine's clock.
    began_at: float
    # Until a replica was picked.
    queue_s: float
    # Until the engine's first byte; None: there was none.
    first_byte_s: float | None
    total_s: float
    is_stream: bool = False
    # How many events of a stream were passed on.
    events: int = 0
    # None: the engine did not say.
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    # The tokens were counted here by events because the stream ended early or its engine said nothing.
    is_estimated: bool = False
    received_bytes: int = 0
    sent_bytes: int = 0
    attempts: int = 1
    # W3C trace context that the client sent or that was made here; empty: not traced.
    traceparent: str = ""
