"""`corral worker` on a machine whose wall clock is wrong: the first argument says by how many seconds."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta

import corral.app.worker
from corral.__main__ import main
from corral.adapters.system import SystemClock

AHEAD = timedelta(seconds=float(sys.argv.pop(1)))


class SkewedClock(SystemClock):
    def wall(self) -> datetime:
        return super().wall() + AHEAD


# A worker process makes its own clock, so this is the only way in.
vars(corral.app.worker)["SystemClock"] = SkewedClock
sys.exit(main())
