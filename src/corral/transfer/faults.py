"""Errors of transfers: why a file could not be fetched.

The class decides what happens next: a `SourceFailed` is retried later, a `TransferFailed` ends the attempt for good.
Their codes are the same for backends and for models.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from corral.domain.errors import Unavailable, Unprocessable

# A quota and a limit on a file's size end like a full disk: the bytes do not fit.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class SourceFailed(Unavailable):
    """The source of the file does not deliver it now; a later attempt may succeed."""

    code = "source_unavailable"


class TransferFailed(Unprocessable):
    """The file cannot be transferred; another attempt would fail as well."""

    code = "transfer_failed"


def make_disk_full_error(what: str) -> TransferFailed:
    return TransferFailed(
        f"The disk is full: {what}.",
        hint="Free some room on that machine; `corral backends` shows what is installed on a node.",
        code="disk_full",
    )


@contextlib.contextmanager
def translate_disk_full(activity: str) -> Iterator[None]:
    """Turn a disk that fills up in this block into `disk_full`."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise make_disk_full_error(f"there was no room left while {activity} ({error.strerror})") from error
        raise
