"""`corral` and `python -m corral`."""

from __future__ import annotations

import gc
import sys

# Until the command is found (`cli/main.py`): objects that imports make live as long as the process, and a garbage
# collection that looks through them would be a part of every start.
gc.disable()

from corral.cli.main import on_uncaught_error, prepare_streams, run  # noqa: E402 - without collections, see above


def main() -> int:
    sys.excepthook = on_uncaught_error
    prepare_streams()
    return run()


if __name__ == "__main__":
    sys.exit(main())
