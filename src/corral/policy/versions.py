"""Which of two versions is newer, for whatever people write into a gallery.

Agrees with Python's own rules where those apply (`1.0.dev1 < 1.0rc1 < 1.0 < 1.0.post1`), and still has an order for
the rest: `b4567`, `v1.2`, `2026.10.11549`, `latest`. A text without a number is older than any with one; an empty text
is the oldest.
"""

from __future__ import annotations

import re

# Words that stand before a release, oldest first, with their other spellings.
_BEFORE = (("dev", "nightly", "snapshot"), ("a", "alpha"), ("b", "beta"), ("c", "rc", "pre", "preview"))
_RANK = {word: rank - len(_BEFORE) for rank, words in enumerate(_BEFORE) for word in words}
_AFTER = frozenset({"post", "rev", "r", "p", "patch"})
# `v1.2` and llama.cpp's `b4567`: a letter in front of the first number says nothing.
_NUMBERS = re.compile(r"[a-z]?[-_.]?(?P<release>\d+(?:\.\d+)*)", re.ASCII)
_PART = re.compile(r"(?P<word>[a-z]+)[-_.]?(?P<number>\d*)|(?P<alone>\d+)", re.ASCII)

_Part = tuple[int, str, int]
VersionKey = tuple[int, tuple[int, ...], tuple[_Part, ...]]
_END: _Part = (0, "", 0)


def version_key(text: str) -> VersionKey:
    """Greater is newer. Spellings of the same version (`1.0`, `v1.0.0`) have the same key."""
    lowered = text.strip().lower()
    numbers = _NUMBERS.match(lowered)
    if numbers is None:
        return (0 if lowered else -1, (), ((0, lowered, 0),))
    release = [int(part) for part in numbers["release"].split(".")]
    while release and release[-1] == 0:
        release.pop()
    return (1, tuple(release), (*_parts(lowered[numbers.end() :]), _END))


def is_newer(text: str, than: str) -> bool:
    return version_key(text) > version_key(than)


def is_before_release(text: str) -> bool:
    """An alpha, a release candidate, a nightly: nobody gets it without asking for it."""
    return any(rank < 0 for rank, _, _ in version_key(text)[2])


def _parts(text: str) -> tuple[_Part, ...]:
    return tuple(_part(match) for match in _PART.finditer(text))


def _part(match: re.Match[str]) -> _Part:
    word, number = match["word"] or "", int(match["number"] or match["alone"] or 0)
    if word in _RANK:
        return (_RANK[word], "", number)
    # A word of its own kind, such as a build's platform, comes after the plain release.
    return (1, "" if word in _AFTER else word, number)
