"""NATS nkeys: made, named and checked in one place.

An nkey is an Ed25519 key whose text says what it is for: seeds begin with `SO` (operator), `SA` (account) or
`SU` (user), public keys with `O`, `A` or `U`. A key of the wrong kind is refused with a sentence that names the
kind that was wanted, and never with the key itself.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import nacl.utils
import nkeys

from corral.domain.errors import InvalidRequest

# An encoded public key: prefix byte, 32 bytes of key, two bytes of checksum, in base32 without padding.
PUBLIC_KEY_CHARACTERS = 56


class KeyKind(StrEnum):
    OPERATOR = "operator"
    ACCOUNT = "account"
    USER = "user"

    @property
    def public_prefix(self) -> str:
        return _LETTERS[self]

    @property
    def seed_prefix(self) -> str:
        return f"S{_LETTERS[self]}"


_LETTERS = {KeyKind.OPERATOR: "O", KeyKind.ACCOUNT: "A", KeyKind.USER: "U"}
_PREFIX_BYTES = {
    KeyKind.OPERATOR: nkeys.PREFIX_BYTE_OPERATOR,
    KeyKind.ACCOUNT: nkeys.PREFIX_BYTE_ACCOUNT,
    KeyKind.USER: nkeys.PREFIX_BYTE_USER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key pair. The seed stays out of `repr`, and with it out of logs and tracebacks."""

    kind: KeyKind
    seed: str = field(repr=False)
    public: str

    def sign(self, data: bytes) -> bytes:
        signature: bytes = _pair(self.seed).sign(data)
        return signature


def new_key(kind: KeyKind) -> Key:
    seed = nkeys.encode_seed(nacl.utils.random(32), _PREFIX_BYTES[kind]).decode()
    return key_from_seed(seed, kind)


def key_from_seed(seed: str, kind: KeyKind) -> Key:
    """The pair behind a seed; `InvalidRequest` when it is no seed of that kind."""
    text = seed.strip()
    if not text.startswith(kind.seed_prefix):
        raise InvalidRequest(
            f"This is not the seed of a NATS {kind}: it must begin with {kind.seed_prefix}.",
            hint=_hint_about(text, kind),
        )
    try:
        pair = _pair(text)
        public = pair.public_key.decode()
        rebuilt = nkeys.encode_seed(nkeys.decode_seed(text.encode())[1], _PREFIX_BYTES[kind]).decode()
    except (nkeys.NkeysError, binascii.Error, ValueError) as error:
        raise InvalidRequest(f"The seed of the NATS {kind} is damaged.", hint="Copy it again in full.") from error
    # The library does not check the checksum of a seed; encoding it again does.
    if rebuilt != text:
        raise InvalidRequest(f"The seed of the NATS {kind} is damaged.", hint="Copy it again in full.")
    return Key(kind=kind, seed=text, public=public)


def check_public_key(public_key: str, kind: KeyKind) -> str:
    """The public key, once it is known to be well formed and of that kind."""
    text = public_key.strip()
    if text.startswith("S"):
        raise InvalidRequest(
            f"A NATS {kind} public key is wanted, and a seed was given.",
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


def _pair(seed: str) -> Any:
    return nkeys.from_seed(seed.encode())


def _hint_about(text: str, wanted: KeyKind) -> str:
    for kind in KeyKind:
        if text.startswith(kind.seed_prefix):
            return f"What was given is the seed of a NATS {kind}."
    if text[:1] in _LETTERS.values() and len(text) == PUBLIC_KEY_CHARACTERS:
        return f"What was given looks like a public key; the seed of the {wanted} is needed."
    return f"A seed is one line of capital letters and digits that begins with {wanted.seed_prefix}."
