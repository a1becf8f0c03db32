"""What there is of the page: the built files in memory, or why there are none.

Guarantee: requests are answered from memory. Whether the folder has changed is looked at when somebody asks, at most
once a second, in a thread; it is read anew when its stamp is another. A page that is built while the frontend runs
appears by itself, and files of the build before stay for the browsers that still show it. A folder that vanishes, or
is swapped while it is read, changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from corral.api.page.assets import INDEX, STAMP, STATE, Asset, read_assets
from corral.ports.runtime import Clock

log = structlog.get_logger(__name__)

BUILT = Path(__file__).parent / "built"
LOOK_EVERY_S = 1.0
_STATE_BYTES_MAX = 16 * 1024

# Which file it is, when it was written, how large it is; None: it is not there.
_Mark = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Why there is no page."""

    sentence: str
    hint: str
    # It will be there soon: whoever waits is told to look again.
    is_building: bool = False


NEVER_BUILT = Missing(
    sentence="The web page has not been built.",
    hint=(
        "In a clone of the source `make page` builds it, with Node 20.19 or newer; a wheel of `make dist` has it in it."
        " The API and the command line work without it."
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One look at the folder."""

    marks: tuple[_Mark, ...] = ()
    files: Mapping[str, Asset] = field(default_factory=dict)
    missing: Missing | None = NEVER_BUILT


class Page:
    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._shown = Shown()
        # Of the build before the present one.
        self._old: Mapping[str, Asset] = {}
        self._looked_at: float | None = None
        self._looking = asyncio.Lock()

    async def missing(self) -> Missing | None:
        """Why there is no page; None: there is one."""
        await self._look()
        return self._shown.missing

    async def find(self, name: str) -> Asset | None:
        """A file of the page. Names that are not known cost no more than others."""
        found = self._found(name)
        if found is None or not found.is_forever:
            await self._look()
            found = self._found(name)
        return found

    def _found(self, name: str) -> Asset | None:
        found = self._shown.files.get(name)
        if found is None:
            old = self._old.get(name)
            found = old if old is not None and old.is_forever else None
        return found

    async def _look(self) -> None:
        async with self._looking:
            now = self._clock.monotonic()
            if self._looked_at is not None and now - self._looked_at < LOOK_EVERY_S:
                return
            self._looked_at = now
            read = await asyncio.to_thread(_read, self._folder, self._shown.marks)
            if read is None:
                return
            if read.missing is not None and self._shown.missing is None:
                # What was there is still good: somebody is building, or has cleaned up.
                return
            if self._shown.missing is None:
                self._old = self._shown.files
            self._shown = read
            if read.missing is None:
                log.info("page read", files=len(read.files))


def _read(folder: Path, known: tuple[_Mark, ...]) -> Shown | None:
    """None: as it was, or not to be read just now."""
    marks = _marks(folder)
    if marks == known:
        return None
    if marks[0] is None:
        return Shown(marks=marks, missing=_why(folder))
    try:
        files = read_assets(folder)
    except OSError:
        return None
    # Swapped meanwhile: some files may be of the one build and some of the other.
    return Shown(marks=marks, files=files, missing=None) if _marks(folder) == marks and INDEX in files else None


def _marks(folder: Path) -> tuple[_Mark, ...]:
    """The index tells whether there is a page, the stamp which one, the state why there is none."""
    return tuple(_mark(folder / name) for name in (INDEX, STAMP, STATE))


def _mark(path: Path) -> _Mark:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _why(folder: Path) -> Missing:
    """What the builder says; see `tools/page.py`."""
    try:
        with (folder / STATE).open(encoding="utf-8") as file:
            told = json.loads(file.read(_STATE_BYTES_MAX))
        return Missing(sentence=str(told["sentence"]), hint=str(told["hint"]), is_building=told["state"] == "building")
    except (OSError, ValueError, KeyError, TypeError):
        return NEVER_BUILT
