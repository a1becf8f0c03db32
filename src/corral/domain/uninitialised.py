"""Creates the records of every request without the cost of an `__init__`.

A frozen dataclass sets each field through `object.__setattr__`, and keyword arguments go through a dictionary: with
two dozen fields either takes longer than everything that is done with the record. Records that are created less
often are frozen dataclasses.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

_T = TypeVar("_T")


class RecordMaker(Protocol):
    """Makes an instance of a class without running its `__init__`."""

    def __call__(self, cls: type[_T], /) -> _T: ...


# Creates an instance without its fields; the caller sets every one of them in the next lines. A builtin, which saves
# one call.
new_uninitialised: RecordMaker = object.__new__
