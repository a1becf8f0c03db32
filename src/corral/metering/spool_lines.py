"""The file format of a spool: each line is a JSON array with a bucket and the numbers to add to it.

A line is of one request, or of many that are alike and ended together, and a compacted file has a few lines of sums: a
reader adds all lines up without a difference. A line is written whole, so the only one that a killed process can leave
half-written is the last. Any other unreadable line is damage of the disk: it is reported, and the rest counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corral.domain.usage import UsageBucket, UsageBuckets, UsageSums
from corral.runtime import disk

SUFFIX = ".lines"
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
# The largest value of a column. A line with a larger one is damaged.
_LENGTHS = (64, 255, 32, 255)
_HOURS_MAX = 10_000_000
_DIGITS_MAX = 15
_NUMBERS = tuple(UsageSums.__dataclass_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolFileContent:
    """Holds the sums that a spool file contains. `damaged`: whole lines that could not be read."""

    buckets: UsageBuckets = field(default_factory=dict)
    damaged: int = 0


def render_line_start(bucket: UsageBucket) -> bytes:
    """Return the beginning of every line of this bucket; `render_line_end` follows."""
    return json.dumps(bucket, separators=(",", ":")).encode()[:-1]


def render_line_end(sums: UsageSums) -> bytes:
    """Return the numbers of `UsageSums` in their order, and the end of the line."""
    return b",%d,%d,%d,%d,%d,%d]\n" % (
        sums.requests,
        sums.errors,
        sums.prompt_tokens,
        sums.cached_tokens,
        sums.completion_tokens,
        sums.estimated_tokens,
    )


def render_line(bucket: UsageBucket, sums: UsageSums) -> bytes:
    return render_line_start(bucket) + render_line_end(sums)


def read_file(path: Path) -> SpoolFileContent:
    *lines, _half_written = path.read_bytes().split(b"\n")
    # Many lines begin alike, so each beginning is parsed once.
    parsed_buckets: dict[bytes, UsageBucket | None] = {}
    buckets: UsageBuckets = {}
    damaged = 0
    for line in lines:
        bucket_text, *numbers = line.removesuffix(b"]").rsplit(b",", len(_NUMBERS))
        if bucket_text not in parsed_buckets:
            parsed_buckets[bucket_text] = _parse_bucket(bucket_text)
        bucket, sums = parsed_buckets[bucket_text], _parse_numbers(numbers)
        if bucket is None or sums is None or not line.endswith(b"]"):
            damaged += 1
        else:
            buckets.setdefault(bucket, UsageSums()).add(sums)
    return SpoolFileContent(buckets=buckets, damaged=damaged)


def _parse_bucket(text: bytes) -> UsageBucket | None:
    try:
        hour, *texts = json.loads(text + b"]")
        # Older versions wrote lines without a node, and such files may still be on disks.
        key_id, model, call, node = texts if len(texts) == len(_LENGTHS) else (*texts, "")
    except (ValueError, TypeError):
        return None
    is_ours = type(hour) is int and 0 <= hour <= _HOURS_MAX and all(map(_is_text, texts, _LENGTHS))
    return (hour, key_id, model, call, node) if is_ours else None


def _is_text(value: Any, most: int) -> bool:
    return isinstance(value, str) and len(value) <= most and (value == "" or value.isprintable())


def _parse_numbers(numbers: list[bytes]) -> UsageSums | None:
    """Parse numbers that consist of digits only: `int` alone would accept more."""
    if len(numbers) != len(_NUMBERS) or not all(1 <= len(one) <= _DIGITS_MAX and one.isdigit() for one in numbers):
        return None
    return UsageSums(**dict(zip(_NUMBERS, map(int, numbers), strict=True)))


def replace_file(path: Path, buckets: UsageBuckets) -> None:
    """Replace the file by these sums, atomically; on return they are on the disk."""
    disk.replace(path, b"".join(render_line(bucket, sums) for bucket, sums in buckets.items()))


def parse_number(path: Path) -> int | None:
    """Return the number of a batch file; None if the name is not one of a spool."""
    return int(path.stem) if path.suffix == SUFFIX and path.stem.isascii() and path.stem.isdigit() else None
