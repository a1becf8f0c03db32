"""The table of answers that say no."""

from __future__ import annotations

import pytest

from corral.domain.errors import (
    BootSuperseded,
    Conflict,
    CorralError,
    InvalidRequest,
    NameTaken,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    StoreUnavailable,
    TooLarge,
    Unavailable,
    Unprocessable,
)
from corral.worker.membership import (
    EAGER_ATTEMPTS,
    EAGER_PAUSE_S,
    MembershipDecision,
    compute_registration_pause_s,
    decide_after_failed_heartbeat,
    decide_after_failed_registration,
)


def _stranger(kind: type[CorralError]) -> CorralError:
    return kind("A proxy's page.", code="unexpected_answer")


AGAIN, REGISTER, END = MembershipDecision.AGAIN, MembershipDecision.REGISTER, MembershipDecision.END
TABLE = [
    (Unavailable(), AGAIN, AGAIN),
    (StoreUnavailable(), AGAIN, AGAIN),
    (CorralError(), AGAIN, AGAIN),
    (RuntimeError("a bug"), AGAIN, AGAIN),
    (Conflict(), AGAIN, AGAIN),
    (NotFound(), AGAIN, REGISTER),
    (NotAuthenticated(), END, REGISTER),
    (NameTaken(), END, AGAIN),
    (InvalidRequest(), END, AGAIN),
    (TooLarge(), END, AGAIN),
    (NotAllowed(), END, AGAIN),
    (Unprocessable(), END, AGAIN),
    (BootSuperseded(), END, END),
    (_stranger(NotFound), AGAIN, AGAIN),
    (_stranger(InvalidRequest), AGAIN, AGAIN),
    (_stranger(Conflict), AGAIN, AGAIN),
]


@pytest.mark.parametrize(("error", "registration", "heartbeat"), TABLE, ids=lambda value: type(value).__name__)
def test_each_answer_has_its_next_step(
    error: Exception, registration: MembershipDecision, heartbeat: MembershipDecision
):
    assert decide_after_failed_registration(error, was_accepted=False) is registration
    assert decide_after_failed_heartbeat(error) is heartbeat


def test_machine_that_was_accepted_before_does_not_end_for_want_of_a_token():
    assert decide_after_failed_registration(NotAuthenticated(), was_accepted=True) is AGAIN
    assert decide_after_failed_registration(NameTaken(), was_accepted=True) is END


def test_pauses_double_up_to_half_a_minute():
    assert {compute_registration_pause_s(number) for number in range(1, EAGER_ATTEMPTS + 1)} == {EAGER_PAUSE_S}
    later = [compute_registration_pause_s(EAGER_ATTEMPTS + number) for number in range(1, 8)]
    assert later == [1, 2, 4, 8, 16, 30, 30]
    assert compute_registration_pause_s(1_000_000) == 30
