"""What a worker does about an answer that says no. Pure: an error goes in, the next step comes out.

    error                                        registration          heartbeat
    no answer, 5xx, a proxy's page               again, later          again, soon
    409 name taken, 400, 403, 413, 422           end                   again, soon
    401                                          end, or again later   register
    404 of a frontend                            again, later          register
    409 a newer process has registered           end                   end

A 401 ends a registration only if this machine was never accepted: a person is waiting for the sentence then. One that
was accepted before has lost its place (removed, or a restored database) and waits for a valid token instead.

A worker ends its engines and jobs only when a frontend says that the node was removed: `was_removed`. "Not known" alone
may be an older database that was put back, and its engines go on.
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

# A frontend that is just starting is there within seconds, and a person is waiting: ask often, a few times.
EAGER_PAUSE_S = 0.1
EAGER_ATTEMPTS = 30
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
# A missed heartbeat is made up for well before the lease ends.
HEARTBEAT_RETRY_S = 2.0
# How `corral.client` marks an answer that no frontend wrote.
_STRANGER = "unexpected_answer"
_FINAL = (NameTaken, InvalidRequest, NotAllowed, Unprocessable, BootSuperseded)


class Next(StrEnum):
    AGAIN = "again"
    REGISTER = "register"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node as its worker knows it, between one registration and the next."""

    node_id: str
    is_approved: bool


def after_failed_registration(error: Exception, *, was_accepted: bool) -> Next:
    if getattr(error, "slug", "") == _STRANGER:
        return Next.AGAIN
    if isinstance(error, NotAuthenticated):
        return Next.AGAIN if was_accepted else Next.END
    return Next.END if isinstance(error, _FINAL) else Next.AGAIN


def after_failed_heartbeat(error: Exception) -> Next:
    if getattr(error, "slug", "") == _STRANGER:
        return Next.AGAIN
    if isinstance(error, BootSuperseded):
        return Next.END
    return Next.REGISTER if isinstance(error, NotFound | NotAuthenticated) else Next.AGAIN


def was_removed(error: Exception) -> bool:
    """Whether a frontend says that an admin has removed the node."""
    return isinstance(error, NotFound) and error.slug == "node_not_found" and error.details.get("is_removed") is True


def registration_pause_s(failures: int) -> float:
    """Ten times a second for three seconds, then 1, 2, 4, … 30 seconds; the caller adds chance."""
    assert failures > 0, "there is no pause before the first attempt"
    if failures <= EAGER_ATTEMPTS:
        return EAGER_PAUSE_S
    return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures - EAGER_ATTEMPTS - 1, 10)))
