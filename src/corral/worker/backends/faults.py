"""Why a backend could not be installed.

The class of a fault decides what the control plane does next: a `SourceFailed` is tried again later, a
`TransferFailed` ends the attempt for good, and an `InstallFailed` is one of these.
"""

from __future__ import annotations

from corral.transfer.faults import TransferFailed


class InstallFailed(TransferFailed):
    """The backend cannot be installed."""

    code = "install_failed"


def is_text_of_a_full_disk(text: str) -> bool:
    """For programs that only write down what went wrong."""
    return "No space left on device" in text or "os error 28" in text
