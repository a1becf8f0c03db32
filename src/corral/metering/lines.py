"""A file of a spool: one JSON array in a line, each a bucket with what is to be added to it.

A line is of one request, or of many that are alike and ended together, and a file that was summed up is a few lines:
whoever reads them adds them up and needs to know no difference. A line is written whole, so the only one that a killed
process can leave half-written is the last. What else is unreadable is damage of the disk: it is told, and the rest
counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corral.domain.usage import Bucket, Buckets, Sums
from corral.runtime import disk

SUFFIX = ".lines"
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
# What the columns hold. A line that says more is none of ours.
_LENGTHS = (64, 255, 32, 255)
_HOURS_MAX = 10_000_000
_DIGITS_MAX = 15
_NUMBERS = tuple(Sums.__dataclass_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a file holds. `damaged`: whole lines that could not be read."""

    buckets: Buckets = field(default_factory=dict)
    damaged: int = 0


def head(bucket: Bucket) -> bytes:
    """The beginning of every line of this bucket; a `tail` follows."""
    return json.dumps(bucket, separators=(",", ":")).encode()[:-1]


def tail(sums: Sums) -> bytes:
    """The numbers of `Sums` in their order, and the end of the line."""
    return b",%d,%d,%d,%d,%d,%d]\n" % (
        sums.requests,
        sums.errors,
        sums.prompt_tokens,
        sums.cached_tokens,
        sums.completion_tokens,
        sums.estimated_tokens,
    )


def whole(bucket: Bucket, sums: Sums) -> bytes:
    return head(bucket) + tail(sums)


def read(path: Path) -> Found:
    *lines, _half_written = path.read_bytes().split(b"\n")
    # Many lines begin alike: each beginning is parsed once.
    places: dict[bytes, Bucket | None] = {}
    buckets: Buckets = {}
    damaged = 0
    for line in lines:
        place, *numbers = line.removesuffix(b"]").rsplit(b",", len(_NUMBERS))
        if place not in places:
            places[place] = _parse_place(place)
        bucket, sums = places[place], _parse_numbers(numbers)
        if bucket is None or sums is None or not line.endswith(b"]"):
            damaged += 1
        else:
            buckets.setdefault(bucket, Sums()).add(sums)
    return Found(buckets=buckets, damaged=damaged)


def _parse_place(place: bytes) -> Bucket | None:
    try:
        hour, *texts = json.loads(place + b"]")
        # Versions before nodes were counted wrote lines without one; they are still on disks.
        key_id, model, call, node = texts if len(texts) == len(_LENGTHS) else (*texts, "")
    except (ValueError, TypeError):
        return None
    is_ours = type(hour) is int and 0 <= hour <= _HOURS_MAX and all(map(_is_text, texts, _LENGTHS))
    return (hour, key_id, model, call, node) if is_ours else None


def _is_text(value: Any, most: int) -> bool:
    return isinstance(value, str) and len(value) <= most and (value == "" or value.isprintable())


def _parse_numbers(numbers: list[bytes]) -> Sums | None:
    """Digits and nothing else: `int` alone would take more."""
    if len(numbers) != len(_NUMBERS) or not all(1 <= len(one) <= _DIGITS_MAX and one.isdigit() for one in numbers):
        return None
    return Sums(**dict(zip(_NUMBERS, map(int, numbers), strict=True)))


def replace(path: Path, buckets: Buckets) -> None:
    """Put these sums in the place of the file, in one step; on return they are on the disk."""
    disk.replace(path, b"".join(whole(bucket, sums) for bucket, sums in buckets.items()))


def number_of(path: Path) -> int | None:
    """The number of a batch; None: the file is none of ours."""
    return int(path.stem) if path.suffix == SUFFIX and path.stem.isascii() and path.stem.isdigit() else None
