"""One event of `GET /api/events`, as it stands in the SSE `data:` line.

The SSE `id:` is the position in the outbox: send it back as `Last-Event-ID` to resume. The event named `reset`
means that the position is too old: read the state anew and go on from there.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from corral.wire.base import Lenient


class EventOut(Lenient):
    id: str = Field(examples=["7351-42"])
    kind: str = Field(examples=["node.approved"])
    key: str = Field(description="The id of the thing that changed.")
    at: datetime
    data: dict[str, Any] = Field(default_factory=dict)
