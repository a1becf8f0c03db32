"""`python -m corral.runner`: starts the runner process, or says what is not installed."""

from __future__ import annotations

import sys

from corral.domain.errors import INSTALL_HINT


def main() -> None:
    try:
        from corral.runner.program import run_program
    except ModuleNotFoundError as error:
        sys.exit(f"error: {error.name} is not installed\n\nhint: {INSTALL_HINT.format(extra='agents')}")
    run_program()


if __name__ == "__main__":
    main()
