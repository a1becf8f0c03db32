"""Writes downloads to files that do not exist yet: whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from corral.domain.errors import InvalidRequest


@contextmanager
def open_new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that does not exist yet; delete it again if the block raises, so that the command can be
    repeated. Raises `InvalidRequest` if it cannot be written."""
    try:
        with path.open("xb") as target:
            is_whole = False
            try:
                yield target
                is_whole = True
            finally:
                if not is_whole:
                    path.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidRequest(
            f"{path} cannot be written: {error.strerror}.",
            hint="Choose another path, of a file that does not exist yet.",
        ) from error
