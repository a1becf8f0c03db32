"""The two ways of reading JSON: strict for what a person writes, lenient between our own programs."""

from __future__ import annotations

from pydantic import AfterValidator, BaseModel, ConfigDict


class Strict(BaseModel):
    """From people and their scripts: an unknown field is a mistake worth telling."""

    model_config = ConfigDict(extra="forbid")


class Lenient(BaseModel):
    """Between our own programs: a newer version may send more."""

    model_config = ConfigDict(extra="ignore")


def clamp_to(largest: int) -> AfterValidator:
    """Return a validator that lowers a number to `largest`: LocalAI's page asks for `items=9999` to get everything."""

    def clamp(number: int) -> int:
        return min(number, largest)

    return AfterValidator(clamp)
