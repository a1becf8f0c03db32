"""Formats of secrets, and their hashes, which are all that is stored.

Each secret has 256 random bits, so a plain SHA-256 cannot be searched; a slow hash would only slow every request.
"""

from __future__ import annotations

import hashlib
import hmac

from corral.ports.runtime import IdGenerator

# Enough to tell secrets apart in a list, too few to guess the rest.
SHOWN_CHARACTERS = 8


def make_secret(prefix: str, ids: IdGenerator) -> str:
    return prefix + ids.new_secret()


def hash_secret(secret: str | bytes) -> str:
    return hashlib.sha256(secret.encode() if isinstance(secret, str) else secret).hexdigest()


def make_shown_prefix(secret: str) -> str:
    return secret[:SHOWN_CHARACTERS]


def is_matching_secret(secret: str, expected_hash: str) -> bool:
    return hmac.compare_digest(hash_secret(secret), expected_hash)
