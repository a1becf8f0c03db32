"""The name of a process: `model#replica`. A model's name may contain `#` itself: the last one counts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from urllib.parse import quote

from corral.domain.errors import InvalidRequest

SEPARATOR = "#"
# A longer key would not fit into a file name, nor into a column.
LENGTH_MAX = 512
REPLICA_MAX = 9_999
_READABLE_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ProcessKey:
    """Names an engine process by its model and the number of its replica, written `model#replica`."""

    model: str
    replica: int

    def __post_init__(self) -> None:
        if not self.model or len(self.model) > LENGTH_MAX or not self.model.isprintable():
            raise _make_key_error(f"{self.model}{SEPARATOR}{self.replica}")
        if not 0 <= self.replica <= REPLICA_MAX:
            raise _make_key_error(f"{self.model}{SEPARATOR}{self.replica}")

    def __str__(self) -> str:
        return f"{self.model}{SEPARATOR}{self.replica}"


def parse_key(text: str) -> ProcessKey:
    """Parse the key that `str` wrote; anything else is refused."""
    model, separator, suffix = text.rpartition(SEPARATOR)
    # `isdecimal` alone would let in the digits of other scripts.
    if not separator or not suffix.isascii() or not suffix.isdecimal() or len(suffix) > len(str(REPLICA_MAX)):
        raise _make_key_error(text)
    return ProcessKey(model=model, replica=int(suffix))


def make_file_name(key: str) -> str:
    """Return the file name for a process. The readable part may be cut, and some disks do not tell capitals apart: the
    hash makes it unique."""
    return f"{quote(key, safe='')[:_READABLE_MAX]}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _make_key_error(text: str) -> InvalidRequest:
    return InvalidRequest(
        f"{text[:80]!r} is not the key of a process.",
        code="invalid_process_key",
        hint="A key is the model's name, # and the number of the replica, such as llama-3#0.",
    )
