"""Sessions: what a browser shows instead of a key, for a day after its user came in."""

from __future__ import annotations

from dataclasses import dataclass

from corral.access import users
from corral.access.directory import Directory
from corral.access.oidc import Identity, Oidc
from corral.access.passwords import Passwords
from corral.access.secrets import hash_secret, make_secret
from corral.access.throttle import Throttle
from corral.domain.access import SESSION_PREFIX, Principal, User
from corral.domain.errors import NotAllowed, NotAuthenticated
from corral.ports.runtime import Clock, Ids
from corral.store import access as audit
from corral.store import access_users as store
from corral.store import outbox
from corral.store.database import Database, Transaction

# Fixed: a day is a working day, and a session that slides would never end on a page that polls.
LIFE_S = 24 * 3600
SESSIONS_OF_USER_MAX = 20
WRONG_PASSWORDS_PER_MINUTE = 5
WRONG_KEYS_PER_MINUTE = 5
_USER_AGENT_MAX = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    user: User
    secret: str


class Sessions:
    """The ways in, with a password and by a provider, and the way out."""

    def __init__(self, database: Database, clock: Clock, ids: Ids, oidc: Oidc | None = None) -> None:
        self._database = database
        self._ids = ids
        # None: the settings name no provider.
        self.oidc = oidc
        self.passwords = Passwords(ids)
        sentence = "There were too many wrong passwords for this name."
        self._throttle = Throttle(clock, WRONG_PASSWORDS_PER_MINUTE, sentence)
        self._key_throttle = Throttle(clock, WRONG_KEYS_PER_MINUTE, "There were too many wrong keys from this address.")

    async def log_in(self, name: str, password: str, user_agent: str = "") -> Opened:
        name = name.lower()
        self._throttle.count(name)
        async with self._database.transaction() as tx:
            found = await store.find_password(tx, name)
        # Not inside the transaction: it takes its time, on purpose.
        is_right = await self.passwords.is_right(password, found[1] if found else None)
        if found is None or not is_right:
            # One sentence for both: who asks shall not learn which names there are.
            raise NotAuthenticated("Name or password is wrong.", code="password_wrong")
        self._throttle.forget(name)
        async with self._database.transaction() as tx:
            return await open_session(tx, self._ids, found[0], user_agent)

    async def show_key(self, directory: Directory, key: str, address: str) -> Principal:
        """Whose key a browser shows to come in. Its cookie is the key itself, so the session ends when the key does.

        Wrong ones are counted by the address that they come from. A key that memory knows is not counted: whoever
        shares an address with somebody who guesses can come in all the same.
        """
        known = directory.known(key)
        if known is not None:
            return known
        self._key_throttle.count(address)
        principal = await directory.principal(key)
        self._key_throttle.forget(address)
        return principal

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

    async def log_out(self, secret: str) -> None:
        async with self._database.transaction() as tx:
            user_id = await store.delete_session(tx, hash_secret(secret))
            if user_id is not None:
                await outbox.append(tx, "session.closed", user_id)


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
