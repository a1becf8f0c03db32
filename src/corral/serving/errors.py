"""What a request for a model can be told instead of an answer."""

from __future__ import annotations

from typing import ClassVar

from corral.domain.errors import CorralError, NotFound, Unavailable


class ModelNotFound(NotFound):
    """There is no model of that name."""

    code = "model_not_found"


class ModelLoading(Unavailable):
    """The model is being loaded; the request has waited as long as it may."""

    code = "model_loading"


class ModelEdited(Unavailable):
    """The model was edited again and again while the request waited for it."""

    code = "model_edited"


class LoadFailed(CorralError):
    """The model could not be loaded."""

    code: ClassVar[str] = "load_failed"
    status: ClassVar[int] = 500


class NoCapacity(Unavailable):
    """The model could not be loaded now; room, a node or a source is missing."""

    code = "no_capacity"


class QueueFull(CorralError):
    """Too many requests wait for the model already."""

    code: ClassVar[str] = "queue_full"
    status: ClassVar[int] = 429
    retryable: ClassVar[bool] = True


class QueueTimeout(Unavailable):
    """No replica of the model had room in time."""

    code = "queue_timeout"


class EngineFailed(CorralError):
    """The engine did not answer, on any replica that was tried."""

    code: ClassVar[str] = "engine_failed"
    status: ClassVar[int] = 502
    retryable: ClassVar[bool] = True


class EngineSilent(CorralError):
    """The engine took the call and said nothing for too long."""

    code: ClassVar[str] = "engine_timeout"
    status: ClassVar[int] = 504
    retryable: ClassVar[bool] = True


class AnswerCut(CorralError):
    """The answer broke off after its beginning had been passed on."""

    code: ClassVar[str] = "engine_lost"
    status: ClassVar[int] = 502
    retryable: ClassVar[bool] = True


def not_twice(error: CorralError) -> EngineFailed:
    return EngineFailed(f"{error.message} What was sent cannot be told to another one.", hint="Send it again.")
