"""Passwords: made into a hash that is slow on purpose, and checked against one.

scrypt with 32 MiB for each try: a stolen table is expensive to search. The work is done in threads, a few at a time, so
that a flood of tries takes neither the loop nor the memory. The threads are its own: those of the loop may all wait for
a disk or a name server, and nobody could log in to see why.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from corral.domain.errors import LimitReached
from corral.ports.runtime import Ids

# 2**15 blocks of 8 * 128 bytes: 32 MiB and about a tenth of a second.
_COST: Final = (2**15, 8, 1)
_MEMORY_BYTES_MAX: Final = 64 * 1024 * 1024
_KEY_BYTES: Final = 32
AT_ONCE: Final = 2
# About six seconds of work; whoever comes then would wait longer than a person does.
WAITING_MAX: Final = 128
# What an unknown name is checked against, so that it takes as long as a known one.
_NOBODY: Final = "scrypt$32768$8$1$bm9ib2R5$" + b64encode(bytes(_KEY_BYTES)).decode()


class Passwords:
    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        # They start with the first password, and end with this object.
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="password")
        self._waiting = 0

    async def hashed(self, password: str) -> str:
        salt = self._ids.secret().encode()
        key = await self._derive(password, salt, _COST)
        return "$".join(("scrypt", *map(str, _COST), b64encode(salt).decode(), b64encode(key).decode()))

    async def is_right(self, password: str, expected: str | None) -> bool:
        """Takes as long when there is nobody to compare with."""
        _, *cost, salt, key = (expected or _NOBODY).split("$")
        n, r, p = map(int, cost)
        derived = await self._derive(password, b64decode(salt), (n, r, p))
        return hmac.compare_digest(derived, b64decode(key)) and expected is not None

    async def _derive(self, password: str, salt: bytes, cost: tuple[int, int, int]) -> bytes:
        if self._waiting >= WAITING_MAX:
            raise LimitReached("Too many people are logging in at once.", details={"retry_after_s": 5})
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, _scrypt, password, salt, cost)
        finally:
            self._waiting -= 1


def _scrypt(password: str, salt: bytes, cost: tuple[int, int, int]) -> bytes:
    n, r, p = cost
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=_MEMORY_BYTES_MAX, dklen=_KEY_BYTES)
