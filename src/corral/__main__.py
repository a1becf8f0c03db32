"""`corral` and `python -m corral`."""

from __future__ import annotations

import gc
import sys

# Until the command is found (`cli/lazy.py`): what imports make lives as long as the process, and looking through it is
# a part of every start.
gc.disable()

from corral.cli.main import prepare_streams, run, show_fault  # noqa: E402 - without collections, see above


def main() -> int:
    sys.excepthook = show_fault
    prepare_streams()
    return run()


if __name__ == "__main__":
    sys.exit(main())
