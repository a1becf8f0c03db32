"""User credentials for the bus: a signed token that says what its holder may do, and the holder's own key.

The holder makes the key and shows only its public half, so an intercepted token is useless to others. Tokens
expire; what they allow comes from the registry of subjects and from nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from corral.adapters.nats.keys import (
    JWT_VERSION,
    NatsKey,
    NatsKeyKind,
    check_public_key,
    key_from_seed,
    new_key,
    read_claims,
    sign_claims,
)
from corral.bus.subjects import BusPermissions, BusRole, make_inbox_prefix, make_permissions
from corral.domain.errors import InvalidRequest
from corral.ports.runtime import Clock

# A revocation may be forgotten once all older tokens have expired; this bounds that time.
MAX_TTL_S = 30 * 24 * 3600.0
# How long a received request may be answered. Longer than any timeout in the registry.
RESPONSE_TTL_S = 60
# Rotation starts when this share of a token's life is over, which leaves a quarter for trying again.
ROTATE_AT = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsCredential:
    """What a client shows to the NATS server: its token and its seed. Neither appears in `repr`."""

    token: str = field(repr=False)
    seed: str = field(repr=False)
    inbox: str

    def __post_init__(self) -> None:
        key = key_from_seed(self.seed, NatsKeyKind.USER)
        if self._claims.get("sub") != key.public:
            raise InvalidRequest(
                "The bus token and the seed do not belong together.",
                hint="Request a new token with the public key of the seed that is in use.",
            )

    @property
    def _claims(self) -> dict[str, Any]:
        return read_claims(self.token)

    @property
    def public_key(self) -> str:
        return str(self._claims["sub"])

    @property
    def expires_at(self) -> datetime | None:
        expiry = self._claims.get("exp")
        return None if expiry is None else datetime.fromtimestamp(int(expiry), UTC)

    @property
    def rotate_at(self) -> datetime | None:
        """Return from when on a fresh credential should be taken into use."""
        claims = self._claims
        if "exp" not in claims:
            return None
        issued, expires = int(claims["iat"]), int(claims["exp"])
        return datetime.fromtimestamp(issued + (expires - issued) * ROTATE_AT, UTC)

    def sign(self, nonce: bytes) -> bytes:
        return key_from_seed(self.seed, NatsKeyKind.USER).sign(nonce)


CredentialProvider = Callable[[], NatsCredential]


def new_user_key() -> tuple[str, str]:
    """Return a fresh seed and its public key. The seed stays where it was made."""
    key = new_key(NatsKeyKind.USER)
    return key.seed, key.public


def make_credential(token: str, seed: str, *, subject_id: str) -> NatsCredential:
    """Build a credential from the holder's own seed and the token that was minted for it."""
    return NatsCredential(token=token, seed=seed, inbox=make_inbox_prefix(subject_id))


class UserTokenIssuer:
    """Issues user tokens for NATS clients, signed with the account's seed."""

    def __init__(self, account_seed: str) -> None:
        self._account = key_from_seed(account_seed, NatsKeyKind.ACCOUNT)

    @property
    def account_public(self) -> str:
        return self._account.public

    def sign(self, data: bytes) -> bytes:
        """Sign data that is not a bus token. The caller makes sure that the data cannot be mistaken for one."""
        return self._account.sign(data)

    def mint(self, role: BusRole, public_key: str, *, subject_id: str, name: str, ttl_s: float, now: datetime) -> str:
        """Return a token that lets the holder of this key act as that node or frontend until the token expires."""
        if not 0 < ttl_s <= MAX_TTL_S:
            raise InvalidRequest(f"A bus token lives between 1 second and {MAX_TTL_S / 86400:g} days.")
        return sign_user_token(
            self._account,
            check_public_key(public_key, NatsKeyKind.USER),
            make_permissions(role, subject_id),
            name=name,
            valid=(now, ttl_s),
        )

    def make_provider(
        self, role: BusRole, *, subject_id: str, name: str, ttl_s: float, clock: Clock
    ) -> CredentialProvider:
        """Return a provider, for a process that holds the account seed, that mints a fresh token for a key of its own
        at every call."""
        seed, public = new_user_key()

        def fresh() -> NatsCredential:
            now = clock.wall()
            token = self.mint(role, public, subject_id=subject_id, name=name, ttl_s=ttl_s, now=now)
            return make_credential(token, seed, subject_id=subject_id)

        return fresh


def sign_user_token(
    account: NatsKey, public_key: str, allowed: BusPermissions, *, name: str, valid: tuple[datetime, float]
) -> str:
    """Return a user token for exactly these permissions; `valid` is when it begins and for how many seconds."""
    begins, ttl_s = valid
    issued = int(begins.timestamp())
    user: dict[str, Any] = {
        "type": "user",
        "version": JWT_VERSION,
        "pub": {"allow": list(allowed.publish_allow)},
        "sub": {"allow": list(allowed.subscribe_allow)},
        "subs": -1,
        "data": -1,
        "payload": -1,
    }
    if allowed.allow_responses:
        user["resp"] = {"max": 1, "ttl": RESPONSE_TTL_S * 1_000_000_000}
    claims = {
        "sub": public_key,
        "name": name,
        "iat": issued,
        "exp": issued + math.ceil(ttl_s),
        "nats": user,
    }
    return sign_claims(claims, account)
