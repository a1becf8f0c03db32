"""NATS JWTs (version 2): claims signed with an nkey, in pure Python.

Signs and reads them; a token that is read is checked against the key that its `iss` names. Whether that key may
issue such a token is decided by the NATS server, not here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import nacl.exceptions
import nacl.signing

from corral.adapters.nats.keys import Key
from corral.domain.errors import CorralError

_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
JWT_VERSION = 2


class BadToken(CorralError):
    """This is not a NATS JWT, or its signature does not match."""

    code = "bad_nats_token"


def sign_claims(claims: Mapping[str, Any], issuer: Key) -> str:
    """The signed token. `iss` and `jti` are added; the id is a digest, so that equal claims have equal ids."""
    body = {**claims, "iss": issuer.public}
    digest = hashlib.sha256(_compact(body)).digest()
    body["jti"] = base64.b32encode(digest).decode().rstrip("=")
    signed = f"{_encode(_compact(_HEADER))}.{_encode(_compact(body))}"
    return f"{signed}.{_encode(issuer.sign(signed.encode()))}"


def read_claims(token: str) -> dict[str, Any]:
    """The claims of a token whose signature is right; `BadToken` otherwise."""
    parts = token.strip().split(".")
    if len(parts) != 3:
        raise BadToken("This is not a NATS JWT: it does not have three parts.")
    try:
        claims: dict[str, Any] = json.loads(_decode(parts[1]))
        issuer_key = nacl.signing.VerifyKey(base64.b32decode(str(claims["iss"]))[1:-2])
        issuer_key.verify(f"{parts[0]}.{parts[1]}".encode(), _decode(parts[2]))
    except (binascii.Error, ValueError, KeyError, TypeError, nacl.exceptions.CryptoError) as error:
        raise BadToken from error
    return claims


def _compact(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
