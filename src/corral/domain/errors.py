"""Defines the errors that Corral raises on purpose.

    CorralError
      InvalidRequest 400     a value is wrong; the sentence names it
        UnknownSetting       a setting that does not exist, with the one that was meant
        TooLarge       413   a body over its limit
      NotAuthenticated 401   no credential, or one that is unknown, revoked or expired
      NotAllowed 403         known, but may not do this
      NotFound 404           the thing that was named does not exist
      Conflict 409           true for the caller's eyes, but not in this state
        NameTaken            a second machine with the name of a known one
        BootSuperseded       a newer process of the same node has registered
        LeaseLost            another process holds the lease by now
      Unprocessable 422      understood, and refused
      LimitReached 429       more than the caller may; `retry_after_s` in the details says when it may again
      Unavailable 503        a part that is needed does not respond; trying again may help
        StoreUnavailable, BusUnavailable, NodeUnreachable

The class says *what kind*; `code` is a stable slug for programs; the message is a sentence for people;
`hint` says what to do next. `api/errors.py` renders all of them, `cli/render.py` prints them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

# Hint for a missing extra. No package index is named: a package called corral there may belong to another project.
INSTALL_HINT = (
    "Install Corral with its extra `{extra}`: `.venv/bin/uv pip install -e '.[{extra}]'` in its checkout, or its "
    "wheel as 'corral[{extra}] @ file:///path/to/corral.whl'."
)


class CorralError(Exception):
    """Something went wrong in Corral.

    Base class of all errors that Corral raises on purpose.
    """

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str | None = None,
        *,
        hint: str | None = None,
        code: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        self.message = message or (type(self).__doc__ or "").strip().splitlines()[0]
        self.hint = hint
        self.slug = code or type(self).code
        self.details = dict(details or {})
        super().__init__(self.message)


class InvalidRequest(CorralError):
    """The request to the API is not valid."""

    code = "invalid_request"
    status = 400


class UnknownSetting(InvalidRequest):
    """There is no setting of this name."""

    code = "unknown_setting"


class TooLarge(InvalidRequest):
    """The body of the request is larger than this API route accepts."""

    code = "body_too_large"
    status = 413


class NotAuthenticated(CorralError):
    """The request needs a valid credential."""

    code = "not_authenticated"
    status = 401


class NotAllowed(CorralError):
    """The credential of the request does not allow this action."""

    code = "not_allowed"
    status = 403


class NotFound(CorralError):
    """The thing that the request names does not exist."""

    code = "not_found"
    status = 404


class Conflict(CorralError):
    """The request is not possible in the present state."""

    code = "conflict"
    status = 409


class NameTaken(Conflict):
    """Another machine already has this node name."""

    code = "name_taken"


class BootSuperseded(Conflict):
    """A newer worker process of this node has registered."""

    code = "boot_superseded"


class LeaseLost(Conflict):
    """Another process has taken over the lease in the meantime."""

    code = "lease_lost"


class Unprocessable(CorralError):
    """The request was understood and is refused, because its content cannot be used."""

    code = "unprocessable"
    status = 422


class LimitReached(CorralError):
    """The request exceeds a limit of its API key."""

    code = "rate_limit_exceeded"
    status = 429
    # The rest of the key's limits, as headers of the response.
    lines: Sequence[tuple[bytes, bytes]] = ()


class Unavailable(CorralError):
    """A part of Corral that the request needs does not respond."""

    code = "unavailable"
    status = 503
    retryable = True


class StoreUnavailable(Unavailable):
    """PostgreSQL does not respond."""

    code = "store_unavailable"


class BusUnavailable(Unavailable):
    """NATS does not respond."""

    code = "bus_unavailable"


class NodeUnreachable(Unavailable):
    """The node's worker is not connected to NATS."""

    code = "node_unreachable"
