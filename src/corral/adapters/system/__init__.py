"""The real clock and real randomness."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
import uuid
from datetime import UTC, datetime


class SystemClock:
    # The function itself: a request reads the clock several times, and a method around it costs more than it does.
    monotonic = staticmethod(time.monotonic)

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemIds:
    def new_id(self) -> str:
        """A version 7 UUID: 48 bits of milliseconds, then chance. Sorts by age, indexes well."""
        milliseconds = time.time_ns() // 1_000_000
        value = int.from_bytes(milliseconds.to_bytes(6, "big") + os.urandom(10), "big")
        value = (value & ~(0xF << 76)) | (0x7 << 76)
        value = (value & ~(0x3 << 62)) | (0x2 << 62)
        return str(uuid.UUID(int=value))

    def secret(self) -> str:
        return secrets.token_urlsafe(32)
