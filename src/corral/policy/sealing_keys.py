"""Parses the file with the keys that seal stored secrets: one key a line, the first seals, all of them open.

Guarantee: an error names the line and never repeats it. The id of a key is derived from the key, so every frontend with
the same file gives it the same id.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from dataclasses import dataclass, field

KEY_BYTES = 32
# A rotation needs two.
KEYS_MAX = 16
_ID_BYTES = 8
# Keeps the id apart from every other hash of the same bytes.
_ID_PREFIX = b"corral secrets key\x00"
_EXAMPLE = "`openssl rand -hex 32` makes one"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealingKey:
    """Encryption key with which frontends seal stored secrets, and its id. The key is in no repr."""

    id: str
    secret: bytes = field(repr=False)


def make_sealing_key(secret: bytes) -> SealingKey:
    assert len(secret) == KEY_BYTES, f"a key has {KEY_BYTES} bytes"
    return SealingKey(id=hashlib.sha256(_ID_PREFIX + secret).digest()[:_ID_BYTES].hex(), secret=secret)


def parse_sealing_keys(text: str) -> tuple[SealingKey, ...]:
    """Return the keys of a file; raise `ValueError` with what is wrong. Empty lines and those that begin with # do not
    count."""
    keys: list[SealingKey] = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        secret = _decode(word)
        if secret is None:
            form = f"a key is {KEY_BYTES} bytes, as {2 * KEY_BYTES} hexadecimal digits or as Base64"
            raise ValueError(f"has a line {number} that is not a key: {form}; {_EXAMPLE}")
        key = make_sealing_key(secret)
        if any(key.id == other.id for other in keys):
            raise ValueError(f"has the key of line {number} twice")
        keys.append(key)
    if not keys:
        raise ValueError(f"has no key; {_EXAMPLE}")
    if len(keys) > KEYS_MAX:
        raise ValueError(f"has more than {KEYS_MAX} keys")
    return tuple(keys)


def _decode(word: str) -> bytes | None:
    """Return the bytes of a key, or None if the word is none."""
    # Base64 with or without padding, in the alphabet for URLs or in the usual one.
    plain = word.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        is_hexadecimal = len(word) == 2 * KEY_BYTES
        secret = bytes.fromhex(word) if is_hexadecimal else b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        return None
    return secret if len(secret) == KEY_BYTES else None
