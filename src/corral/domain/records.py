"""Records that are made on every request: unchangeable for the type checker, and cheap to make.

A frozen dataclass sets each field through `object.__setattr__`: with twenty fields that takes four times as long as a
plain one, several microseconds of a request that has some fifty. What is made less often is a frozen dataclass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(cls: type[_T]) -> type[_T]:
    return dataclass(slots=True, kw_only=True)(cls)


def blank(cls: type[_T]) -> _T:
    """One without its fields, for whoever sets every one of them in the next lines. Two dozen arguments by name take
    longer than everything that is done with the record: they go through a dictionary, and assignments do not."""
    return object.__new__(cls)
