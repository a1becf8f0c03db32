"""Requests that were answered, and what PostgreSQL says of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import select

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.domain.usage import HOUR_S, RequestRecord, UsageBucket, UsageSums
from corral.metering.usage_shipper import ShippingStep, UsageShipper
from corral.store.database import Database
from corral.store.schema import usage

# An hour of 2026.
HOUR = 494_000
KEY = "0198c0de-0000-7000-8000-000000000001"
CHAT: UsageBucket = (HOUR, KEY, "llama", "chat", "node-1")


def answered(**changes: Any) -> RequestRecord:
    """A successful chat, with 10 tokens of prompt and 5 of answer."""
    values: dict[str, Any] = {
        "request_id": "r-1",
        "key_id": KEY,
        "model": "llama",
        "call": "chat",
        "status": 200,
        "replica_id": "replica-1",
        "node_name": "node-1",
        "began_at": HOUR * HOUR_S + 12.5,
        "queue_s": 0.0,
        "first_byte_s": 0.01,
        "total_s": 0.02,
        "prompt_tokens": 10,
        "cached_tokens": 4,
        "completion_tokens": 5,
    }
    return RequestRecord(**values | changes)


def sums_of(count: int) -> UsageSums:
    """What so many of `answered()` come to."""
    return UsageSums(requests=count, prompt_tokens=10 * count, cached_tokens=4 * count, completion_tokens=5 * count)


def metering(
    database: Database, root: Path | None, passed: Callable[[ShippingStep], None] = lambda _: None
) -> UsageShipper:
    return UsageShipper(database, SystemClock(), SystemIdGenerator(), root, on_step=passed)


def leave(made: UsageShipper) -> None:
    """As a killed process leaves its spool: unlocked, with everything in it."""
    for descriptor in (made.spool._lock, made.spool._file):
        if descriptor is not None:
            os.close(descriptor)


async def counted(database: Database) -> dict[UsageBucket, UsageSums]:
    """All that is in the table."""
    names = tuple(UsageSums.__dataclass_fields__)
    async with database.transaction() as tx:
        rows = await tx.execute(select(usage))
        return {
            (int(row.hour.timestamp()) // HOUR_S, row.key_id, row.model, row.call, row.node): UsageSums(
                **{name: getattr(row, name) for name in names}
            )
            for row in rows
        }


def files(root: Path) -> list[str]:
    """Every file under the root that is no lock."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.name != "lock")
