"""Why a file could not be had.

The class decides what happens next: a `SourceFailed` is tried again later, a `TransferFailed` ends the attempt for
good. Their codes are the same for backends and for models.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from corral.domain.errors import Unavailable, Unprocessable

# A quota and a limit on a file's size end like a full disk: what is to be written does not fit.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class SourceFailed(Unavailable):
    """The source of a file does not deliver."""

    code = "source_unavailable"


class TransferFailed(Unprocessable):
    """The file cannot be had."""

    code = "transfer_failed"


def disk_full(what: str) -> TransferFailed:
    return TransferFailed(
        f"The disk is full: {what}.",
        hint="Free some room on that machine; `corral backends` shows what is installed on a node.",
        code="disk_full",
    )


@contextlib.contextmanager
def told_when_full(doing: str) -> Iterator[None]:
    """A disk that fills up in this block becomes `disk_full`."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise disk_full(f"there was no room left while {doing} ({error.strerror})") from error
        raise
