"""The real clock and real randomness."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
import uuid
from datetime import UTC, datetime


class SystemClock:
    """The real clock of the machine. Implements `ports.runtime.Clock`."""

    # The function itself, because a request reads the clock several times and a method around it would cost more.
    monotonic = staticmethod(time.monotonic)

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemIdGenerator:
    """Generates ids and secrets from the machine's randomness. Implements `ports.runtime.IdGenerator`."""

    def new_id(self) -> str:
        """Return a version 7 UUID: 48 bits of milliseconds, then random bits. Such ids sort by age and index well."""
        milliseconds = time.time_ns() // 1_000_000
        value = int.from_bytes(milliseconds.to_bytes(6, "big") + os.urandom(10), "big")
        value = (value & ~(0xF << 76)) | (0x7 << 76)
        value = (value & ~(0x3 << 62)) | (0x2 << 62)
        return str(uuid.UUID(int=value))

    def new_secret(self) -> str:
        return secrets.token_urlsafe(32)
