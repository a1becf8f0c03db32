"""A process with a spool and nothing else, for tests that kill it.

Usage: meter.py DATABASE_URL ROOT REQUESTS STEP [FILE_LIMIT_BYTES]
It answers so many requests, says so, makes a pass, and kills itself at the step; `never` lets it come to its end.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path

from corral.metering.usage_shipper import ShippingStep
from corral.store.database import Database
from tests.metering.scene import answered, metering


async def main(url: str, root: str, requests: str, step: str, limit_bytes: str = "") -> None:
    if limit_bytes:
        # The kernel cuts the write that reaches the limit, and refuses the next: as a full disk does.
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit_bytes), int(limit_bytes)))

    def passed(now: ShippingStep) -> None:
        if now == step:
            os.kill(os.getpid(), signal.SIGKILL)

    database = Database(url)
    made = metering(database, Path(root), passed)
    await made.start()
    for _ in range(int(requests)):
        made.spool.on_requests_ended(answered())
    sys.stdout.write(f"answered {requests}\n")
    sys.stdout.flush()
    if step == "answered":
        os.kill(os.getpid(), signal.SIGKILL)
    await made.tick()
    await made.stop()
    await database.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
