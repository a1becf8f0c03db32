"""The one error envelope."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from corral.wire.base import Lenient


class ErrorBody(Lenient):
    code: str = Field(description="A stable slug for programs.", examples=["node_not_found"])
    message: str = Field(description="A sentence for people.", examples=["There is no node named gpu-9."])
    hint: str | None = Field(default=None, examples=["`corral nodes list` shows the nodes."])
    type: str = Field(
        default="corral_error", description="Kept for scripts of the ancestor: node_error on node routes."
    )
    details: dict[str, Any] = Field(default_factory=dict)
    request_id: str | None = Field(default=None, description="Find the request in the logs by this.")


class ErrorOut(Lenient):
    error: ErrorBody
