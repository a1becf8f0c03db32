"""Creates a new admin key directly in the registry, for `corral keys recover`."""

from __future__ import annotations

import getpass
import socket

from corral.access.keys import KeySpec, create_key
from corral.access.secrets import hash_secret
from corral.adapters.system import SystemIdGenerator
from corral.domain.access import Scope
from corral.domain.errors import Conflict
from corral.store.access import find_principal
from corral.store.database import Database


async def make_admin_key(database_url: str, current: str | None) -> str:
    """Make an admin key in the registry and return its secret; refuse if `current` is one that works."""
    database = Database(database_url)
    try:
        async with database.transaction() as tx:
            holder = await find_principal(tx, hash_secret(current)) if current else None
            if holder is not None and holder.is_admin:
                raise Conflict(
                    "The admin key of this home works: there is nothing to recover.",
                    hint="`corral keys rotate` replaces it.",
                    code="key_works",
                )
            spec = KeySpec(name="admin", scope=Scope.ADMIN)
            _, secret = await create_key(
                tx, SystemIdGenerator(), spec, f"recovery by {_find_user_name()} on {socket.gethostname()}"
            )
        return secret
    finally:
        await database.close()


def _find_user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A user without a name, as in a container.
        return "unknown user"
