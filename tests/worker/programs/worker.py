"""`corral worker` as a process of its own: settings from the environment, errors as the command line prints them."""

from __future__ import annotations

import sys

from corral.app.settings import WorkerSettings, load_settings
from corral.app.worker import run_worker
from corral.domain.errors import CorralError


def main() -> int:
    try:
        return run_worker(load_settings(WorkerSettings).settings)
    except CorralError as error:
        print(f"error: {error.message}\n\nhint: {error.hint}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
