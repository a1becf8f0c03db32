"""Decides what a worker does after a refusal. Pure: an error goes in, the next step comes out.

    error                                        registration          heartbeat
    no answer, 5xx, a proxy's page               again, later          again, soon
    409 name taken, 400, 403, 413, 422           end                   again, soon
    401                                          end, or again later   register
    404 of a frontend                            again, later          register
    409 a newer process has registered           end                   end

A 401 ends a registration only if this machine was never accepted: a person is waiting for the message then. One that
was accepted before has lost its place (removed, or a restored database) and waits for a valid token instead.

A worker ends its engines and jobs only when a frontend says that the node was removed: `is_node_removed`. "Not known"
alone may be an older database that was restored, and its engines go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from corral.domain.errors import (
    BootSuperseded,
    InvalidRequest,
    NameTaken,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    Unprocessable,
)

# A frontend that is just starting is ready within seconds, and a person is waiting: retry often, a few times.
EAGER_PAUSE_S = 0.1
EAGER_ATTEMPTS = 30
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
# A missed heartbeat is repeated well before the lease ends.
HEARTBEAT_RETRY_S = 2.0
# How `corral.client` marks a response that no frontend wrote.
_UNEXPECTED_ANSWER = "unexpected_answer"
_FINAL_ERRORS = (NameTaken, InvalidRequest, NotAllowed, Unprocessable, BootSuperseded)


class MembershipDecision(StrEnum):
    """Says what a worker does after a refused registration or heartbeat: retry, register again, or end."""

    AGAIN = "again"
    REGISTER = "register"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistration:
    """Holds the node id and approval that this worker was given with its latest registration."""

    node_id: str
    is_approved: bool


def decide_after_failed_registration(error: Exception, *, was_accepted: bool) -> MembershipDecision:
    if getattr(error, "slug", "") == _UNEXPECTED_ANSWER:
        return MembershipDecision.AGAIN
    if isinstance(error, NotAuthenticated):
        return MembershipDecision.AGAIN if was_accepted else MembershipDecision.END
    return MembershipDecision.END if isinstance(error, _FINAL_ERRORS) else MembershipDecision.AGAIN


def decide_after_failed_heartbeat(error: Exception) -> MembershipDecision:
    if getattr(error, "slug", "") == _UNEXPECTED_ANSWER:
        return MembershipDecision.AGAIN
    if isinstance(error, BootSuperseded):
        return MembershipDecision.END
    return MembershipDecision.REGISTER if isinstance(error, NotFound | NotAuthenticated) else MembershipDecision.AGAIN


def is_node_removed(error: Exception) -> bool:
    """Whether a frontend says that an admin has removed the node."""
    return isinstance(error, NotFound) and error.slug == "node_not_found" and error.details.get("is_removed") is True


def compute_registration_pause_s(failures: int) -> float:
    """Return the pause: ten times a second for three seconds, then 1, 2, 4, … 30 seconds; the caller adds jitter."""
    assert failures > 0, "there is no pause before the first attempt"
    if failures <= EAGER_ATTEMPTS:
        return EAGER_PAUSE_S
    return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures - EAGER_ATTEMPTS - 1, 10)))
