"""Revokes a bus credential before it expires: the server disconnects its holder at once and lets it in no more.

A revocation is written into the account's claims with the operator's key and pushed over the system account. There is
no compare-and-swap for claims: each writer reads, adds, pushes and looks again once every push that may have begun
before its own has ended, until its revocation is there. Without the operator's seed nothing can be revoked; then
credentials expire after their `ttl_s`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog

from corral.adapters.nats.connection import BusWarningLog, NatsConnection, NatsEndpoint
from corral.adapters.nats.credentials import MAX_TTL_S, NatsCredential, make_credential, new_user_key, sign_user_token
from corral.adapters.nats.keys import NatsKeyKind, check_public_key, key_from_seed, read_claims, sign_claims
from corral.bus.subjects import BusPermissions, make_inbox_prefix
from corral.domain.errors import BusUnavailable, Conflict, Unprocessable
from corral.ports.runtime import Clock

log = structlog.get_logger(__name__)

UPDATE_SUBJECT = "$SYS.REQ.CLAIMS.UPDATE"
REQUEST_TIMEOUT_S = 2.0
# A writer that is not ready to push this long after its read starts again.
WRITE_WINDOW_S = 0.5
# After this time a push that began before ours has reached the server.
VERIFY_AFTER_S = 2 * WRITE_WINDOW_S
MAX_ROUNDS = 10
# The clocks of frontends differ, so tokens dated up to this much after the revocation are refused too.
CLOCK_SKEW_S = 300
SYSTEM_TOKEN_TTL_S = 300.0
ALL_KEYS = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationKeys:
    """Private keys (seeds) by which NATS credentials are revoked.

    Without operator and system seed, `CredentialRevoker.can_revoke` is false.
    """

    account_public: str
    operator_seed: str | None = field(default=None, repr=False)
    system_seed: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_public_key(self.account_public, NatsKeyKind.ACCOUNT)


class CredentialRevoker:
    """Revokes NATS credentials before they expire: the server disconnects their holders and keeps them out."""

    def __init__(self, endpoint: NatsEndpoint, keys: RevocationKeys, *, clock: Clock) -> None:
        self._endpoint = endpoint
        self._keys = keys
        self._clock = clock
        self._lookup_subject = f"$SYS.REQ.ACCOUNT.{keys.account_public}.CLAIMS.LOOKUP"

    @property
    def can_revoke(self) -> bool:
        return bool(self._keys.operator_seed and self._keys.system_seed)

    async def revoke(self, *public_keys: str) -> None:
        """Refuse every token of these keys that was minted until now. Idempotent.

        A holder that may come back makes a new key: tokens for a revoked one are refused for some minutes more."""
        checked_keys = {check_public_key(public_key, NatsKeyKind.USER) for public_key in public_keys}
        if not self.can_revoke:
            raise Unprocessable(
                "A bus credential cannot be revoked here: this frontend does not hold the operator's seed.",
                code="revocation_not_possible",
                hint="The credential expires by itself. To revoke, configure the operator and system seeds of NATS.",
            )
        connection = await self._connect()
        try:
            await self._write(connection, checked_keys)
        finally:
            await connection.close()
        log.info("bus credentials revoked", count=len(checked_keys))

    async def _write(self, connection: NatsConnection, public_keys: set[str]) -> None:
        since = int(self._clock.wall().timestamp())
        for _ in range(MAX_ROUNDS):
            began = self._clock.monotonic()
            claims = await self._look_up(connection)
            if _has_revocations(claims, public_keys, since):
                return
            changed = self._with_revocations(claims, public_keys)
            if self._clock.monotonic() - began > WRITE_WINDOW_S:
                continue
            await self._push(connection, changed)
            await self._clock.sleep(VERIFY_AFTER_S)
        raise Conflict(
            "The revocation was overwritten repeatedly by other frontends.", hint="Try again; it is safe to repeat."
        )

    async def _connect(self) -> NatsConnection:
        connection = NatsConnection(
            self._endpoint,
            self._make_system_credential(),
            reporter=BusWarningLog(self._endpoint.client_name),
            on_lost=lambda: None,
        )
        await connection.open()
        return connection

    def _make_system_credential(self) -> NatsCredential:
        seed, public = new_user_key()
        owner = f"revoker-{public}"
        allowed = BusPermissions(
            publish_allow=(UPDATE_SUBJECT, self._lookup_subject),
            subscribe_allow=(f"{make_inbox_prefix(owner)}.>",),
            allow_responses=False,
        )
        system = key_from_seed(self._keys.system_seed or "", NatsKeyKind.ACCOUNT)
        valid = (self._clock.wall(), SYSTEM_TOKEN_TTL_S)
        return make_credential(
            sign_user_token(system, public, allowed, name="revoker", valid=valid), seed, subject_id=owner
        )

    async def _look_up(self, connection: NatsConnection) -> dict[str, Any]:
        answer = await connection.request(self._lookup_subject, b"", timeout_s=REQUEST_TIMEOUT_S)
        if not answer:
            raise BusUnavailable("NATS does not know the account of the nodes.")
        claims = read_claims(answer.decode())
        operator = key_from_seed(self._keys.operator_seed or "", NatsKeyKind.OPERATOR)
        if claims.get("iss") != operator.public or claims.get("sub") != self._keys.account_public:
            raise Unprocessable(
                "The account of the bus is signed by another operator than the one whose seed is configured.",
                code="revocation_not_possible",
                hint="Configure the operator seed that belongs to this NATS server.",
            )
        return claims

    def _with_revocations(self, claims: dict[str, Any], public_keys: Iterable[str]) -> str:
        now = self._clock.wall()
        account = dict(claims["nats"])
        kept = _drop_expired(account.get("revocations") or {}, now)
        refused_until = int(now.timestamp()) + CLOCK_SKEW_S
        account["revocations"] = {**kept, **dict.fromkeys(public_keys, refused_until)}
        # Servers of a cluster keep the newer of two claims, and dates have whole seconds, so each change must be newer.
        issued = max(int(now.timestamp()), int(claims["iat"]) + 1)
        operator = key_from_seed(self._keys.operator_seed or "", NatsKeyKind.OPERATOR)
        changed = {key: value for key, value in claims.items() if key not in ("iss", "jti")}
        return sign_claims({**changed, "iat": issued, "nats": account}, operator)

    async def _push(self, connection: NatsConnection, token: str) -> None:
        answer = json.loads(await connection.request(UPDATE_SUBJECT, token.encode(), timeout_s=REQUEST_TIMEOUT_S))
        problem = answer.get("error")
        if problem:
            raise BusUnavailable(
                f"NATS did not accept the revocation: {problem.get('description', 'no reason given')}."
            )


def _has_revocations(claims: dict[str, Any], public_keys: set[str], since: int) -> bool:
    revoked = claims["nats"].get("revocations") or {}
    return all(int(revoked.get(public_key, 0)) >= since for public_key in public_keys)


def _drop_expired(revocations: dict[str, Any], now: datetime) -> dict[str, int]:
    """Return the revocations without those whose tokens have all expired, so that the claims do not grow for ever."""
    oldest = now.timestamp() - MAX_TTL_S
    return {key: int(at) for key, at in revocations.items() if key == ALL_KEYS or int(at) >= oldest}
