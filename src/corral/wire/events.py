"""Body of one event of `GET /api/events`, as in the SSE `data:` line.

The SSE `id:` is the position in the outbox: send it back as `Last-Event-ID` to resume. The event named `reset`
means that the position is too old: read the state again and continue from there.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from corral.wire.base import LenientModel


class EventOut(LenientModel):
    """One event of the event stream."""

    id: str = Field(examples=["7351-42"])
    kind: str = Field(examples=["node.approved"])
    key: str = Field(description="The id of the thing that changed.")
    at: datetime
    data: dict[str, Any] = Field(default_factory=dict)
