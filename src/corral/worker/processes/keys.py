"""What a process is called: `model#replica`. A model's name may contain `#` itself: the last one counts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from urllib.parse import quote

from corral.domain.errors import InvalidRequest

SEPARATOR = "#"
# Longer ones would not fit into the name of a file, nor into a table.
LENGTH_MAX = 512
REPLICA_MAX = 9_999
_READABLE_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ProcessKey:
    model: str
    replica: int

    def __post_init__(self) -> None:
        if not self.model or len(self.model) > LENGTH_MAX or not self.model.isprintable():
            raise _wrong(f"{self.model}{SEPARATOR}{self.replica}")
        if not 0 <= self.replica <= REPLICA_MAX:
            raise _wrong(f"{self.model}{SEPARATOR}{self.replica}")

    def __str__(self) -> str:
        return f"{self.model}{SEPARATOR}{self.replica}"


def parse_key(text: str) -> ProcessKey:
    """The key that `str` wrote; anything else is refused."""
    model, separator, suffix = text.rpartition(SEPARATOR)
    # `isdecimal` alone would let in the digits of other scripts.
    if not separator or not suffix.isascii() or not suffix.isdecimal() or len(suffix) > len(str(REPLICA_MAX)):
        raise _wrong(text)
    return ProcessKey(model=model, replica=int(suffix))


def file_name(key: str) -> str:
    """What the files of a process are called. The readable part may be cut, and some disks do not tell capitals apart:
    the hash makes it this key's own."""
    return f"{quote(key, safe='')[:_READABLE_MAX]}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _wrong(text: str) -> InvalidRequest:
    return InvalidRequest(
        f"{text[:80]!r} is not the key of a process.",
        code="invalid_process_key",
        hint="A key is the model's name, # and the number of the replica, such as llama-3#0.",
    )
