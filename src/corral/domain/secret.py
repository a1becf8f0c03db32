"""Secrets: values such as tokens of other services, which an owner stores under a name and which are never shown again.

Not the secrets of keys and tokens themselves (`access.py`), of which only hashes are stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from corral.domain.errors import InvalidRequest

NAME_MAX = 100
# Longer than any token or private key; short enough to be read with every run that needs it.
VALUE_BYTES_MAX = 64 * 1024
# More than one person or program keeps, and few enough to be listed in one response.
SECRETS_OF_OWNER_MAX = 100
_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{NAME_MAX}}}")
# Clients remove these from the path of an address, so a secret of that name could not be named over HTTP.
_UNREACHABLE_NAMES = frozenset({".", ".."})


class SecretScope(StrEnum):
    """Names which stored secret a name means: the owner's own, or the one that admins keep for the cluster."""

    OWN = "own"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """Describes a stored secret (a password or token): its name and times. The value is not part of it."""

    id: str
    name: str
    created_at: datetime
    updated_at: datetime
    changed_by: str
    # When a value was last read, to about a minute; None: never.
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class SecretValue:
    """Holds the value of a stored secret in memory. Its repr is empty, so that no log or traceback shows it."""

    text: str = field(repr=False)


def is_secret_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name not in _UNREACHABLE_NAMES


def check_secret_name(name: str) -> None:
    """Raise `InvalidRequest` unless a secret may have this name. The error does not repeat the name: it may be a value
    in the wrong place."""
    if not is_secret_name(name):
        raise InvalidRequest(
            f"The name of a secret has 1 to {NAME_MAX} letters, digits, dots, dashes or underscores.",
            hint="Use a name such as hub-token.",
            code="bad_secret_name",
        )


def check_secret_value(value: str) -> None:
    """Raise `InvalidRequest` unless a secret may have this value. The error does not repeat the value."""
    problem = _find_value_problem(value)
    if problem is not None:
        raise InvalidRequest(
            f"The value of the secret {problem}.",
            hint=f"A value is text of 1 byte to {VALUE_BYTES_MAX // 1024} KiB. Encode binary data with Base64.",
            code="bad_secret_value",
        )


def _find_value_problem(value: str) -> str | None:
    if not value:
        return "is empty"
    if "\x00" in value:
        return "holds a NUL character"
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode text"
    return f"is larger than {VALUE_BYTES_MAX // 1024} KiB" if size_bytes > VALUE_BYTES_MAX else None
