"""`python -m tools.browser`: finds or installs a Chromium for the tests of the web page.

It uses the one that CHROMIUM names, one on the path, or one that Playwright has fetched. Else it installs one, from the
distribution where that can be done (Debian, as root), or by Playwright. Nothing fails without one: the tests that need
it then say that they are skipped, except in a CI, which must not leave them out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

VARIABLE = "CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Flags for a shared machine: no graphics card, little shared memory.
ARGUMENTS = ("--disable-gpu", "--disable-dev-shm-usage")
LIMIT_S = 900
_LINES_SHOWN = 5
_HINT = "Install Chromium and set CHROMIUM to its path, or put it on the PATH; then: make test"


def find_browser() -> str | None:
    """Return the program, or None if there is none on this machine."""
    named = os.environ.get(VARIABLE)
    if named:
        return shutil.which(named)
    return next((found for name in NAMES if (found := shutil.which(name))), None) or _of_playwright()


def list_arguments() -> list[str]:
    """Return the arguments for this machine: Chromium's own sandbox does not work for root."""
    return [*ARGUMENTS, *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else [])]


def _of_playwright() -> str | None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - what is on the path is found without it

    with sync_playwright() as playwright:
        fetched = playwright.chromium.executable_path
    return fetched if Path(fetched).is_file() else None


def main() -> int:
    if find_browser() is not None:
        return 0
    if os.environ.get(VARIABLE):
        return _without(f"{VARIABLE} names a program that is not there")
    print("Fetching Chromium for the tests of the web page (once)", file=sys.stderr, flush=True)
    problems = [_from_debian(), *([] if find_browser() else [_from_playwright()])]
    return 0 if find_browser() else _without("; ".join(problem for problem in problems if problem))


def _without(reason: str) -> int:
    is_ci = bool(os.environ.get("CI"))
    word = "error" if is_ci else "skipped"
    print(f"{word}: There is no Chromium for the tests of the web page ({reason}).\n\nhint: {_HINT}", file=sys.stderr)
    return 1 if is_ci else 0


def _from_debian() -> str:
    """Install the distribution's package; return what went wrong, or nothing."""
    if shutil.which("apt-get") is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return ""
    problem = _run(["apt-get", "update", "-qq"])
    # The known package lists may be enough, also when updating them has failed.
    return _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"]) and (
        problem or "apt-get could not install chromium"
    )


def _from_playwright() -> str:
    return _run([sys.executable, "-m", "playwright", "install", "chromium"]) and "Playwright could not fetch it"


def _run(command: list[str]) -> str:
    """Run a command; return the end of its output if it failed, else nothing."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-_LINES_SHOWN:]
    print(*(f"  {line}" for line in lines), sep="\n", file=sys.stderr, flush=True)
    return lines[-1] if lines else f"{command[0]} ended with {done.returncode}"


if __name__ == "__main__":
    sys.exit(main())
