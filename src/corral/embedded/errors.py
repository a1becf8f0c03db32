"""What can go wrong on one machine, each as a sentence with a hint."""

from __future__ import annotations

from corral.domain.errors import Conflict, InvalidRequest, Unavailable


class HomeUnusable(InvalidRequest):
    """The folder for Corral's data cannot be used."""

    code = "home_unusable"


class HomeBusy(Conflict):
    """Corral already runs on this folder."""

    code = "home_busy"


class HomeLost(Unavailable):
    """The folder for Corral's data was deleted or replaced while Corral ran on it."""

    code = "home_lost"
    retryable = False


class BinaryMissing(Unavailable):
    """A program that is needed was not found."""

    code = "binary_missing"
    retryable = False


class StartFailed(Unavailable):
    """A part of Corral did not come up."""

    code = "start_failed"
    retryable = False
