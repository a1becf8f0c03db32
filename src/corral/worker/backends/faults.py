"""Why a backend could not be installed.

The code of a fault decides what the control plane does next: a `SourceFailed` is tried again later, an
`InstallFailed` ends the attempt for good.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from corral.domain.errors import Unavailable, Unprocessable

# A quota and a limit on a file's size end like a full disk: what is to be written does not fit.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class SourceFailed(Unavailable):
    """The source of a backend does not deliver."""

    code = "source_unavailable"


class InstallFailed(Unprocessable):
    """The backend cannot be installed."""

    code = "install_failed"


def disk_full(what: str) -> InstallFailed:
    return InstallFailed(
        f"The disk is full: {what}.",
        hint="Free some room on the node; `corral backends` shows what is installed there.",
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


def is_text_of_a_full_disk(text: str) -> bool:
    """For programs that only write down what went wrong."""
    return "No space left on device" in text or "os error 28" in text
