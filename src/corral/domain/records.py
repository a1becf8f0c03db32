"""Records that are made on every request, without the price of making them.

A frozen dataclass sets each field through `object.__setattr__`, and arguments by name go through a dictionary: with two
dozen fields either takes longer than everything that is done with the record. What is made less often is a frozen
dataclass.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

_T = TypeVar("_T")


class RecordMaker(Protocol):
    def __call__(self, cls: type[_T], /) -> _T: ...


# One without its fields, for whoever sets every one of them in the next lines. Not a function of ours: a call less.
blank: RecordMaker = object.__new__
