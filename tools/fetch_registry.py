"""`python -m tools.fetch_registry`: fetches a real container registry for the tests, without root.

The binary comes out of the distribution's own package and stays in .cache. Nothing happens where a registry is
installed already or packages cannot be fetched; the tests that need one then say that they are skipped.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.source import ROOT

PACKAGE = "docker-registry"
FOLDER = ROOT / ".cache" / "registry"
LIMIT_S = 120


def find_registry() -> str | None:
    """Return the program, or None if there is none on this machine."""
    fetched = FOLDER / "usr" / "bin" / PACKAGE
    return str(fetched) if fetched.is_file() else shutil.which(PACKAGE)


def main() -> int:
    """Fetch the registry if possible. Never fails: the product does not need it."""
    if find_registry() is not None:
        return 0
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        print(f"{PACKAGE} cannot be fetched here; tests of registries will be skipped", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        problem = _fetch(Path(folder))
    if problem:
        print(f"{PACKAGE} was not fetched ({problem}); tests of registries will be skipped", file=sys.stderr)
    return 0


def _fetch(folder: Path) -> str:
    """Fetch the package into a folder; return what went wrong, or nothing."""
    try:
        _run(["apt-get", "download", PACKAGE], folder)
        packages = list(folder.glob("*.deb"))
        if len(packages) != 1:
            return "there is no such package"
        unpacked = folder / "unpacked"
        _run(["dpkg", "-x", str(packages[0]), str(unpacked)], folder)
        FOLDER.parent.mkdir(exist_ok=True)
        shutil.rmtree(FOLDER, ignore_errors=True)
        shutil.move(unpacked, FOLDER)
    except subprocess.CalledProcessError as error:
        return str(error.stderr).strip().rpartition("\n")[2]
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return ""


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
