"""Makes, names and checks NATS nkeys, and signs and reads NATS JWTs (version 2) with them.

An nkey is an Ed25519 key whose text says what it is for: seeds begin with `SO` (operator), `SA` (account) or `SU`
(user), public keys with `O`, `A` or `U`. A key of the wrong kind is refused with a message that names the expected
kind, and never the key itself.

The signature of a token is checked against the key that its `iss` names. Whether that key may issue such a token is
decided by the NATS server, not here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import nacl.exceptions
import nacl.signing
import nacl.utils
import nkeys

from corral.domain.errors import CorralError, InvalidRequest

# An encoded public key: prefix byte, 32 bytes of key, two bytes of checksum, in base32 without padding.
PUBLIC_KEY_CHARACTERS = 56
_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
JWT_VERSION = 2


class NatsKeyKind(StrEnum):
    """Kinds of NATS nkeys that Corral makes: operator, account, user and so on, each with its prefix."""

    OPERATOR = "operator"
    ACCOUNT = "account"
    USER = "user"

    @property
    def public_prefix(self) -> str:
        return _LETTERS[self]

    @property
    def seed_prefix(self) -> str:
        return f"S{_LETTERS[self]}"


_LETTERS = {NatsKeyKind.OPERATOR: "O", NatsKeyKind.ACCOUNT: "A", NatsKeyKind.USER: "U"}
_PREFIX_BYTES = {
    NatsKeyKind.OPERATOR: nkeys.PREFIX_BYTE_OPERATOR,
    NatsKeyKind.ACCOUNT: nkeys.PREFIX_BYTE_ACCOUNT,
    NatsKeyKind.USER: nkeys.PREFIX_BYTE_USER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsKey:
    """Holds a NATS key pair. The seed stays out of `repr`, and with it out of logs and tracebacks."""

    kind: NatsKeyKind
    seed: str = field(repr=False)
    public: str

    def sign(self, data: bytes) -> bytes:
        signature: bytes = _get_key_pair(self.seed).sign(data)
        return signature


def new_key(kind: NatsKeyKind) -> NatsKey:
    seed = nkeys.encode_seed(nacl.utils.random(32), _PREFIX_BYTES[kind]).decode()
    return key_from_seed(seed, kind)


def key_from_seed(seed: str, kind: NatsKeyKind) -> NatsKey:
    """Return the key pair of a seed. Raises `InvalidRequest` if the text is not a seed of that kind."""
    text = seed.strip()
    if not text.startswith(kind.seed_prefix):
        raise InvalidRequest(
            f"This is not the seed of a NATS {kind}: it must begin with {kind.seed_prefix}.",
            hint=_make_hint(text, kind),
        )
    try:
        pair = _get_key_pair(text)
        public = pair.public_key.decode()
        rebuilt = nkeys.encode_seed(nkeys.decode_seed(text.encode())[1], _PREFIX_BYTES[kind]).decode()
    except (nkeys.NkeysError, binascii.Error, ValueError) as error:
        raise InvalidRequest(f"The seed of the NATS {kind} is damaged.", hint="Copy it again in full.") from error
    # The library does not check the checksum of a seed; encoding it again does.
    if rebuilt != text:
        raise InvalidRequest(f"The seed of the NATS {kind} is damaged.", hint="Copy it again in full.")
    return NatsKey(kind=kind, seed=text, public=public)


def check_public_key(public_key: str, kind: NatsKeyKind) -> str:
    """Return the public key, after checking that it is well formed and of that kind."""
    text = public_key.strip()
    if text.startswith("S"):
        raise InvalidRequest(
            f"A NATS {kind} public key is required, but a seed was given.",
            hint="A seed is secret: do not send it.",
        )
    if not text.startswith(kind.public_prefix) or not _is_sound(text):
        raise InvalidRequest(f"This is not the public key of a NATS {kind}: it must begin with {kind.public_prefix}.")
    return text


def _is_sound(text: str) -> bool:
    if len(text) != PUBLIC_KEY_CHARACTERS:
        return False
    try:
        raw = base64.b32decode(text)
    except (binascii.Error, ValueError):
        return False
    checksum: int = nkeys.crc16(bytearray(raw[:-2]))
    return checksum.to_bytes(2, "little") == raw[-2:]


def _get_key_pair(seed: str) -> Any:
    return nkeys.from_seed(seed.encode())


def _make_hint(text: str, expected: NatsKeyKind) -> str:
    for kind in NatsKeyKind:
        if text.startswith(kind.seed_prefix):
            return f"The given text is the seed of a NATS {kind}."
    if text[:1] in _LETTERS.values() and len(text) == PUBLIC_KEY_CHARACTERS:
        return f"The given text looks like a public key; the seed of the {expected} is required."
    return f"A seed is one line of capital letters and digits that begins with {expected.seed_prefix}."


class BadToken(CorralError):
    """The text is not a NATS JWT, or its signature does not match."""

    code = "bad_nats_token"


def sign_claims(claims: Mapping[str, Any], issuer: NatsKey) -> str:
    """Return the signed token. `iss` and `jti` are added; the id is a digest, so that equal claims have equal ids."""
    body = {**claims, "iss": issuer.public}
    digest = hashlib.sha256(_encode_compact(body)).digest()
    body["jti"] = base64.b32encode(digest).decode().rstrip("=")
    signed = f"{_encode(_encode_compact(_HEADER))}.{_encode(_encode_compact(body))}"
    return f"{signed}.{_encode(issuer.sign(signed.encode()))}"


def read_claims(token: str) -> dict[str, Any]:
    """Return the claims of a token whose signature is valid. Raises `BadToken` otherwise."""
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


def _encode_compact(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
