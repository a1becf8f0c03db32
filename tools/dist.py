"""`python -m tools.dist`: build the wheel and the source archive of this commit into `dist/`.

Guarantee: the same commit and the same built page give the same bytes, on any machine and at any time: every file has
the time of the commit (`SOURCE_DATE_EPOCH`), a mode that no umask changes, and its place in a sorted list.
Limit: the page has to be built before; `make dist` sees to it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tools.source import ROOT

BUILT_PAGE = "src/corral/api/page/built/index.html"
KINDS = ("wheel", "sdist")


def main() -> int:
    if not (ROOT / BUILT_PAGE).is_file():
        print("error: the web page is not built, and the wheel is to hold it\n\nhint: make page", file=sys.stderr)
        return 1
    for path in build(ROOT, ROOT / "dist", read_commit_time(ROOT)):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(ROOT)}")
    return 0


def build(source: Path, folder: Path, epoch_s: int, kinds: tuple[str, ...] = KINDS) -> list[Path]:
    """Build these kinds of archive from the checkout `source` and return their paths. No network is used."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("corral-*"):
        path.unlink()
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    for kind in kinds:
        command += ["-t", kind]
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch_s)}
    subprocess.run(command, cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL)
    return sorted(folder.glob("corral-*"))


def read_commit_time(source: Path) -> int:
    """Return when the commit was made that is checked out."""
    logged = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=source, check=True, capture_output=True, text=True
    )
    return int(logged.stdout)


if __name__ == "__main__":
    sys.exit(main())
