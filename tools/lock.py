"""`python -m tools.lock`: compile the hash-pinned requirement files again.

They hold for every platform and every supported Python, and name no package index: an address would send the users
of another person's mirror to a machine that cannot reach it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tools.source import ROOT

FOLDER = "requirements"
# Shipped with the package: frontends give it to machines that join.
WORKER = "src/corral/api/join/requirements.txt"
OPTIONS = (
    "--universal",
    "--python-version=3.11",
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-header",
    "--no-annotate",
    "--quiet",
)
# The input files of each output. The order matters: the others are held to what run.txt has chosen.
SOURCES = {
    f"{FOLDER}/run.txt": ("--extra=embedded", "pyproject.toml"),
    # With the runner's, as any worker may be started with places for runs later.
    WORKER: ("--extra=agents", f"--constraint={FOLDER}/run.txt", "pyproject.toml"),
    f"{FOLDER}/build.txt": (f"{FOLDER}/build.in",),
    f"{FOLDER}/dev.txt": (f"{FOLDER}/dev.in",),
}
_ADDRESS = re.compile(r"(?:https?|file)://\S+|--(?:extra-)?index-url|--find-links|--trusted-host")


def main() -> int:
    uv = _uv()
    if uv is None:
        print("error: uv is not installed\n\nhint: make dev", file=sys.stderr)
        return 1
    for target, sources in SOURCES.items():
        done = subprocess.run([uv, "pip", "compile", *OPTIONS, "-o", target, *sources], cwd=ROOT, check=False)
        if done.returncode:
            return done.returncode
        addresses = find_addresses((ROOT / target).read_text(encoding="utf-8"))
        if addresses:
            print(f"error: {target} names an address: {addresses[0]}", file=sys.stderr)
            return 1
        print(f"wrote {target}")
    return 0


def find_addresses(text: str) -> list[str]:
    return _ADDRESS.findall(text)


def _uv() -> str | None:
    """Return the uv beside this Python, or else one on the path."""
    beside = Path(sysconfig.get_path("scripts")) / "uv"
    return str(beside) if beside.exists() else shutil.which("uv")


if __name__ == "__main__":
    sys.exit(main())
