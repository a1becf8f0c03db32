"""Decides whether a change may replace the revision of a model, an agent or a task that its author has read. Pure."""

from __future__ import annotations

from corral.domain.errors import Conflict


def check_revision(name: str, revision: int, expects: int | None) -> None:
    """Raise `Conflict` unless the author of a change has read the present revision; None: any will do."""
    if expects is not None and expects != revision:
        raise Conflict(
            f"{name} was changed meanwhile; it is at revision {revision} now.",
            hint="Read it again, and apply the change to the new revision.",
            code="revision_conflict",
            details={"revision": revision},
        )
