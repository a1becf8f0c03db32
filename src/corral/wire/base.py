"""The two ways of reading JSON: strict for what a person writes, lenient between our own programs."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """From people and their scripts: an unknown field is a mistake worth telling."""

    model_config = ConfigDict(extra="forbid")


class Lenient(BaseModel):
    """Between our own programs: a newer version may send more."""

    model_config = ConfigDict(extra="ignore")
