"""Sessions: what a browser shows for a day after somebody came in with a password, by a provider or with a key."""

from __future__ import annotations

from dataclasses import dataclass

from corral.access import users
from corral.access.directory import Directory
from corral.access.oidc import Identity, Oidc
from corral.access.passwords import Passwords
from corral.access.secrets import hash_secret, make_secret
from corral.access.throttle import Throttle, network_of
from corral.domain.access import SESSION_PREFIX, Principal, User
from corral.domain.errors import NotAllowed, NotAuthenticated, StoreUnavailable
from corral.ports.runtime import Clock, Ids
from corral.store import access as audit
from corral.store import access_users as store
from corral.store import outbox
from corral.store.database import Database, Transaction

# Fixed: a day is a working day, and a session that slides would never end on a page that polls.
LIFE_S = 24 * 3600
# Of one user, or of one key.
SESSIONS_OF_USER_MAX = 20
# For one name, from one address.
WRONG_PASSWORDS_PER_MINUTE = 5
# For all names together, from one address. Counted before they are checked, so this is also the most that one address
# can have waiting for a check: far less than the queue of `passwords.py` holds.
WRONG_PASSWORDS_OF_ADDRESS_PER_MINUTE = 20
WRONG_KEYS_PER_MINUTE = 5
_USER_AGENT_MAX = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    user: User
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySession:
    """A session that was opened with a key, and the secret of its cookie."""

    principal: Principal
    secret: str


class Sessions:
    """The ways in, with a password and by a provider, and the way out."""

    def __init__(self, database: Database, clock: Clock, ids: Ids, oidc: Oidc | None = None) -> None:
        self._database = database
        self._ids = ids
        # None: the settings name no provider.
        self.oidc = oidc
        self.passwords = Passwords(ids)
        sentence = "There were too many wrong passwords for this name from this address."
        self._throttle = Throttle(clock, WRONG_PASSWORDS_PER_MINUTE, sentence)
        sentence = "There were too many wrong passwords from this address."
        self._address_throttle = Throttle(clock, WRONG_PASSWORDS_OF_ADDRESS_PER_MINUTE, sentence)
        self._key_throttle = Throttle(clock, WRONG_KEYS_PER_MINUTE, "There were too many wrong keys from this address.")

    async def log_in(self, name: str, password: str, address: str = "", user_agent: str = "") -> Opened:
        """Open a session for the user of this name. Wrong passwords are counted by address, so that strangers elsewhere
        cannot lock anybody out."""
        name, network = name.lower(), network_of(address)
        tried = f"{network} {name}"
        self._throttle.count(tried)
        self._address_throttle.count(network)
        async with self._database.transaction() as tx:
            found = await store.find_password(tx, name)
        # Not inside the transaction: it takes its time, on purpose.
        is_right = await self.passwords.is_right(password, found[1] if found else None)
        if found is None or not is_right:
            # One sentence for both: who asks shall not learn which names there are.
            raise NotAuthenticated("Name or password is wrong.", code="password_wrong")
        self._throttle.forget(tried)
        self._address_throttle.take_back(network)
        async with self._database.transaction() as tx:
            return await open_session(tx, self._ids, found[0], user_agent)

    async def enter_with_key(self, directory: Directory, key: str, address: str, user_agent: str = "") -> KeySession:
        """Open a session for the holder of a key. It names the key by its id and ends with it.

        Wrong keys are counted by the address that they come from. A key that memory knows is not counted: whoever
        shares an address with somebody who guesses can come in all the same.
        """
        principal, network = directory.known(key), network_of(address)
        if principal is None:
            self._key_throttle.count(network)
            principal = await directory.principal(key)
            self._key_throttle.forget(network)
        secret = make_secret(SESSION_PREFIX, self._ids)
        try:
            await self._insert_key_session(principal, secret, user_agent)
            await directory.load_sessions({principal.key_id})
        except StoreUnavailable:
            # Who holds a key that memory knows comes in all the same, at this frontend and until PostgreSQL is back.
            directory.hold_session(secret, principal, LIFE_S, SESSIONS_OF_USER_MAX)
        return KeySession(principal=principal, secret=secret)

    async def _insert_key_session(self, principal: Principal, secret: str, user_agent: str) -> None:
        row = {"hash": hash_secret(secret), "key_id": principal.key_id, "user_agent": user_agent[:_USER_AGENT_MAX]}
        async with self._database.transaction() as tx:
            if not await audit.list_active_principals(tx, {principal.key_id}):
                # Memory is behind: the key has just been revoked, or went with its node.
                raise NotAuthenticated("This API key was revoked.", hint="Log in with another one.")
            await store.insert_session(tx, row, LIFE_S)
            await store.prune_sessions(tx, principal.key_id, SESSIONS_OF_USER_MAX)
            await audit.record(tx, principal.name, "session.open", principal.key_id)
            await outbox.append(tx, "session.opened", principal.key_id)

    async def enter(self, identity: Identity, user_agent: str = "") -> Opened:
        """Whom a provider vouches for comes in. The first time they become a user; what they may is told each time."""
        async with self._database.transaction() as tx:
            user = await store.find_by_subject(tx, identity.issuer, identity.subject)
            if user is None:
                user = await users.create_user(tx, self._ids, _wish_of(identity), actor=identity.issuer)
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


def _wish_of(identity: Identity) -> users.UserWish:
    return users.UserWish(name=identity.name, scope=identity.scope, issuer=identity.issuer, subject=identity.subject)


async def open_session(tx: Transaction, ids: Ids, user: User, user_agent: str = "") -> Opened:
    secret = make_secret(SESSION_PREFIX, ids)
    row = {"hash": hash_secret(secret), "user_id": user.id, "user_agent": user_agent[:_USER_AGENT_MAX]}
    await store.insert_session(tx, row, LIFE_S)
    await store.prune_sessions(tx, user.id, SESSIONS_OF_USER_MAX)
    await audit.record(tx, user.name, "session.open", user.id)
    await outbox.append(tx, "session.opened", user.id)
    return Opened(user=user, secret=secret)
