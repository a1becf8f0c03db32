"""Why a request goes where it goes, as JSON."""

from __future__ import annotations

from pydantic import Field

from corral.wire.base import Lenient, Strict


class ExplainIn(Strict):
    model: str = Field(min_length=1, max_length=255, description="A model's name or one of its aliases.")


class CandidateOut(Lenient):
    """A replica that is given requests, with the numbers that a pick goes by."""

    replica_id: str
    node: str = Field(description="Name of its node.")
    is_picked: bool = Field(description="It would get the next request.")
    expected_s: float | None = Field(
        description="Seconds until it would have answered one more request; null: it takes none now."
    )
    in_flight: int = Field(description="Requests there, of all frontends.")
    capacity: int = Field(description="How many it works on at a time.")
    seconds: float = Field(description="How long an answer takes there.")
    is_learnt: bool = Field(description="From its own answers; otherwise those of the others, or a second.")
    breaker: str = Field(examples=["closed", "open", "half_open"])
    free_bytes: int = Field(description="Memory free on its node; who has most goes first where nothing else differs.")
    sentence: str


class LeftOutOut(Lenient):
    """A replica that is loaded and is given no requests."""

    replica_id: str
    node: str
    sentence: str


class ExplainOut(Lenient):
    model: str
    answered_by: str = Field(description="The frontend that has answered: each picks by what it knows itself.")
    policy: str = Field(examples=["least_wait", "round_robin"])
    picked: str | None = Field(description="The replica; null: the request would wait, for its turn or for a load.")
    waiting: int = Field(description="Requests that wait for this model here, and would have their turn before.")
    message: str = Field(description="What would happen, as a sentence.")
    candidates: list[CandidateOut] = Field(description="In the order in which they would be picked.")
    left_out: list[LeftOutOut] = Field(default_factory=list)
