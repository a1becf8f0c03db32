"""Base models of JSON bodies: strict for what people and scripts send, lenient between Corral's own programs;
and the error envelope of all routes."""

from __future__ import annotations

from typing import Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class StrictModel(BaseModel):
    """Base class of request bodies that people and scripts send: an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class LenientModel(BaseModel):
    """Base class of bodies between Corral's own programs: unknown fields are ignored.

    A newer version of the other program may send more.
    """

    model_config = ConfigDict(extra="ignore", defer_build=True)


def make_clamp(largest: int) -> AfterValidator:
    """Return a validator that lowers a number to `largest`: LocalAI's page asks for `items=9999` to get everything."""

    def clamp(number: int) -> int:
        return min(number, largest)

    return AfterValidator(clamp)


class ErrorBody(LenientModel):
    """The error inside an error response: a code for programs, a sentence and a hint for people."""

    code: str = Field(description="Stable code for programs.", examples=["node_not_found"])
    message: str = Field(description="A sentence for people.", examples=["There is no node named gpu-9."])
    hint: str | None = Field(default=None, examples=["`corral nodes list` shows the nodes."])
    type: str = Field(default="corral_error", description="Kept for scripts of LocalAI: node_error on node routes.")
    details: dict[str, Any] = Field(default_factory=dict)
    request_id: str | None = Field(default=None, description="Id of the request in the logs.")


class ErrorOut(LenientModel):
    """Response body of every API request that failed."""

    error: ErrorBody
