"""Browser sessions: opened with a password, an OpenID Connect provider or an API key, and valid for a day.

Attempts are limited per minute, in memory of one frontend, bounded. Passwords are hashed slowly on purpose: scrypt with
32 MiB per attempt makes a stolen table expensive to search. Hashing runs in a few threads, so that a flood of attempts
exhausts neither the event loop nor the memory. The threads are separate from those of the event loop, which may all be
waiting for a disk or a name server, in which case no admin could sign in to find out why.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import math
from base64 import b64decode, b64encode
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from corral.access import users
from corral.access.directory import CredentialDirectory, refuse_run_ticket
from corral.access.oidc import OidcClient, OidcIdentity
from corral.access.secrets import hash_secret, make_secret
from corral.domain.access import SESSION_PREFIX, Principal, User
from corral.domain.errors import LimitReached, NotAllowed, NotAuthenticated, StoreUnavailable
from corral.ports.runtime import Clock, IdGenerator
from corral.store import access as store
from corral.store import outbox
from corral.store.database import Database, Transaction

# Fixed at a working day: a session that is extended by each request would never end on a page that polls.
SESSION_LIFE_S = 24 * 3600
# Maximum number of sessions per user, or per key.
SESSIONS_OF_USER_MAX = 20
# Per user name and address.
WRONG_PASSWORDS_PER_MINUTE = 5
# Per address, for all names together. Attempts are counted before they are checked, so this is also the maximum that
# one address can have waiting for a check: far less than the queue of `PasswordHasher` holds.
WRONG_PASSWORDS_OF_ADDRESS_PER_MINUTE = 20
WRONG_KEYS_PER_MINUTE = 5
_USER_AGENT_MAX = 255
WINDOW_S = 60.0
NAMES_MAX = 10_000
# 2**15 blocks of 8 * 128 bytes: 32 MiB and about a tenth of a second.
_COST: Final = (2**15, 8, 1)
_MEMORY_BYTES_MAX: Final = 64 * 1024 * 1024
_KEY_BYTES: Final = 32
THREADS_MAX: Final = 2
# About six seconds of work; a request behind these would wait longer than a person does.
WAITING_MAX: Final = 128
# Unknown user names are checked against this hash, so that they take as long as known ones.
_DUMMY_HASH: Final = "scrypt$32768$8$1$bm9ib2R5$" + b64encode(bytes(_KEY_BYTES)).decode()


class AttemptThrottle:
    """Limits how many sign-in attempts a name or an address may make in a minute.

    An attempt is counted before it is made; a good one is taken off again.
    """

    def __init__(self, clock: Clock, attempts_max: int, sentence: str) -> None:
        self._clock = clock
        self._attempts_max = attempts_max
        self._sentence = sentence
        # The times of the last attempts by name, the oldest first.
        self._attempts: OrderedDict[str, list[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._attempts)

    def count_attempt(self, name: str) -> None:
        now = self._clock.monotonic()
        recent = [at for at in self._attempts.get(name, ()) if at > now - WINDOW_S]
        if len(recent) >= self._attempts_max:
            wait_s = max(1, math.ceil(recent[0] + WINDOW_S - now))
            raise LimitReached(self._sentence, hint=f"Try again in {wait_s} s.", details={"retry_after_s": wait_s})
        self._attempts[name] = [*recent, now]
        self._attempts.move_to_end(name)
        while len(self._attempts) > NAMES_MAX:
            self._attempts.popitem(last=False)

    def forget_attempts(self, name: str) -> None:
        self._attempts.pop(name, None)

    def forget_last_attempt(self, name: str) -> None:
        """Forget only the last attempt: it was successful, and says nothing about those before it."""
        tries = self._attempts.get(name)
        if tries:
            tries.pop()


def to_network(address: str) -> str:
    """Return the network that attempts from this address are counted by: an IPv4 address, or the /64 of an IPv6
    address, which belongs to one customer."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


class PasswordHasher:
    """Hashes users' passwords with scrypt and checks them, in a few threads of its own."""

    def __init__(self, ids: IdGenerator) -> None:
        self._ids = ids
        # The threads start with the first password and end with this object.
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="password")
        self._waiting = 0

    async def hash_password(self, password: str) -> str:
        salt = self._ids.new_secret().encode()
        key = await self._derive(password, salt, _COST)
        return "$".join(("scrypt", *map(str, _COST), b64encode(salt).decode(), b64encode(key).decode()))

    async def is_right_password(self, password: str, expected: str | None) -> bool:
        """Return whether the password matches the hash. Takes the same time if there is no hash to compare with."""
        _, *cost, salt, key = (expected or _DUMMY_HASH).split("$")
        n, r, p = map(int, cost)
        derived = await self._derive(password, b64decode(salt), (n, r, p))
        return hmac.compare_digest(derived, b64decode(key)) and expected is not None

    async def _derive(self, password: str, salt: bytes, cost: tuple[int, int, int]) -> bytes:
        if self._waiting >= WAITING_MAX:
            raise LimitReached("Too many people are signing in at the same time.", details={"retry_after_s": 5})
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, _run_scrypt, password, salt, cost)
        finally:
            self._waiting -= 1


def _run_scrypt(password: str, salt: bytes, cost: tuple[int, int, int]) -> bytes:
    n, r, p = cost
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=_MEMORY_BYTES_MAX, dklen=_KEY_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSession:
    """A browser session that was opened for a user, with the secret of its cookie."""

    user: User
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySession:
    """A browser session that was opened with an API key, with the secret of its cookie."""

    principal: Principal
    secret: str


class SessionService:
    """Opens and closes browser sessions: by password, by API key or by an OpenID Connect identity."""

    def __init__(self, database: Database, clock: Clock, ids: IdGenerator, oidc: OidcClient | None = None) -> None:
        self._database = database
        self._ids = ids
        # None: no provider is configured.
        self.oidc = oidc
        self.passwords = PasswordHasher(ids)
        sentence = "There were too many wrong passwords for this name from this address."
        self._throttle = AttemptThrottle(clock, WRONG_PASSWORDS_PER_MINUTE, sentence)
        sentence = "There were too many wrong passwords from this address."
        self._address_throttle = AttemptThrottle(clock, WRONG_PASSWORDS_OF_ADDRESS_PER_MINUTE, sentence)
        self._key_throttle = AttemptThrottle(
            clock, WRONG_KEYS_PER_MINUTE, "There were too many wrong keys from this address."
        )

    async def log_in(self, name: str, password: str, address: str = "", user_agent: str = "") -> UserSession:
        """Open a session for the user of this name. Wrong passwords are counted by address, so that an attacker at
        another address cannot lock a user out."""
        name, network = name.lower(), to_network(address)
        tried = f"{network} {name}"
        self._throttle.count_attempt(tried)
        self._address_throttle.count_attempt(network)
        async with self._database.transaction() as tx:
            found = await store.find_password(tx, name)
        # Not inside the transaction, because hashing is slow on purpose.
        is_right = await self.passwords.is_right_password(password, found[1] if found else None)
        if found is None or not is_right:
            raise _make_wrong_password_error()
        self._throttle.forget_attempts(tried)
        self._address_throttle.forget_last_attempt(network)
        async with self._database.transaction() as tx:
            present = await store.find_password(tx, name, locked=True)
            if present is None or present[1] != found[1]:
                # The password was changed while it was checked: that change has ended all sessions of the old one.
                raise _make_wrong_password_error()
            return await open_session(tx, self._ids, present[0], user_agent)

    async def log_in_with_key(
        self, directory: CredentialDirectory, key: str, address: str, user_agent: str = ""
    ) -> KeySession:
        """Open a session for the holder of a key. The session refers to the key by its id and ends with it.

        Wrong keys are counted by address. A valid key that is in memory is not counted, so that its holder can sign in
        from an address from which keys are being guessed.
        """
        principal, network = directory.find_known_principal(key), to_network(address)
        if principal is None:
            self._key_throttle.count_attempt(network)
            principal = await directory.authenticate_key(key)
            self._key_throttle.forget_attempts(network)
        refuse_run_ticket(principal)
        secret = make_secret(SESSION_PREFIX, self._ids)
        try:
            row = {"hash": hash_secret(secret), "key_id": principal.key_id, "user_agent": user_agent[:_USER_AGENT_MAX]}
            await self._insert_key_session(principal, hash_secret(key), row)
            await directory.load_sessions({principal.key_id})
        except StoreUnavailable:
            # PostgreSQL is unreachable: a key that is in memory still opens a session, at this frontend and until
            # PostgreSQL is back.
            directory.add_local_session(secret, principal, SESSION_LIFE_S, SESSIONS_OF_USER_MAX)
        return KeySession(principal=principal, secret=secret)

    async def _insert_key_session(self, principal: Principal, key_hash: str, row: dict[str, str]) -> None:
        async with self._database.transaction() as tx:
            left_s = await store.lock_secret(tx, key_hash)
            if left_s is None:
                # Memory was out of date: the key has just been revoked or rotated, or deleted with its node.
                raise NotAuthenticated("This API key was revoked or rotated.", hint="Sign in with another key.")
            # A session that is opened with a rotated secret ends with the grace period of this secret.
            await store.insert_session(tx, row, min(SESSION_LIFE_S, left_s))
            await store.prune_sessions(tx, principal.key_id, SESSIONS_OF_USER_MAX)
            await store.record_audit(tx, principal.name, "session.open", principal.key_id)
            await outbox.append(tx, "session.opened", principal.key_id)

    async def log_in_with_identity(self, identity: OidcIdentity, user_agent: str = "") -> UserSession:
        """Open a session for an identity of the provider. The user is created the first time, and gets the scope each
        time."""
        async with self._database.transaction() as tx:
            user = await store.find_by_subject(tx, identity.issuer, identity.subject)
            if user is None:
                user = await users.create_user(tx, self._ids, _make_user_spec(identity), actor=identity.issuer)
            elif user.disabled_at is not None:
                raise NotAllowed("This user is disabled.", hint="An admin can enable them again.", code="user_disabled")
            elif user.scope is not identity.scope:
                user = await users.change_user(tx, user.id, {"scope": identity.scope}, actor=identity.issuer)
            return await open_session(tx, self._ids, user, user_agent)

    async def log_out(self, secret: str) -> str | None:
        """End the session; return the id of the user or key that it belonged to."""
        async with self._database.transaction() as tx:
            owner_id = await store.delete_session(tx, hash_secret(secret))
            if owner_id is not None:
                await outbox.append(tx, "session.closed", owner_id)
        return owner_id


def _make_wrong_password_error() -> NotAuthenticated:
    """Return one error for every cause, so that a caller cannot learn which names exist."""
    return NotAuthenticated("Name or password is wrong.", code="password_wrong")


def _make_user_spec(identity: OidcIdentity) -> users.UserSpec:
    return users.UserSpec(name=identity.name, scope=identity.scope, issuer=identity.issuer, subject=identity.subject)


async def open_session(tx: Transaction, ids: IdGenerator, user: User, user_agent: str = "") -> UserSession:
    secret = make_secret(SESSION_PREFIX, ids)
    row = {"hash": hash_secret(secret), "user_id": user.id, "user_agent": user_agent[:_USER_AGENT_MAX]}
    await store.insert_session(tx, row, SESSION_LIFE_S)
    await store.prune_sessions(tx, user.id, SESSIONS_OF_USER_MAX)
    await store.record_audit(tx, user.name, "session.open", user.id)
    await outbox.append(tx, "session.opened", user.id)
    return UserSession(user=user, secret=secret)
