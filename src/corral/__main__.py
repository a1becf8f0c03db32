"""`corral` and `python -m corral`."""

from __future__ import annotations

import sys

from corral.cli.main import prepare_streams, run, show_fault


def main() -> int:
    sys.excepthook = show_fault
    prepare_streams()
    return run()


if __name__ == "__main__":
    sys.exit(main())
