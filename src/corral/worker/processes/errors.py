"""What can go wrong with an engine, as errors that a job reports as they are."""

from __future__ import annotations

from corral.domain.errors import Conflict, CorralError, Unprocessable


class EngineFailed(Unprocessable):
    """The engine did not become ready."""

    code = "engine_failed"


class ProcessStopping(Conflict):
    """The process is being stopped."""

    code = "process_stopping"


class AddressMismatch(Conflict):
    """The process has another address."""

    code = "address_mismatch"


class StopFailed(CorralError):
    """The process could not be ended."""

    code = "stop_failed"


class BadManifest(Unprocessable):
    """The backend's manifest cannot be run."""

    code = "bad_manifest"


class NoFreePort(Conflict):
    """Every port of the range is taken."""

    code = "no_free_port"
