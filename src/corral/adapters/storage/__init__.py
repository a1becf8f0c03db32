"""The storage that all frontends share: parses its address and its key as people write them.

Implementations are modules of their own, imported only where one is set up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from corral.domain.errors import InvalidRequest

_KNOWN = frozenset({"endpoint", "region"})
EXAMPLE = "s3://bucket/folder?endpoint=https://host:9000&region=us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Address:
    """Says where an S3-compatible storage for model files is: bucket, folder, endpoint and region."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = "us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Key:
    """Access key of an S3-compatible storage for model files.

    Without one, the credentials of the machine are used (its environment, its role).
    """

    name: str
    secret: str = field(repr=False)


def parse_address(text: str) -> S3Address:
    """Parse `s3://bucket/folder?endpoint=…&region=…`."""
    parts = urlsplit(text)
    query = dict(parse_qsl(parts.query))
    unknown = sorted(query.keys() - _KNOWN)
    if parts.scheme != "s3" or not parts.hostname or parts.username or unknown:
        problem = f"{unknown[0]} is not known in it" if unknown else "it has no bucket, or something else before it"
        raise InvalidRequest(f"This is not the address of an S3 storage: {problem}.", hint=EXAMPLE, code="bad_storage")
    return S3Address(
        bucket=parts.netloc,
        prefix=parts.path.strip("/"),
        endpoint=query.get("endpoint", "").rstrip("/"),
        region=query.get("region", "us-east-1"),
    )


def parse_key(text: str) -> S3Key:
    """Parse `name:secret`."""
    name, _, secret = text.strip().partition(":")
    if not name or not secret:
        raise InvalidRequest("The key of a storage is written as name:secret.", code="bad_storage")
    return S3Key(name=name, secret=secret)
