"""Where the files of models come from.

`resolve` says what an address means, without moving its bytes; `fetch` brings one file of it. What `resolve` found is
pinned where the source can do that: a tag or a branch that moves later does not change what is fetched.

Errors are `CorralError`s with a code. Trying again may help (`retryable`): source_unavailable, bad_answer. It does not:
not_found, digest_mismatch, unsupported, not_allowed, private_address, disk_full, bad_package, invalid_request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from corral.domain.model import FilePart

# How many bytes there are by now, and how many there will be, if that is known.
Moved = Callable[[int, int | None], None]
# The kind of the one file that matters where a source has several for one model.
MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One file that an address means.

    `path` is relative: the name of the file, or its place in the folder that the address means. `address` belongs to
    the origin: text without secrets of ours, that may be kept and used by another process later. `kind` is what the
    source says that the file is: "" mostly; from an Ollama registry model, projector, adapter, template, system or
    params.
    """

    path: str
    address: str
    # Empty and None: the source does not say, and nobody has promised anything.
    sha256: str = ""
    size_bytes: int | None = None
    kind: str = ""


class Origins(Protocol):
    async def resolve(self, part: FilePart) -> tuple[Found, ...]:
        """One file, or all files of a folder, sorted by path; never none."""
        ...

    async def fetch(self, found: Found, into: Path, moved: Moved) -> Path:
        """The whole file, verified against what was promised.

        It lies in the folder `into` and is the caller's to move, unless the address is a local file: that one stays
        where it is, and its own path is returned (`path.parent != into`). Partial bytes stay in `into` when this is
        cancelled, fails or dies, and the next call goes on with them. Two calls for one `found` and one folder at a
        time are not expected.
        """
        ...

    async def forget(self, found: Found, into: Path) -> None:
        """Delete what `fetch` has left in `into`, finished or not."""
        ...


def the_file(found: Sequence[Found]) -> Found | None:
    """Where one file is wanted: the only one, or the only one that is the model itself."""
    of_a_model = [one for one in found if one.kind == MODEL]
    candidates = of_a_model or list(found)
    return candidates[0] if len(candidates) == 1 else None
