"""Sizes in sentences: as many digits as it takes to see a difference, and no more."""

from __future__ import annotations

_GIB = 1024**3
_MIB = 1024**2
_DIGITS_MAX = 6


def in_words(size_bytes: int, digits: int = 1) -> str:
    """`5.2 GiB`; below a tenth of one, `37.5 MiB`."""
    if size_bytes and size_bytes < _GIB / 10:
        return f"{size_bytes / _MIB:.{digits}f} MiB"
    return f"{size_bytes / _GIB:.{digits}f} GiB"


def side_by_side(one: int, other: int) -> tuple[str, str]:
    """Two different sizes never read the same."""
    for digits in range(1, _DIGITS_MAX):
        texts = in_words(one, digits), in_words(other, digits)
        if texts[0] != texts[1] or one == other:
            return texts
    return f"{one:,} bytes", f"{other:,} bytes"
