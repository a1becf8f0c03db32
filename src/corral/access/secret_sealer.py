"""Seals the values of secrets, and opens them again.

A sealed value is one byte that names the form, a nonce of 24 random bytes, and the value encrypted and authenticated by
XChaCha20-Poly1305. Owner and name are authenticated with it: a row that is copied to another name or another owner does
not open. Guarantee: no error repeats a value or a key. Limit: the length of a value can be seen in the database.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_ABYTES,
    crypto_aead_xchacha20poly1305_ietf_decrypt,
    crypto_aead_xchacha20poly1305_ietf_encrypt,
    crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
)
from nacl.exceptions import CryptoError

from corral.domain.access import Owner
from corral.domain.errors import Unavailable
from corral.domain.secret import SecretValue
from corral.policy.sealing_keys import SealingKey
from corral.ports.runtime import IdGenerator

_FORM = b"\x01"
_NONCE_BYTES = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
_HEAD_BYTES = len(_FORM) + _NONCE_BYTES
_CONTENT_BYTES_MIN = _HEAD_BYTES + crypto_aead_xchacha20poly1305_ietf_ABYTES
_PURPOSE = "corral secret"


class SecretUnreadable(Unavailable):
    """A stored secret cannot be opened with the keys of this frontend."""

    code = "secret_unreadable"
    retryable = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedValue:
    """Encrypted value of a secret as stored in PostgreSQL, and the id of the key that encrypted it."""

    content: bytes = field(repr=False)
    key_id: str


class SecretSealer:
    """Encrypts values of stored secrets with the first of its keys, and decrypts what any of its keys encrypted."""

    def __init__(self, keys: Sequence[SealingKey], ids: IdGenerator) -> None:
        assert keys, "a sealer needs a key"
        self._first = keys[0]
        self._keys = {key.id: key for key in keys}
        self._ids = ids

    @property
    def older_key_ids(self) -> tuple[str, ...]:
        """Return the ids of the other keys, whose values are sealed with the first key at a start."""
        return tuple(key_id for key_id in self._keys if key_id != self._first.id)

    def seal(self, owner: Owner, name: str, value: SecretValue) -> SealedValue:
        nonce = hashlib.blake2b(self._ids.new_secret().encode(), digest_size=_NONCE_BYTES).digest()
        encrypted = crypto_aead_xchacha20poly1305_ietf_encrypt(
            value.text.encode(), _make_associated_data(owner, name), nonce, self._first.secret
        )
        return SealedValue(content=_FORM + nonce + encrypted, key_id=self._first.id)

    def open(self, owner: Owner, name: str, sealed: SealedValue) -> SecretValue:
        """Return the value; raise `SecretUnreadable` with the name if no key opens it for this owner and name."""
        key = self._keys.get(sealed.key_id)
        if key is None:
            raise _make_unreadable_error(name, f"it was sealed with the key {sealed.key_id}, which is not in the file")
        content = sealed.content
        if not content.startswith(_FORM) or len(content) < _CONTENT_BYTES_MIN:
            raise _make_unreadable_error(name, "a newer version of Corral has sealed it, or its row is damaged")
        try:
            opened = crypto_aead_xchacha20poly1305_ietf_decrypt(
                content[_HEAD_BYTES:], _make_associated_data(owner, name), content[len(_FORM) : _HEAD_BYTES], key.secret
            )
        except CryptoError:
            # Without its cause, whose traceback has the arguments of the call at hand.
            raise _make_unreadable_error(name, "its row is damaged, or was copied from another secret") from None
        return SecretValue(opened.decode())


def _make_associated_data(owner: Owner, name: str) -> bytes:
    # Neither an owner nor a name can hold a NUL, so no two pairs give the same bytes.
    return "\x00".join((_PURPOSE, str(owner), name)).encode()


def _make_unreadable_error(name: str, why: str) -> SecretUnreadable:
    return SecretUnreadable(
        f"The secret {name} cannot be read: {why}.",
        hint="Give every frontend the same secrets_key_file, with the key that sealed it, or set the secret again.",
    )
