"""`python -m tools.page [build|check|test]`: the web page of `ui/`, made with Node.

build   the built page, if it is missing or older than its sources: into a folder beside, then swapped in whole
check   format, lint and types of the sources
test    their tests

Guarantee: one builder at a time; a second one waits, and mostly has nothing left to do. What is built is a
whole page or the one before. How far it is stands in `built/state.json`, which frontends show at `/app/` while there
is no page. Without Node nothing fails that does not need it: the state says what to do.

Limit: a builder that is killed outright leaves "building" behind until the next one runs.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.source import ROOT

NODE_MIN = (20, 19)
INSTALL_LIMIT_S = 900
BUILD_LIMIT_S = 600
_LINES_SHOWN = 15
# Packages for other machines, which npm leaves out here.
_MAY_LACK = {"optional", "devOptional", "peer", "link"}
_VERSION = re.compile(r"v(\d+)\.(\d+)\.")
# Folders of `ui/` that a build does not read.
_NOT_SOURCES = frozenset({"node_modules", "coverage", "dist", ".vite", "tests"})
_NODE_HINT = "Install Node 20.19 or newer, then: `make page`. The API and the command line work without it."
# In the background, the cluster that starts at the same time gets the processor first.
_NICENESS = 10


class PageProblem(Exception):
    """Raised when the web page cannot be built: a state for the frontends, a sentence and a hint."""

    def __init__(self, state: str, sentence: str, hint: str) -> None:
        super().__init__(sentence)
        self.state = state
        self.sentence = sentence
        self.hint = hint


@dataclass(frozen=True, slots=True)
class PageFolders:
    """Holds the folders that the build of the web page uses."""

    root: Path = ROOT

    @property
    def ui(self) -> Path:
        return self.root / "ui"

    @property
    def built(self) -> Path:
        return self.root / "src" / "corral" / "api" / "page" / "built"

    @property
    def work(self) -> Path:
        """Return the folder for the build: on the same disk as the built folder, and outside of it."""
        return self.root / ".cache" / "page"

    @property
    def log(self) -> Path:
        return self.work / "build.log"


def build_page(places: PageFolders) -> bool:
    """Build the page if needed; True if it was built now, False if it was up to date. `PageProblem`: there is no new
    page."""
    if is_fresh(places):
        return False
    with hold_build_lock(places):
        sources = hash_sources(places)
        if _stamp(places.built) == sources:
            return False
        try:
            _write_built_state(
                places,
                "building",
                "The web page is being built.",
                "It opens here by itself. The first time takes a minute.",
            )
            npm = find_npm()
            _print_notice("Building the web page")
            ensure_modules(places, npm)
            _build_beside(places, npm, sources)
        except PageProblem as problem:
            _write_built_state(places, problem.state, problem.sentence, problem.hint)
            raise
        except KeyboardInterrupt:
            _write_built_state(places, "failed", "Building the web page was interrupted.", "`make page` builds it.")
            raise
    return True


def is_fresh(places: PageFolders) -> bool:
    """Whether the page exists and is made from the sources in `ui/`. Without `ui/`, as in a wheel, any page is
    fresh."""
    if not places.ui.is_dir():
        return (places.built / "index.html").is_file()
    return _stamp(places.built) == hash_sources(places)


def hash_sources(places: PageFolders) -> str:
    """Return a hash of everything that a build reads: names and contents, in a fixed order."""
    found = hashlib.sha256()
    for path in _sources(places.ui):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        found.update(f"{path.relative_to(places.ui).as_posix()}\0{content}\n".encode())
    return found.hexdigest()


def _sources(folder: Path) -> list[Path]:
    found = []
    for where, below, names in os.walk(folder):
        below[:] = [name for name in below if name not in _NOT_SOURCES]
        found += [Path(where, name) for name in names if ".test." not in name]
    return sorted(found)


@contextlib.contextmanager
def hold_build_lock(places: PageFolders) -> Iterator[None]:
    places.work.mkdir(parents=True, exist_ok=True)
    with (places.work / "lock").open("a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _print_notice("Another process is building the web page; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find_npm() -> str:
    """Return the path of npm, of a Node that is new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise PageProblem("no_node", "Building the web page needs Node, which is not installed.", _NODE_HINT)
    version = subprocess.run(
        [node, "--version"], capture_output=True, text=True, check=False, timeout=30
    ).stdout.strip()
    found = _VERSION.match(version)
    if found is None or (int(found[1]), int(found[2])) < NODE_MIN:
        sentence = (
            f"Building the web page needs Node 20.19 or newer; {version or 'one without a version'} is installed."
        )
        raise PageProblem("no_node", sentence, _NODE_HINT)
    return npm


def ensure_modules(places: PageFolders, npm: str) -> None:
    """Install the packages of the lock file, unless npm's own note says that they are installed."""
    noted, lock = places.ui / "node_modules" / ".package-lock.json", places.ui / "package-lock.json"
    if noted.is_file() and noted.stat().st_mtime_ns >= lock.stat().st_mtime_ns and not _is_incomplete(noted, lock):
        return
    _print_notice("Installing what the web page is built with (once)")
    # Not `npm ci`: it refuses a lock file that names a tool's programs for this kind of machine and not for all others.
    arguments = [npm, "install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"]
    _run(places, arguments, INSTALL_LIMIT_S, "What the web page is built with could not be installed.")


def _is_incomplete(noted: Path, lock: Path) -> bool:
    """Whether a package of the lock file is neither installed nor for another machine."""
    try:
        locked, installed = (json.loads(path.read_text(encoding="utf-8"))["packages"] for path in (lock, noted))
    except (ValueError, KeyError):
        return True
    needed = {name for name, facts in locked.items() if name and not facts.keys() & _MAY_LACK}
    return not needed <= installed.keys()


def _build_beside(places: PageFolders, npm: str, sources: str) -> None:
    beside = places.work / "next"
    shutil.rmtree(beside, ignore_errors=True)
    failed = "Building the web page failed."
    _run(places, [npm, "run", "build"], BUILD_LIMIT_S, failed, PAGE_OUT=str(beside))
    if not (beside / "index.html").is_file():
        raise PageProblem("failed", f"{failed} There is no index.html.", _log_hint(places))
    (beside / "stamp.json").write_text(json.dumps({"sources": sources}), encoding="utf-8")
    _write_state(beside, "done", "The web page is built.", "")
    swap_in(places, beside)


def swap_in(places: PageFolders, beside: Path) -> None:
    """Swap the new page in by two renames: between them there is no page, and frontends go on with the one that they
    have."""
    old = places.work / "old"
    shutil.rmtree(old, ignore_errors=True)
    places.built.parent.mkdir(parents=True, exist_ok=True)
    if places.built.exists():
        places.built.rename(old)
    beside.rename(places.built)
    shutil.rmtree(old, ignore_errors=True)


def _run(places: PageFolders, arguments: list[str], limit_s: float, sentence: str, **environment: str) -> None:
    """Run npm in `ui/`; its output is kept, and the end of it shown when it fails."""
    places.work.mkdir(parents=True, exist_ok=True)
    with places.log.open("w", encoding="utf-8") as log:
        try:
            done = subprocess.run(
                arguments,
                cwd=places.ui,
                env=os.environ | {"NO_COLOR": "1"} | environment,
                stdout=log,
                stderr=log,
                check=False,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired as error:
            raise PageProblem(
                "failed", f"{sentence} It took longer than {limit_s:.0f} s.", _log_hint(places)
            ) from error
    if done.returncode:
        for line in places.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES_SHOWN:]:
            _print_notice(f"  {line}")
        raise PageProblem("failed", sentence, _log_hint(places))


def _log_hint(places: PageFolders) -> str:
    return f"The reason is at the end of {places.log.relative_to(places.root)}; then: `make page`."


def _stamp(built: Path) -> str | None:
    try:
        found = json.loads((built / "stamp.json").read_text(encoding="utf-8"))["sources"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(found) if (built / "index.html").is_file() else None


def _write_built_state(places: PageFolders, state: str, sentence: str, hint: str) -> None:
    places.built.mkdir(parents=True, exist_ok=True)
    _write_state(places.built, state, sentence, hint)


def _write_state(folder: Path, state: str, sentence: str, hint: str) -> None:
    """Write the state whole or not at all, because frontends read it meanwhile."""
    beside = folder / ".state.json"
    beside.write_text(json.dumps({"state": state, "sentence": sentence, "hint": hint}), encoding="utf-8")
    beside.replace(folder / "state.json")


def run_script(places: PageFolders, script: str) -> int:
    """Run `npm run …` in the foreground."""
    npm = find_npm()
    with hold_build_lock(places):
        ensure_modules(places, npm)
    return subprocess.run([npm, "run", "--silent", script], cwd=places.ui, check=False).returncode


def main(arguments: list[str], places: PageFolders | None = None) -> int:
    places = places or PageFolders()
    parser = argparse.ArgumentParser(prog="python -m tools.page", description="The web page of ui/, made with Node.")
    parser.add_argument("what", nargs="?", choices=["build", "check", "test"], default="build")
    parser.add_argument("--beside", action="store_true", help="something else starts meanwhile, and comes first")
    parser.add_argument("--may-lack", action="store_true", help="without Node it is left out, except in a CI")
    chosen = parser.parse_args(arguments)
    if chosen.beside:
        # A shell lets its background jobs ignore Ctrl-C; this one has to end with the program beside it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.nice(_NICENESS)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if chosen.what != "build":
            return run_script(places, chosen.what)
        was_built = build_page(places)
    except PageProblem as problem:
        may_skip = chosen.may_lack or chosen.what != "build"
        return _show(problem, may_skip=may_skip and problem.state == "no_node")
    except KeyboardInterrupt:
        return 130
    if was_built or not chosen.beside:
        _print_notice("The web page is built" if was_built else "The web page is up to date")
    return 0


def _show(problem: PageProblem, *, may_skip: bool) -> int:
    """Print a problem. Without Node a check of Python code may skip the page; a CI must not skip it."""
    if may_skip and not os.environ.get("CI"):
        _print_notice(f"skipped: {problem.sentence}\n\nhint: {problem.hint}")
        return 0
    _print_notice(f"error: {problem.sentence}\n\nhint: {problem.hint}")
    return 1


def _print_notice(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
