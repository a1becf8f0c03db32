"""Makes the tables that need the extension `vector`, where PostgreSQL has it, and says so where it has not.

No migration needs the extension: a server without it serves everything but collections. The server of `corral up` has
it, and there frontends may install it. Elsewhere an admin does so once: CREATE EXTENSION vector.
"""

from __future__ import annotations

from corral.domain.errors import Unavailable
from corral.store import chunks as store
from corral.store.chunks import VectorSupport
from corral.store.database import Database

# An admin who has installed the extension waits so long until `/readyz` has noticed.
INTERVAL_S = 60.0
_HINT = "An admin of the server installs pgvector, then runs in Corral's database: CREATE EXTENSION vector"


class VectorTables:
    """Knows whether this cluster can have collections, and makes their tables with the first one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._problem: str | None = None
        self._indexed: set[int] = set()
        self._has_table = False

    def describe_problem(self) -> str | None:
        """Return why there can be no collections, for `/readyz`; None if there can, or before the first look."""
        return self._problem

    async def tick(self) -> None:
        """Look whether the server has the extension."""
        if not self._has_table:
            async with self._database.transaction() as tx:
                self._note(await store.read_support(tx))

    async def require(self) -> None:
        """Make the tables if they are missing. Raises `Unavailable` if the server does not have the extension."""
        if self._has_table:
            return
        async with self._database.transaction() as tx:
            support = await store.read_support(tx)
            self._note(support)
            if self._problem is not None:
                raise Unavailable(self._problem, hint=_HINT, code="no_vector_extension")
            if not support.has_table:
                await store.create_table(tx, installs=not support.is_installed)
        self._has_table = True

    async def require_index(self, dimension: int) -> None:
        """Make the index for embeddings of this length if it is missing."""
        if dimension in self._indexed:
            return
        async with self._database.transaction() as tx:
            await store.create_index(tx, dimension)
        self._indexed.add(dimension)

    def _note(self, support: VectorSupport) -> None:
        self._has_table = support.has_table
        self._problem = _find_problem(support)


def _find_problem(support: VectorSupport) -> str | None:
    if support.has_table or support.is_installed or (support.is_available and support.may_install):
        return None
    if support.is_available:
        return "There are no collections: the extension vector of PostgreSQL is not installed in Corral's database."
    return "There are no collections: the PostgreSQL server does not have the extension vector (pgvector)."
