"""All tests, and those that failed once more, alone: `python -m tools.run_tests [arguments of pytest]`.

Tests with real processes share the machine with others. One that fails beside them and passes alone is told, to be
looked at, and does not stop a change; one that is broken fails twice. Many failures are no accident: no second try.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

AGAIN_MAX = 10
# Read by tests/conftest.py. Not CORRAL_…: that would be a setting which nobody knows.
FAILED_TO = "TESTS_FAILED_TO"
_SOME_FAILED = 1


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        failed_to = Path(folder) / "failed"
        code = _pytest([*arguments], {FAILED_TO: str(failed_to)})
        failed = failed_to.read_text(encoding="utf-8").splitlines() if failed_to.exists() else []
    if code != _SOME_FAILED or not 0 < len(failed) <= AGAIN_MAX:
        return code
    print(f"\n{len(failed)} failed; once more, alone:", *failed, sep="\n  ", flush=True)
    code = _pytest(["-p", "no:xdist", "-p", "no:randomly", *failed], {})
    if code == 0:
        print("They passed alone. Whoever sees the same one twice should look at it.", flush=True)
    return code


def _pytest(arguments: list[str], told: dict[str, str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], env=os.environ | told, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
